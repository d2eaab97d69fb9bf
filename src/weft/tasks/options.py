"""Checks of option values that the tasks share."""

from __future__ import annotations

from weft.errors import RecipeError


def check_integer(name: str, value: object, *, minimum: int, maximum: int) -> None:
    """Refuse a value that is not a whole number from `minimum` to `maximum`."""
    if type(value) is not int or not minimum <= value <= maximum:
        raise RecipeError(f"{name}: {value!r}, expected a whole number from {minimum} to {maximum}")
