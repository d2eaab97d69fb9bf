"""Which pairs come next where a corpus has several parts: shares, repetition, and what is trained on when.

Every part is read in a shuffled order, again and again, each time in another order. How far a part has been read
after g pairs of the whole is ⌊g · w / W⌋ for its weight w out of W: so a part with twice the share is read twice as
fast, and where each part stands is known at any place without having been there before.

    by size        w = n             every pair once an epoch (the default)
    by weight      w as given        small parts are repeated, large ones are not finished in an epoch
    by temperature w = n^(1/T)       T = 1: by size; T → ∞: all parts alike          Arivazhagan et al. 2019

An epoch is as many pairs as the parts have together. A curriculum is a part with a first or a last step: the steps at
which parts come or go divide a run into stages, and each stage reads its parts from the beginning, in new orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from weft.data.batching.permutation import Permutation
from weft.errors import DataError

RESOLUTION = 1 << 40
"""Shares that are no whole numbers are rounded to multiples of one part in this many."""


class Part(NamedTuple):
    """One corpus among those that are mixed."""

    start: int
    """Its first row in the store."""
    pairs: int
    variants: int = 1
    """How often it is stored, cut differently each time (BPE-dropout): variant v begins at start + v · pairs."""
    weight: float | None = None
    first_step: int = 1
    last_step: int | None = None

    def is_read_at(self, step: int) -> bool:
        return self.first_step <= step and (self.last_step is None or step <= self.last_step)


class Mixture:
    """Parts of a corpus and their shares. All is a pure function of its arguments."""

    def __init__(self, parts: Sequence[Part], *, temperature: float = 1.0, seed: int) -> None:
        self.parts = tuple(part for part in parts if part.pairs)
        self.temperature = temperature
        self.seed = seed
        if not self.parts:
            raise DataError("there are no pairs to make batches of")

    @cached_property
    def stages(self) -> list[int]:
        """The steps at which a stage begins."""
        ends = {part.last_step + 1 for part in self.parts if part.last_step is not None}
        return sorted({1, *(part.first_step for part in self.parts), *ends})

    def stage_of(self, step: int) -> int:
        return sum(first <= step for first in self.stages) - 1

    def read_in(self, stage: int) -> list[tuple[int, Part]]:
        """The parts of a stage, with their numbers."""
        first = self.stages[stage]
        found = [(number, part) for number, part in enumerate(self.parts) if part.is_read_at(first)]
        if not found:
            raise DataError(f"data.train: at step {first} no corpus is left to train on; see first_step and last_step")
        return found

    def check(self, steps: int) -> None:
        """Raise where a run of so many steps would find a stage empty."""
        for stage, first in enumerate(self.stages):
            if first <= steps:
                self.read_in(stage)

    def pairs(self, stage: int) -> int:
        """Pairs an epoch."""
        return sum(part.pairs for _, part in self.read_in(stage))

    def weights(self, stage: int) -> list[int]:
        """Whole numbers in proportion to the shares of the parts of a stage."""
        parts = [part for _, part in self.read_in(stage)]
        if any(part.weight is not None for part in parts):
            wanted = [1.0 if part.weight is None else part.weight for part in parts]
        elif self.temperature != 1.0:
            wanted = [part.pairs ** (1 / self.temperature) for part in parts]
        else:
            return [part.pairs for part in parts]
        return [max(round(one / sum(wanted) * RESOLUTION), 1) for one in wanted]

    def rows(self, stage: int, epoch: int, first: int, last: int) -> np.ndarray:
        """The rows of the pairs number ``first`` to ``last`` of an epoch, part after part."""
        whole, weights = self.pairs(stage), self.weights(stage)
        begun = epoch * whole
        found: list[np.ndarray] = []
        for (number, part), weight in zip(self.read_in(stage), weights, strict=True):
            start, stop = ((begun + place) * weight // sum(weights) for place in (first, last))
            for turn in range(start // part.pairs, -(-stop // part.pairs)):
                base = turn * part.pairs
                places = np.arange(max(start - base, 0), min(stop - base, part.pairs))
                order = Permutation(part.pairs, (self.seed, stage, number, turn))
                found.append(order[places] + part.start + turn % part.variants * part.pairs)
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
