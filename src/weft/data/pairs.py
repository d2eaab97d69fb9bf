"""A pair of texts, the unit of every corpus, and the error that takes its place where a row cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from weft.text.vocabulary import MAX_TEXT_CHARACTERS


class Pair(NamedTuple):
    """A source, its target and, where they are known, the links between their words.

    Links are zero-based (source word, target word) pairs; words are those of `weft.text.words.words`.
    A word without a counterpart has no link.
    """

    source: str
    target: str
    links: tuple[tuple[int, int], ...] | None = None


class RowError(NamedTuple):
    """An error in one row of a corpus: a value, since the reader decides whether to raise it or to skip the row.

    The kinds: ``encoding`` (not UTF-8), ``columns`` (too few, too many, an empty cell of a table that has types),
    ``type`` (a list where text is expected), ``json``, ``csv``, ``links``, ``tags``, ``turns`` (a dialogue of one),
    ``unpaired`` (a line of the longer of two files). Filters may add others, such as ``blank`` and ``length``.
    """

    kind: str
    message: str
    """A complete error message in one line, from the location (``FILE:LINE: ``) to what was expected."""


BLANK_KIND = "blank"
"""The kind of the row error of a blank side."""

LENGTH_KIND = "length"
"""The kind of the row error of a side that is too long to be tokenized."""

Row = tuple[int, Pair | RowError]
"""The number of a line or record in its file, from 1, and its pair or error."""


def is_blank(pair: Pair, *, sources: bool = True) -> bool:
    """Whether a side consists of white space only; without ``sources``, whether the target does."""
    source, target = pair.source, pair.target
    return not target or target.isspace() or (sources and (not source or source.isspace()))


def blank_error(pair: Pair, where: str, *, sources: bool = True) -> RowError:
    """The row error of a pair with a blank side."""
    side = "source" if sources and not pair.source.strip() else "target"
    return RowError(BLANK_KIND, f"{where}: the {side} is blank")


def is_oversized(pair: Pair) -> bool:
    """Whether a side is too long to be tokenized."""
    return max(len(pair.source), len(pair.target)) > MAX_TEXT_CHARACTERS


# 64-bit hashes of texts, to find duplicates and to seed random draws by text rather than by position; the same in every
# process and on every machine.


def pair_hashes(pairs: Iterable[Pair], key: bytes = b"") -> list[int]:
    """A number below 2^64 for each pair, from the texts of both sides; links do not count.

    The sides are separated by a byte that does not occur in UTF-8, so that ("ab", "c") and ("a", "bc") differ.
    """
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
