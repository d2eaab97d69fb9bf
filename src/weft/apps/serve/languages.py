"""Between which languages a model translates, by the names that LibreTranslate's clients use.

A run names its two languages (serve.source and serve.target of its recipe); an imported model that has several is
offered with all of them, by its own names: en, en_XX, eng_Latn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weft.apps.serve.models import ServedModel

AUTOMATIC = "auto"


class Direction(NamedTuple):
    """From one language into another."""

    source: str
    target: str
    search: dict[str, str]
    """The search settings that choose them, for a model that has several."""


def names(model: ServedModel, side: str) -> list[str]:
    """The languages of a side, "source" or "target"."""
    return list(model.info.get("languages", {}).get(side, ())) or [model.languages[side == "target"]]


def direction(model: ServedModel, source: str, target: str) -> Direction | None:
    """The translation direction of a model for two languages; None if it has none."""
    chosen: dict[str, str] = {}
    for side, name in (("source", source), ("target", target)):
        if side == "source" and name.lower() == AUTOMATIC:
            language = default(model, side)
        else:
            language = match(name, names(model, side))
        if language is None:
            return None
        chosen[side] = language
    several = model.info.get("languages", {})
    search = {f"{side}_language": name for side, name in chosen.items() if several.get(side)}
    return Direction(chosen["source"], chosen["target"], search)


def default(model: ServedModel, side: str) -> str | None:
    """The language of a side where none is named; None if one must be."""
    if not model.info.get("languages", {}).get(side):
        return names(model, side)[0]
    chosen: str | None = model.info["language"][side]
    return chosen


def match(name: str, languages: Sequence[str]) -> str | None:
    """The language of a name, without regard to case; or the only one whose code begins so: en is en_XX."""
    lower = name.lower()
    exact = [language for language in languages if language.lower() == lower]
    alike = [language for language in languages if language.lower().partition("_")[0] == lower]
    return exact[0] if exact else alike[0] if len(alike) == 1 else None
