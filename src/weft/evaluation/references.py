"""Evaluation items: one for each pair, or one for all pairs with the same source, with several references."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from weft.data.pairs import Pair


class EvaluationItems(NamedTuple):
    """The sources to translate, and the references of each."""

    sources: list[str]
    references: list[list[str]]


def each_pair(pairs: Iterable[Pair]) -> EvaluationItems:
    """Every pair as an item with one reference."""
    pairs = list(pairs)
    return EvaluationItems([pair.source for pair in pairs], [[pair.target] for pair in pairs])


def grouped_by_source(pairs: Iterable[Pair]) -> EvaluationItems:
    """Each source once, in the order of first appearance, with the targets of all its pairs in their order.

    Sources are the same if every character is. A target that occurs twice is kept twice: no metric here depends on it.
    """
    references: dict[str, list[str]] = {}
    for pair in pairs:
        references.setdefault(pair.source, []).append(pair.target)
    return EvaluationItems(list(references), list(references.values()))


GROUPINGS: dict[str, Callable[[Iterable[Pair]], EvaluationItems]] = {"each": each_pair, "grouped": grouped_by_source}
"""The values of evaluation.references."""
