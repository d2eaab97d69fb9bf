"""Which part of a corpus a pair belongs to, by a hash of its source.

The same on every machine, whatever the order of the pairs; all pairs of a source are in one part. Adding pairs moves
none of the others, as long as the shares stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from weft.data.hashing import text_hashes

Part = Literal["train", "valid", "test"]
_KEY = b"weft split"
_RANGE = 1 << 64


class SplitShares(NamedTuple):
    """The shares of the validation and of the test part; the rest is for training."""

    valid: float
    test: float


def split_shares(pairs: int, *, valid: bool = True, test: bool = True) -> SplitShares:
    """Shares for so many pairs: a tenth each, at most 2,000 pairs, rounded to a power of two so that they rarely move.

    With fewer than 10 pairs there is nothing to hold out. ``valid``, ``test``: whether the part is needed.
    """
    if pairs < 10:
        return SplitShares(0.0, 0.0)
    share = 1.0
    while share > 0.1 or share * pairs > 2_000:
        share /= 2
    return SplitShares(share if valid else 0.0, share if test else 0.0)


def parts_of(sources: Iterable[str], shares: SplitShares) -> list[Part]:
    """The part of each source. White space at the ends does not count."""
    test_end = int(shares.test * _RANGE)
    valid_end = test_end + int(shares.valid * _RANGE)
    hashes = text_hashes((source.strip() for source in sources), _KEY)
    return ["test" if value < test_end else "valid" if value < valid_end else "train" for value in hashes]
