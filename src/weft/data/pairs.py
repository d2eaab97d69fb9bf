"""A pair of sequences: the one thing every corpus is made of."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A source, its target and, where they are known, the links between their words.

    Links are zero-based (source word, target word) pairs; words are counted as `weft.text.words.words` cuts them.
    A word that takes part in no link has no counterpart.
    """

    source: str
    target: str
    links: tuple[tuple[int, int], ...] | None = None
