"""Pseudorandom permutations without a table: the row at any position of a shuffled corpus, computed from the position.

A table of a billion positions takes eight gigabytes and a minute; a run would have to make it before its first step,
and again when it is resumed. `Permutation` computes only the rows at the positions needed. Up to `MAX_TABLE` rows it
is a table, every order equally likely. Beyond, it is a Feistel network over the next power of two, whose rounds mix
one half of a position's bits into the other with a keyed hash; a result outside of the corpus is permuted again until
it is inside (Luby & Rackoff 1988; Black & Rogaway 2002, cycle walking). The network is a bijection for any hash.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

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
