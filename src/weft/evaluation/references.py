"""Several references: pairs with the same source as one item that may be said in several ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from weft.data.pairs import Pair


class Items(NamedTuple):
    """What is to be said, and how it may be said; a line of either for each item."""

    sources: list[str]
    references: list[list[str]]


def grouped(pairs: Iterable[Pair]) -> Items:
    """Each source once, in the order of first appearance, with the targets of all its pairs in theirs.

    Sources are the same where every character is. A target that stands there twice is kept twice: no metric here
    depends on it.
    """
    items: dict[str, list[str]] = {}
    for pair in pairs:
        items.setdefault(pair.source, []).append(pair.target)
    return Items(list(items), list(items.values()))


def each(pairs: Iterable[Pair]) -> Items:
    """Every pair as an item of its own."""
    pairs = list(pairs)
    return Items([pair.source for pair in pairs], [[pair.target] for pair in pairs])
