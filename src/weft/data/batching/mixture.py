"""Mixtures of corpora: which pairs come next, by weights, with repetition, and in a curriculum.

Every part is read in a shuffled order, repeatedly, each time in another order. After g pairs of the mixture, ⌊g·w/W⌋
pairs of a part with weight w out of W have been read: a part with twice the weight is read twice as fast, and the
position in each part is a function of g.

    by size        w = n             every pair once per epoch (the default)
    by weight      w as given        small parts are repeated, large ones are not finished in an epoch
    by temperature w = n^(1/T)       T = 1: by size; T → ∞: uniform                  Arivazhagan et al. 2019

An epoch is as many pairs as the parts have together. A curriculum gives parts a first or a last step: these steps
divide a run into stages, and each stage reads its parts from the beginning, in new orders.

**Shuffled orders** are pseudorandom permutations without a table: the row at any position of a shuffled corpus is
computed from the position. A table of a billion positions takes eight gigabytes and a minute; a run would have to make
it before its first step, and again when it is resumed. `Permutation` computes only the rows at the positions needed. Up
to `MAX_TABLE` rows it is a table, every order equally likely. Beyond, it is a Feistel network over the next power of
two, whose rounds mix one half of a position's bits into the other with a keyed hash; a result outside of the corpus is
permuted again until it is inside (Luby & Rackoff 1988; Black & Rogaway 2002, cycle walking). The network is a bijection
for any hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from weft.errors import DataError

RESOLUTION = 1 << 40
"""Real-valued weights are rounded to multiples of 1 / RESOLUTION."""


class Part(NamedTuple):
    """One corpus of a mixture."""

    start: int
    """Its first row in the store."""
    pairs: int
    variants: int = 1
    """Number of stored copies, each tokenized differently (BPE-dropout); variant v starts at start + v · pairs."""
    weight: float | None = None
    first_step: int = 1
    last_step: int | None = None

    def is_active(self, step: int) -> bool:
        return self.first_step <= step and (self.last_step is None or step <= self.last_step)


class Mixture:
    """Parts of a corpus and their weights. Everything is a pure function of the arguments."""

    def __init__(self, parts: Sequence[Part], *, temperature: float = 1.0, seed: int) -> None:
        self.parts = tuple(part for part in parts if part.pairs)
        self.temperature = temperature
        self.seed = seed
        if not self.parts:
            raise DataError("there are no pairs to make batches of")

    @cached_property
    def stages(self) -> list[int]:
        """The first step of each stage."""
        ends = {part.last_step + 1 for part in self.parts if part.last_step is not None}
        return sorted({1, *(part.first_step for part in self.parts), *ends})

    def stage_of(self, step: int) -> int:
        return sum(first <= step for first in self.stages) - 1

    def active_parts(self, stage: int) -> list[tuple[int, Part]]:
        """The parts of a stage, with their numbers."""
        first = self.stages[stage]
        active = [(number, part) for number, part in enumerate(self.parts) if part.is_active(first)]
        if not active:
            raise DataError(f"data.train: at step {first} no corpus is left to train on; see first_step and last_step")
        return active

    def check(self, steps: int) -> None:
        """Raise if a run of that many steps would have a stage without parts."""
        for stage, first in enumerate(self.stages):
            if first <= steps:
                self.active_parts(stage)

    def pairs(self, stage: int) -> int:
        """Pairs per epoch."""
        return sum(part.pairs for _, part in self.active_parts(stage))

    def weights(self, stage: int) -> list[int]:
        """Integers in proportion to the weights of the parts of a stage."""
        parts = [part for _, part in self.active_parts(stage)]
        if any(part.weight is not None for part in parts):
            weights = [1.0 if part.weight is None else part.weight for part in parts]
        elif self.temperature != 1.0:
            weights = [part.pairs ** (1 / self.temperature) for part in parts]
        else:
            return [part.pairs for part in parts]
        return [max(round(weight / sum(weights) * RESOLUTION), 1) for weight in weights]

    def rows(self, stage: int, epoch: int, first: int, last: int) -> np.ndarray:
        """The rows of the pairs `first` to `last` (exclusive) of an epoch, part after part."""
        weights = self.weights(stage)
        epoch_start = epoch * self.pairs(stage)
        rows: list[np.ndarray] = []
        for (number, part), weight in zip(self.active_parts(stage), weights, strict=True):
            start, stop = ((epoch_start + pair) * weight // sum(weights) for pair in (first, last))
            for repetition in range(start // part.pairs, -(-stop // part.pairs)):
                base = repetition * part.pairs
                positions = np.arange(max(start - base, 0), min(stop - base, part.pairs))
                order = Permutation(part.pairs, (self.seed, stage, number, repetition))
                rows.append(order[positions] + part.start + repetition % part.variants * part.pairs)
        return np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


MAX_TABLE = 1 << 16
ROUNDS = 6


class Permutation:
    """A bijection of 0 … size − 1, which depends on the key alone."""

    def __init__(self, size: int, key: tuple[int, ...]) -> None:
        self.size = size
        self.key = key
        bits = max((size - 1).bit_length(), 2)
        self.widths = (bits // 2, bits - bits // 2)

    def __getitem__(self, positions: np.ndarray) -> np.ndarray:
        """The rows at these positions."""
        if self.size <= MAX_TABLE:
            return _table(self.size, self.key)[positions]
        rows = self._feistel(positions.astype(np.uint64))
        while (outside := np.flatnonzero(rows >= self.size)).size:
            rows[outside] = self._feistel(rows[outside])
        return rows.astype(np.int64)

    def _feistel(self, positions: np.ndarray) -> np.ndarray:
        """Six rounds of the network; the halves may differ by one bit in width, and change roles each round."""
        widths = self.widths
        masks = [np.uint64((1 << width) - 1) for width in widths]
        left, right = positions >> np.uint64(widths[0]), positions & masks[0]  # widths[1] and widths[0] bits
        for number, key in enumerate(_round_keys(self.key)):
            left, right = right, left ^ (_hash(right, key) & masks[1 - number % 2])
        # After an even number of rounds each half is as wide as it was.
        return (left << np.uint64(widths[0])) | right


@lru_cache(maxsize=64)
def _table(size: int, key: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(list(key)).permutation(size)


@lru_cache(maxsize=64)
def _round_keys(key: tuple[int, ...]) -> tuple[np.uint64, ...]:
    return tuple(np.random.SeedSequence(list(key)).generate_state(ROUNDS, np.uint64))


def _hash(values: np.ndarray, key: np.uint64) -> np.ndarray:
    """A 64-bit hash of multiplications and shifts; every input bit affects every output bit."""
    hashed = values + key
    for shift, factor in ((32, 0xD6E8FEB86659FD93), (32, 0xD6E8FEB86659FD93), (32, 0)):
        hashed = hashed ^ (hashed >> np.uint64(shift))
        hashed = hashed * np.uint64(factor) if factor else hashed
    return hashed
