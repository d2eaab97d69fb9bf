"""config.json, value by value: each is checked when it is read, and an error names the file and the entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import CheckpointError

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""The names of activations in transformers, and in a recipe."""
SHOWN = 60
"""Characters of a value that an error message shows."""


class Configuration:
    """The entries of a configuration."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        """``where``: the file, for messages."""
        self.values = values
        self.where = where

    def error(self, name: str, problem: str) -> CheckpointError:
        """An error about an entry."""
        return CheckpointError(f"{self.where}: {name}: {problem}")

    def whole(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number of at least ``least``; if it is not set, the default, or an error where there is none."""
        value = self._given(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
            raise self.error(name, f"{_shown(value)} was found, expected a whole number of at least {least}")
        return value

    def number(self, name: str, default: float) -> float:
        """A number of at least 0."""
        value = self._given(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise self.error(name, f"{_shown(value)} was found, expected a number of at least 0")
        return float(value)

    def share(self, name: str, default: float) -> float:
        """A probability of dropout."""
        value = self.number(name, default)
        if value >= 1:
            raise self.error(name, f"{value:g} was found, expected a number below 1")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._given(name, default)
        if not isinstance(value, bool):
            raise self.error(name, f"{_shown(value)} was found, expected true or false")
        return value

    def activation(self, name: str, value: Any = None) -> str:
        """The activation that an entry names, or a part of it, in weft's words."""
        given = self._given(name, "gelu") if value is None else value
        if not isinstance(given, str) or given not in ACTIVATIONS:
            raise self.error(name, f"{_shown(given)} is not known; weft has {', '.join(sorted(ACTIVATIONS))}")
        return ACTIVATIONS[given]

    def _given(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is None and default is None:
            raise self.error(name, "is missing")
        return default if value is None else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
