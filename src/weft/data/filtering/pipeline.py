"""Filters and transforms in a row, each counted.

A pipeline runs on one block of pairs at a time, in any process: what it does to a pair depends on the pair and the
seed alone. Every pair is either kept or dropped by exactly one step. Duplicates need the whole corpus: here their
hashes are only recorded, and `weft.data.filtering.duplicates` decides afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.data.filtering.noise import Noise
from weft.data.filtering.steps import Duplicates, Step
from weft.data.pairs import Pair

KEPT = -1
"""The drop_reason of a pair that no step dropped."""


@dataclass(frozen=True)
class Outcome:
    """What became of some pairs.

    pairs     those that came through, in order, as changed
    rows      for each of them its place in the input
    drop_reasons     for each input pair -1 if it was kept, else the index of the step that dropped it
    hashes    for each `duplicates` step (by index), for each input pair 64 bits of what must not come twice, as it
              was at that step; None if the pair was dropped before
    """

    pairs: list[Pair]
    rows: list[int]
    drop_reasons: list[int]
    hashes: dict[int, list[int | None]] = field(default_factory=dict)


class Pipeline:
    """An ordered list of steps; `seed` is that of noise."""

    def __init__(self, steps: Sequence[Step], *, seed: int) -> None:
        self.steps: tuple[Step, ...] = tuple(steps)
        self.seed = seed
        noises = [place for place, step in enumerate(self.steps) if isinstance(step, Noise)]
        # Two noises in a row must not draw alike, and a filter put before one must not change what it draws.
        self._keys = [
            f"{seed}:{noises.index(place)}".encode() if place in noises else b"" for place in range(len(self.steps))
        ]

    def __str__(self) -> str:
        return "\n".join(self.descriptions()) or "(no steps)"

    def descriptions(self) -> list[str]:
        """One line for each step."""
        return [str(step) for step in self.steps]

    def for_evaluation(self) -> Pipeline:
        """Only what holds everywhere, for validation and test: no filters, no noise."""
        return Pipeline([step for step in self.steps if not step.training_only], seed=self.seed)

    def run(self, pairs: Sequence[Pair]) -> Outcome:
        """Take the pairs through all steps. What a `duplicates` step would drop is still there, with its hash."""
        present, rows = list(pairs), list(range(len(pairs)))
        drop_reasons = [KEPT] * len(present)
        hashes: dict[int, list[int | None]] = {}
        for place, step in enumerate(self.steps):
            if isinstance(step, Duplicates):
                found: list[int | None] = [None] * len(drop_reasons)
                for row, number in zip(rows, step.hashes(present), strict=True):
                    found[row] = number
                hashes[place] = found
                continue
            after = step.apply(present, self._keys[place])
            if all(after):  # a pair is never false, so that None is what is
                present = after  # type: ignore[assignment]
                continue
            for row, pair in zip(rows, after, strict=True):
                if pair is None:
                    drop_reasons[row] = place
            rows = [row for row, pair in zip(rows, after, strict=True) if pair is not None]
            present = [pair for pair in after if pair is not None]
        return Outcome(present, rows, drop_reasons, hashes)
