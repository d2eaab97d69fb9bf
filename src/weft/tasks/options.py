"""Checks that the tasks share on the values of their options."""

from __future__ import annotations

from weft.errors import RecipeError


def check_whole(name: str, value: object, *, least: int, most: int) -> None:
    """Refuse a value that is not a whole number from `least` to `most`."""
    if type(value) is not int or not least <= value <= most:
        raise RecipeError(f"{name}: {value!r}, expected a whole number from {least} to {most}")
