"""Filters and transforms applied in order, each counted.

A pipeline runs on one block of pairs at a time, in any process: what it does to a pair depends on the pair and the
seed alone. Every pair is either kept or dropped by exactly one step. Duplicates need the whole corpus: here their
hashes are only recorded, and `weft.data.filtering.duplicates` decides afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.data.filtering.steps import Duplicates, Step, StepError
from weft.data.pairs import Pair
from weft.data.reading.text_files import Block
from weft.errors import DataError

KEPT = -1
"""The drop reason of a pair that no step dropped."""


@dataclass(frozen=True)
class Outcome:
    """The result of a pipeline for a list of pairs.

    pairs           the pairs that were kept, in order, as changed
    rows            for each of them its index in the input
    drop_reasons    for each input pair `KEPT`, or the index of the step that dropped it
    hashes          for each `duplicates` step (by index), for each input pair the 64-bit hash of what must not occur
                    twice, as the pair was at that step; None if it was dropped before
    """

    pairs: list[Pair]
    rows: list[int]
    drop_reasons: list[int]
    hashes: dict[int, list[int | None]] = field(default_factory=dict)


class Pipeline:
    """An ordered list of steps; random steps draw from `seed`."""

    def __init__(self, steps: Sequence[Step], *, seed: int) -> None:
        self.steps: tuple[Step, ...] = tuple(steps)
        self.seed = seed
        self._random_steps = [index for index, step in enumerate(self.steps) if step.is_random]

    def for_evaluation(self) -> Pipeline:
        """Only the steps that validation and test pairs go through: no filters, no noise."""
        return Pipeline([step.for_evaluation() for step in self.steps if not step.training_only], seed=self.seed)

    def _keys(self, variant: int) -> dict[int, bytes]:
        """The keys of random steps: two steps draw different numbers, whatever filters are between them."""
        ending = f":{variant}" if variant else ""
        return {index: f"{self.seed}:{number}{ending}".encode() for number, index in enumerate(self._random_steps)}

    def run(self, pairs: Sequence[Pair], variant: int = 0) -> Outcome:
        """Apply all steps to the pairs; random ones draw other numbers for every ``variant``.

        Duplicates are still among the pairs returned, with their hashes.
        """
        keys = self._keys(variant)
        current, rows = list(pairs), list(range(len(pairs)))
        drop_reasons = [KEPT] * len(current)
        hashes: dict[int, list[int | None]] = {}
        for index, step in enumerate(self.steps):
            if isinstance(step, Duplicates):
                by_row: list[int | None] = [None] * len(drop_reasons)
                for row, value in zip(rows, step.hashes(current), strict=True):
                    by_row[row] = value
                hashes[index] = by_row
                continue
            try:
                results = step.apply(current, keys.get(index, b""))
            except StepError as error:
                row = next(row for row, pair in zip(rows, current, strict=True) if error.text in pair[:2])
                error.pair = pairs[row]
                raise
            if all(results):  # a pair is a non-empty tuple, so only None is false
                current = results  # type: ignore[assignment]
                continue
            for row, pair in zip(rows, results, strict=True):
                if pair is None:
                    drop_reasons[row] = index
            rows = [row for row, pair in zip(rows, results, strict=True) if pair is not None]
            current = [pair for pair in results if pair is not None]
        return Outcome(current, rows, drop_reasons, hashes)


def located(error: StepError, blocks: Iterable[Block]) -> DataError:
    """The error with the file and line of its pair, which is searched for in the blocks."""
    where = (f"{block.name}:{number}: " for block in blocks for number, row in block.rows() if row == error.pair)
    return DataError(f"{next(where, '')}{error}")
