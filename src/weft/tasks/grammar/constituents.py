"""Constituents of the English sentences: which words a noun phrase, a verb phrase or a clause covers.

Realization (`realization`) appends words to a list. If the list is a `BracketedWords`, it also keeps the label and the
words of every constituent that was realized, and can be written as a tree. A plain list keeps nothing.

    (TOP (S (NP he ) (VP hit (NP me ) with a pie ) ) )
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar

Realize = TypeVar("Realize", bound=Callable[..., Any])


class Constituent(NamedTuple):
    """A label, and the words from ``start`` up to ``end``."""

    label: str
    start: int
    end: int


class BracketedWords(list[str]):
    """English words with their constituents, inner ones before those around them."""

    def __init__(self) -> None:
        super().__init__()
        self.constituents: list[Constituent] = []

    def __delitem__(self, index: Any) -> None:
        super().__delitem__(index)
        self.constituents = [constituent for constituent in self.constituents if constituent.end <= len(self)]

    def clear(self) -> None:
        del self[:]

    def tree(self) -> str:
        """The bracketed sentence; brackets and words are separated by spaces."""
        opening: list[list[str]] = [[] for _ in self]
        closing = [0] * len(self)
        for label, start, end in self.constituents:
            opening[start].insert(0, f"({label}")
            closing[end - 1] += 1
        parts = [" ".join([*opening[position], word, *[")"] * closing[position]]) for position, word in enumerate(self)]
        return f"(TOP {' '.join(parts)} )"


def mark(english: list[str], label: str, start: int) -> None:
    """Keep the words from ``start`` on as a constituent, if there are any."""
    if isinstance(english, BracketedWords) and len(english) > start:
        english.constituents.append(Constituent(label, start, len(english)))


def constituent(label: str) -> Callable[[Realize], Realize]:
    """Decorate a function that realizes a tree: the words that it appends are a constituent."""

    def decorate(realize: Realize) -> Realize:
        @wraps(realize)
        def realize_and_mark(english: list[str], *arguments: Any, **options: Any) -> Any:
            start = len(english)
            tokens = realize(english, *arguments, **options)
            mark(english, label, start)
            return tokens

        return realize_and_mark  # type: ignore[return-value]

    return decorate
