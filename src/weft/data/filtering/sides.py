"""The two sides of a pair: which of them a step is about, and how a pair is rewritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from weft.data.pairs import Pair
from weft.errors import DataError, nearest
from weft.text.word_splitting import words

Side = Literal["both", "source", "target"]
SHOWN = 40
"""Characters of a side that an error message shows."""


def choices(literal: Any) -> tuple[str, ...]:
    """The values a Literal allows."""
    return get_args(literal)


def check_choice(kind: str, name: str, given: str, allowed: Sequence[str]) -> None:
    """Refuse a word that is not one of those allowed."""
    if given not in allowed:
        raise DataError(f"{kind}.{name}: {given!r} was given; {nearest(str(given), allowed)}")


def on_sides(side: Side) -> str:
    """The sides in words: ``both sides``, ``the source``."""
    return "both sides" if side == "both" else f"the {side}"


def short(pair: Pair) -> str:
    """A pair for an error message: one line, cut."""
    return " / ".join(repr(side if len(side) <= SHOWN else f"{side[:SHOWN]}…") for side in map(str, pair[:2]))


def with_texts(pair: Pair, source: str, target: str) -> Pair:
    """The pair with other texts; with its links if each text has as many words as before."""
    links = pair.links
    if links is not None and not (_as_many_words(pair.source, source) and _as_many_words(pair.target, target)):
        links = None
    return Pair(source, target, links)


def rewritten(pairs: Sequence[Pair], side: Side, rewrite: Callable[[str], str]) -> list[Pair | None]:
    """The pairs with one text rewritten, or both, and their links where these still hold."""
    done: list[Pair | None] = []
    for pair in pairs:
        source, target, links = pair
        source = rewrite(source) if side != "target" else source
        target = rewrite(target) if side != "source" else target
        done.append(Pair(source, target) if links is None else with_texts(pair, source, target))
    return done


def prefixed(pairs: Sequence[Pair], side: Side, prefix: str) -> list[Pair | None]:
    """The pairs with the prefix and a space before one side or both; links move along."""
    before_source = f"{prefix} " if side != "target" else ""
    before_target = f"{prefix} " if side != "source" else ""
    shift_source, shift_target = len(words(before_source)), len(words(before_target))
    return [
        Pair(
            before_source + source,
            before_target + target,
            None if links is None else tuple((i + shift_source, j + shift_target) for i, j in links),
        )
        for source, target, links in pairs
    ]


def _as_many_words(before: str, after: str) -> bool:
    return before == after or len(words(before)) == len(words(after))
