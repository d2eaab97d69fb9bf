"""Recipes as TOML and as tables: every setting with its value, its default and its description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo

from weft.recipe.base import Settings
from weft.recipe.choices import CELLS, ENCODERS, Choice
from weft.recipe.data import CorpusSettings
from weft.recipe.recipe import Recipe

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Setting(NamedTuple):
    """A setting of a recipe."""

    name: str
    value: Any
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    """The values that it may have, if they are names."""

    @property
    def meaning(self) -> str:
        """The help, with the values to choose from that it does not mention itself."""
        words = set(re.findall(r"\w+", self.help))
        return self.help if words.issuperset(self.choices) else f"{self.help} ({', '.join(self.choices)})"


def settings_of(recipe: Settings, prefix: str = "") -> Iterator[Setting]:
    """Every setting of a recipe, in order."""
    for attribute, field in type(recipe).model_fields.items():
        name, value = field.alias or attribute, getattr(recipe, attribute)
        if isinstance(value, Settings) and not isinstance(value, CorpusSettings):
            yield from settings_of(value, f"{prefix}{name}.")
        else:
            yield Setting(prefix + name, value, field.default, field.description or "", _choices(prefix + name, field))


def _choices(name: str, field: FieldInfo) -> tuple[str, ...]:
    """The names that a setting may have as its value; those of any kind of stack for the kind of a stack."""
    if name == "model.encoder.kind":
        return (*CELLS, *ENCODERS)
    if name == "model.decoder.kind":
        return (*CELLS, "transformer")
    for choice in field.metadata:
        if isinstance(choice, Choice):
            return tuple(choice.names)
    is_literal = get_origin(field.annotation) is Literal
    return tuple(value for value in get_args(field.annotation) if isinstance(value, str)) if is_literal else ()


def write_toml(recipe: Recipe, comments: Sequence[str] = ()) -> str:
    """The whole recipe, defaults included, as TOML that `load_recipe` reads back to the same values.

    ``comments``: lines to stand at its head.
    """
    lines: list[str] = []
    groups: dict[str, list[str]] = {"": lines}
    for setting in settings_of(recipe):
        if setting.value is None:
            continue
        group, _, name = setting.name.rpartition(".")
        groups.setdefault(group, []).append(f"{name} = {toml_value(setting.value)}")
    parts = ["\n".join(lines)]
    parts += [f"[{group}]\n" + "\n".join(rows) for group, rows in groups.items() if group]
    return with_comments("\n\n".join(parts) + "\n", comments)


def with_comments(text: str, comments: Sequence[str]) -> str:
    """A recipe with comments at its head."""
    return "".join(f"{comment(line)}\n" for line in comments) + "\n" * bool(comments) + text


def without_comments(text: str) -> str:
    """A recipe without the comments at its head."""
    lines = text.split("\n")
    return "\n".join(lines[len(leading_comments(text)) :]).lstrip("\n")


def comment(line: str) -> str:
    """A line of text as a comment; what a comment cannot contain becomes a space."""
    return "# " + "".join(character if character.isprintable() else " " for character in line)


def leading_comments(text: str) -> list[str]:
    """The comments at the head of a recipe, up to the first line that is not a comment."""
    lines = takewhile(lambda line: line.startswith("#"), text.split("\n"))
    return [line.removeprefix("#").removeprefix(" ") for line in lines]


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    items = value.model_dump(exclude_none=True) if isinstance(value, Settings) else value
    pairs = [f"{key if _BARE_KEY.fullmatch(key) else _toml_string(key)} = {toml_value(items[key])}" for key in items]
    return "{" + ", ".join(pairs) + "}"


def _toml_string(text: str) -> str:
    """A basic TOML string, with escapes."""
    escaped = "".join(
        {"\\": "\\\\", '"': '\\"'}.get(character, character)
        if ord(character) >= 0x20 and ord(character) != 0x7F
        else f"\\u{ord(character):04x}"
        for character in text
    )
    return f'"{escaped}"'
