"""Error messages for a recipe, a line for each error: where; what was given; what is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import Tag, ValidationError
from pydantic_core import ErrorDetails

from weft.errors import nearest
from weft.recipe.choices import CELLS, ENCODERS
from weft.recipe.pipeline import StepByKind
from weft.recipe.recipe import Recipe

MAX_LINES = 20
"""Errors that are listed; further ones are counted."""
MAX_CHARACTERS = 300
"""Characters of a line."""
SHOWN_CHARACTERS = 80
"""Characters of a value that a message shows."""
SHOWN_SETTINGS = 4
"""Settings of a group that a message names."""


def error_lines(error: ValidationError) -> list[str]:
    """A line for each error, unknown settings first."""
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    misspelled = {problem["loc"][:-1] for problem in problems if problem["type"] == "extra_forbidden"}
    problems = [
        problem for problem in problems if problem["type"] != "missing" or problem["loc"][:-1] not in misspelled
    ]
    lines = list(dict.fromkeys(line for problem in problems for line in _message(problem).split("\n")))
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"and {len(lines) - MAX_LINES} more errors"]
    return lines


def _message(problem: ErrorDetails) -> str:
    path = [str(part) for part in problem["loc"] if not str(part).startswith("<")]
    where, given = printable(".".join(path)), problem["input"]
    if problem["type"] == "extra_forbidden":
        return f"{where}: unknown setting; {_suggest(problem['loc'])}"
    if problem["type"] == "missing":
        return f"{where}: missing"
    if path[:1] == ["model"] and path[2:] == ["kind"]:
        kinds = [*CELLS, *(ENCODERS if path[1] == "encoder" else ["transformer"])]
        if isinstance(given, str):
            return f"{where}: {shown(given)} was given; {nearest(given, kinds)}"
        *others, last = map(repr, kinds)
        return f"{where}: {shown(given)} was given; input should be {', '.join(others)} or {last}"
    if problem["type"] == "model_type" and (names := list(getattr(_group(problem["loc"]), "model_fields", {}))):
        inside = ", ".join(f"{where}.{name}" for name in names[:SHOWN_SETTINGS])
        rest = ", …" if len(names) > SHOWN_SETTINGS else ""
        return f"{where}: {shown(given)} was given; it is a group of settings: {inside}{rest}"
    if problem["type"] == "value_error":
        return "\n".join(map(printable, str(problem["ctx"]["error"]).split("\n")))
    return f"{where}: {shown(given)} was given; {problem['msg'][0].lower()}{problem['msg'][1:]}"


def shown(value: Any) -> str:
    """A value in a message: on one line, and not too long."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def printable(text: str) -> str:
    """One line, not too long: unprintable characters as escapes."""
    text = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _suggest(path: Sequence[str | int]) -> str:
    """The setting that is nearest to an unknown one."""
    return nearest(str(path[-1]), _group(path[:-1]).attributes())


def _group(path: Sequence[str | int]) -> Any:
    """The class of a group of settings. A part in brackets names one of several forms of a group."""
    group: Any = Recipe
    for part in path:
        if isinstance(part, str):
            fields = getattr(group, "model_fields", {})
            group = fields[part].annotation if part in fields else dict(_forms(group))[part]
    return group


def _forms(annotation: Any) -> Iterator[tuple[str, Any]]:
    """The forms that an annotation allows, by their tags; also inside ``| None``."""
    for part in get_args(annotation):
        metadata = getattr(part, "__metadata__", ())
        tags = [item.tag for item in metadata if isinstance(item, Tag)]
        if tags:
            yield tags[0], part.__origin__
        elif any(isinstance(item, StepByKind) for item in metadata):
            yield from StepByKind.tagged_classes()
        else:
            yield from _forms(part)
