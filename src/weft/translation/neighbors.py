"""Neighboring tokens of training texts, as a table of bits: which pairs of a new text are new?

A table has a bit for the hash of every pair of neighbors in the training texts; the first token stands beside an empty
one. A pair whose bit is not set was never seen. A new pair may have a bit that another one has set: with n distinct
pairs, a share of about n / `BITS` of the new ones is missed (Bloom 1970, with a single hash function). Torch is not
imported here.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from weft.text.id_rows import IdRows

BITS = 1 << 18
FACTOR = 2_654_435_761
"""Multiplies the hash of the left one of two neighbors (Knuth 1973, 6.4)."""
Names = Callable[[Sequence[int]], list[str]]
"""The tokens of ids."""


@dataclass(frozen=True)
class Neighbors:
    """The pairs of neighboring tokens of training texts."""

    table: bytes = field(default=b"", repr=False)
    """`BITS` bits; empty: not known."""

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> Neighbors:
        """Those of sentences of tokens; not known if there are none."""
        table = bytearray(BITS // 8)
        for tokens in sentences:
            for position in _positions(tokens):
                table[position >> 3] |= 1 << (position & 7)
        return cls(bytes(table) if any(table) else b"")

    @property
    def are_known(self) -> bool:
        return bool(self.table)

    def new(self, tokens: Sequence[str]) -> list[bool]:
        """Whether each token was never seen beside the one before it."""
        table = self.table
        return [bool(table) and not table[position >> 3] >> (position & 7) & 1 for position in _positions(tokens)]

    def novelty(self, tokens: Sequence[str]) -> float:
        """The share of the tokens that were never seen beside the one before; 0 if that is not known."""
        new = self.new(tokens)
        return sum(new) / len(new) if new else 0.0

    def novelties(self, rows: IdRows, names: Names) -> np.ndarray:
        """`novelty` of each row of ids."""
        if not self.table or not len(rows.ids_N):
            return np.zeros(len(rows))
        ids_V, index_N = np.unique(rows.ids_N, return_inverse=True)
        hashes_N = np.array([_hash(name) for name in names(ids_V.tolist())], dtype=np.uint64)[index_N]
        left_N = np.concatenate([np.zeros(1, np.uint64), hashes_N[:-1]])
        left_N[(np.cumsum(rows.lengths_B) - rows.lengths_B)[rows.lengths_B > 0]] = 0
        positions_N = (left_N * np.uint64(FACTOR) + hashes_N) % np.uint64(BITS)
        bytes_N = np.frombuffer(self.table, np.uint8)[positions_N >> np.uint64(3)]
        new_N = ~bytes_N >> (positions_N & np.uint64(7)).astype(np.uint8) & 1
        row_of_token_N = np.repeat(np.arange(len(rows)), rows.lengths_B)
        shares_B: np.ndarray = np.bincount(row_of_token_N, new_N, len(rows)) / np.maximum(rows.lengths_B, 1)
        return shares_B

    def record(self) -> str:
        """For JSON; `read_neighbors` is the inverse."""
        return base64.b64encode(zlib.compress(self.table, 9)).decode("ascii")


NO_NEIGHBORS = Neighbors()


def read_neighbors(content: Any) -> Neighbors:
    """The table of a file; `ValueError` if something is wrong in it."""
    if not isinstance(content, str) or len(content) > BITS // 4:
        raise ValueError("neighbors: expected Base64 of a table")
    try:
        table = zlib.decompressobj().decompress(base64.b64decode(content, validate=True), BITS // 8 + 1)
    except zlib.error:
        raise ValueError("neighbors: not a compressed table") from None
    if table and len(table) != BITS // 8:
        raise ValueError("neighbors: a table of another size")
    return Neighbors(table)


def _positions(tokens: Sequence[str]) -> list[int]:
    """The bits of neighboring tokens; the hash of the empty token before the first is 0."""
    return [(left * FACTOR + right) % BITS for left, right in pairwise((0, *map(_hash, tokens)))]


@lru_cache(maxsize=1 << 16)
def _hash(token: str) -> int:
    return zlib.crc32(token.encode("utf-8", "replace"))
