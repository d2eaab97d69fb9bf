"""An order without a list of it: the row that stands at any place of a shuffled corpus, computed from the place alone.

A list of a billion places is eight gigabytes and takes a minute to make; a run would have to make it before its first
step, and again when it is resumed. `Permutation` computes the rows of just the places asked for. Up to `LISTED` rows
it is a list, every order equally likely. Beyond, it is a Feistel network over the next power of two, whose rounds mix
one half of a place's bits into the other with a keyed hash; a place that lands outside of the corpus walks on until it
is inside (Luby & Rackoff 1988; Black & Rogaway 2002, cycle walking). A network is a bijection whatever its hash does.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

LISTED = 1 << 16
ROUNDS = 6


class Permutation:
    """A one-to-one map of the places 0 … size − 1 onto themselves, which depends on the key alone."""

    def __init__(self, size: int, key: tuple[int, ...]) -> None:
        self.size = size
        self.key = key
        bits = max((size - 1).bit_length(), 2)
        self.widths = (bits // 2, bits - bits // 2)

    def __getitem__(self, places: np.ndarray) -> np.ndarray:
        """The rows at these places."""
        if self.size <= LISTED:
            return _listed(self.size, self.key)[places]
        rows = self._scrambled(places.astype(np.uint64))
        while (outside := np.flatnonzero(rows >= self.size)).size:
            rows[outside] = self._scrambled(rows[outside])
        return rows.astype(np.int64)

    def _scrambled(self, places: np.ndarray) -> np.ndarray:
        """Six rounds of the network; left and right half may differ by a bit in width, and change roles each round."""
        widths = self.widths
        masks = [np.uint64((1 << width) - 1) for width in widths]
        left, right = places >> np.uint64(widths[0]), places & masks[0]  # widths[1] and widths[0] bits
        for number, key in enumerate(_round_keys(self.key)):
            left, right = right, left ^ (_mixed(right, key) & masks[1 - number % 2])
        # After an even number of rounds each half is as wide as it was.
        return (left << np.uint64(widths[0])) | right


@lru_cache(maxsize=64)
def _listed(size: int, key: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(list(key)).permutation(size)


@lru_cache(maxsize=64)
def _round_keys(key: tuple[int, ...]) -> tuple[np.uint64, ...]:
    return tuple(np.random.SeedSequence(list(key)).generate_state(ROUNDS, np.uint64))


def _mixed(values: np.ndarray, key: np.uint64) -> np.ndarray:
    """A hash of 64 bits: multiplications and shifts, in which every input bit reaches every output bit."""
    mixed = values + key
    for shift, factor in ((32, 0xD6E8FEB86659FD93), (32, 0xD6E8FEB86659FD93), (32, 0)):
        mixed = mixed ^ (mixed >> np.uint64(shift))
        mixed = mixed * np.uint64(factor) if factor else mixed
    return mixed
