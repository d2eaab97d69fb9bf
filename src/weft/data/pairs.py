"""A pair of sequences, the one thing every corpus is made of, and what a row says when it is none."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A source, its target and, where they are known, the links between their words.

    Links are zero-based (source word, target word) pairs; words are counted as `weft.text.word_splitting.words` cuts
    them.
    A word that takes part in no link has no counterpart.
    """

    source: str
    target: str
    links: tuple[tuple[int, int], ...] | None = None


class RowError(NamedTuple):
    """What is wrong with one row of a corpus.

    The kinds: ``encoding`` (no UTF-8), ``columns`` (too few, too many, an empty cell of a table that has types),
    ``type`` (a list where text is expected), ``json``, ``csv``, ``links``, ``tags``, ``turns`` (a dialogue of one),
    ``unpaired`` (a line of the longer of two files). Whoever filters may add others, such as ``blank``.
    """

    kind: str
    message: str
    """A whole error in one line, from where it is (``FILE:LINE: ``) to what was expected."""


Row = tuple[int, Pair | RowError]
"""The number of a line or record in its file, from 1, and what it gave."""


def is_blank(pair: Pair, *, sources: bool = True) -> bool:
    """Whether a side has nothing but white space; without ``sources``, whether the target has."""
    source, target = pair.source, pair.target
    return not target or target.isspace() or (sources and (not source or source.isspace()))
