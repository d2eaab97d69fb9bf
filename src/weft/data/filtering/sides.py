"""The two sides of a pair: which of them a step applies to, and how a pair is rewritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from weft.data.pairs import Pair
from weft.text.words import words

Side = Literal["both", "source", "target"]
SHOWN_CHARACTERS = 40
"""Characters of a side that an error message shows."""


def side_phrase(side: Side) -> str:
    """The side in words: ``both sides``, ``the source``."""
    return "both sides" if side == "both" else f"the {side}"


def shorten_pair(pair: Pair) -> str:
    """A pair for an error message: one line, truncated."""
    texts = map(str, pair[:2])
    return " / ".join(repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…") for text in texts)


def with_texts(pair: Pair, source: str, target: str) -> Pair:
    """The pair with other texts; it keeps its links if each text has as many words as before."""
    links = pair.links
    if links is not None and not (_as_many_words(pair.source, source) and _as_many_words(pair.target, target)):
        links = None
    return Pair(source, target, links)


def rewritten(pairs: Sequence[Pair], side: Side, rewrite: Callable[[str], str]) -> list[Pair | None]:
    """The pairs with one side rewritten, or both; links are kept where they are still valid."""
    result: list[Pair | None] = []
    for pair in pairs:
        source, target, links = pair
        source = rewrite(source) if side != "target" else source
        target = rewrite(target) if side != "source" else target
        result.append(Pair(source, target) if links is None else with_texts(pair, source, target))
    return result


def prefixed(pairs: Sequence[Pair], side: Side, prefix: str) -> list[Pair | None]:
    """The pairs with the prefix and a space before one side or both; links are shifted accordingly."""
    before_source = f"{prefix} " if side != "target" else ""
    before_target = f"{prefix} " if side != "source" else ""
    source_shift, target_shift = len(words(before_source)), len(words(before_target))
    return [
        Pair(
            before_source + source,
            before_target + target,
            None if links is None else tuple((i + source_shift, j + target_shift) for i, j in links),
        )
        for source, target, links in pairs
    ]


def _as_many_words(before: str, after: str) -> bool:
    return before == after or len(words(before)) == len(words(after))
