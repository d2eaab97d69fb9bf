"""A pair of texts, the unit of every corpus, and the error that takes its place where a row cannot be read."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A source, its target and, where they are known, the links between their words.

    Links are zero-based (source word, target word) pairs; words are those of `weft.text.word_splitting.words`.
    A word without a counterpart has no link.
    """

    source: str
    target: str
    links: tuple[tuple[int, int], ...] | None = None


class RowError(NamedTuple):
    """What is wrong with one row of a corpus: a value, since the reader decides whether to raise it or to skip the row.

    The kinds: ``encoding`` (not UTF-8), ``columns`` (too few, too many, an empty cell of a table that has types),
    ``type`` (a list where text is expected), ``json``, ``csv``, ``links``, ``tags``, ``turns`` (a dialogue of one),
    ``unpaired`` (a line of the longer of two files). Filters may add others, such as ``blank``.
    """

    kind: str
    message: str
    """A complete error message in one line, from the location (``FILE:LINE: ``) to what was expected."""


BLANK_KIND = "blank"
"""The kind of the row error of a blank side."""

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
