"""Choices of settings with their reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Choice:
    """Settings that are chosen together, and why, in one line."""

    topic: str
    """Name of the choice for readers: "target units"."""
    value: str
    reason: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Dotted names and values."""

    def line(self) -> str:
        """The choice as it is printed."""
        return f"{self.topic}: {self.value} ({self.reason})"


def as_tree(choices: list[Choice]) -> dict[str, Any]:
    """The settings of all choices as nested dictionaries; a later choice wins."""
    tree: dict[str, Any] = {}
    for choice in choices:
        for name, value in choice.settings.items():
            *groups, last = name.split(".")
            branch = tree
            for group in groups:
                branch = branch.setdefault(group, {})
            branch[last] = value
    return tree
