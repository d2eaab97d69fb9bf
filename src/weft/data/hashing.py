"""64-bit hashes of texts: to find duplicates, and to seed random draws by text rather than by position.

The same in every process and on every machine. Source and target are separated by a byte that does not occur in
UTF-8, so that ("ab", "c") and ("a", "bc") differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from weft.data.pairs import Pair


def pair_hashes(pairs: Iterable[Pair], key: bytes = b"") -> list[int]:
    """A number below 2^64 for each pair, from the texts of both sides; links do not count."""
    join, from_bytes = b"\xff".join, int.from_bytes
    return [
        from_bytes(blake2b(join((_bytes(pair[0]), _bytes(pair[1]))), digest_size=8, key=key).digest(), "little")
        for pair in pairs
    ]


def text_hashes(texts: Iterable[str], key: bytes = b"") -> list[int]:
    """A number below 2^64 for each text."""
    from_bytes = int.from_bytes
    return [from_bytes(blake2b(_bytes(text), digest_size=8, key=key).digest(), "little") for text in texts]


def _bytes(text: str) -> bytes:
    """UTF-8, also of a lone surrogate that a program may have put into a text."""
    return text.encode("utf-8", "surrogatepass")
