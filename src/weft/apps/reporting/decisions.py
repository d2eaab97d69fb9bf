"""The recipe of a run: what was set and, where recipe.toml says so, why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from weft.apps.reporting.section import paragraph
from weft.pictures.html.elements import Html, data_lines, data_text, element, join, table
from weft.recipe import Recipe
from weft.recipe.toml import leading_comments, settings_of, toml_value, write_toml

SETTING = re.compile(r"([\w-]+)\s*=")
GROUP = re.compile(r"\[([\w.-]+)\]\s*(?:#.*)?$")
CHOICE = re.compile(r"([^:()]{1,40}): (.+?) \((.+)\)")
"""A comment at the head of a recipe that `weft train PAIRS` has written: topic, value and reason."""
UNSHOWN = {"name", "summary"}


class Decision(NamedTuple):
    """A setting that is not at its default, or has a reason."""

    name: str
    value: str
    default: str
    reason: str


@dataclass(frozen=True)
class DecisionsSection:
    """The settings of the model and the reasons for them."""

    decisions: list[Decision]
    comments: list[str]
    """Comments at the head of recipe.toml: the choices made for the pairs, and why."""
    recipe: str
    """The whole recipe, as TOML."""
    key: str = "decisions"
    title: str = "Decisions"

    def record(self) -> dict[str, Any]:
        return {"comments": self.comments, "settings": [decision._asdict() for decision in self.decisions]}

    def html(self) -> Html:
        reasons = any(decision.reason for decision in self.decisions)
        header = ["setting", "value", "default", *(["reason"] if reasons else [])]
        rows = []
        for decision in self.decisions:
            cells = [element("code", decision.name), element("code", decision.value), element("code", decision.default)]
            rows.append([*cells, *([data_text(decision.reason, empty="")] if reasons else [])])
        details = element("details", element("summary", "The whole recipe"), data_lines(self.recipe))
        parts = _comments(self.comments)
        return join([*parts, paragraph("Settings that are not at their defaults:"), table(header, rows), details])


def _comments(lines: list[str]) -> list[Html]:
    """A table of the choices in the comments, then the other comments unchanged."""
    choices = [choice.groups() for line in lines if (choice := CHOICE.fullmatch(line))]
    others = [line for line in lines if not CHOICE.fullmatch(line)]
    parts = [table(("choice", "value", "reason"), [[*map(data_text, cells)] for cells in choices])] if choices else []
    return [*parts, *([data_lines("\n".join(others))] if others else [])]


def decisions_section(recipe: Recipe, path: Path | None) -> DecisionsSection:
    """The settings of a recipe, with the comments of its file."""
    text = path.read_text("utf-8", errors="replace") if path is not None and path.is_file() else write_toml(recipe)
    reasons = read_reasons(text)
    decisions = [
        Decision(
            setting.name,
            toml_value(setting.value),
            "" if setting.default is None else toml_value(setting.default),
            reasons.get(setting.name, ""),
        )
        for setting in settings_of(recipe)
        if setting.name not in UNSHOWN
        and setting.value is not None
        and (setting.value != setting.default or setting.name in reasons)
    ]
    return DecisionsSection(decisions, leading_comments(text), text)


def read_reasons(toml: str) -> dict[str, str]:
    """The comments that stand directly above a setting, by its whole name."""
    reasons: dict[str, str] = {}
    group = ""
    comment: list[str] = []
    for line in map(str.strip, toml.splitlines()):
        if line.startswith("#"):
            comment.append(line.lstrip("#").strip())
            continue
        if heading := GROUP.match(line):
            group = f"{heading[1]}."
        elif comment and (setting := SETTING.match(line)):
            reasons[group + setting[1]] = " ".join(comment)
        comment = []
    return reasons
