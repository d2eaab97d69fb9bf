"""Comparison of what two functions return: tensors, arrays, lists, numbers and text, nested in any way."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

TOLERANCE = 1e-5
"""Largest difference, relative to 1 or to the expected number."""


class Difference(NamedTuple):
    """The first element at which two values differ."""

    where: str
    """``[0][2]``; empty for a value that is no sequence."""
    given: str
    expected: str


def plain(value: Any) -> Any:
    """Tensors and arrays as nested lists, tuples as lists, all else as it is."""
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        value = value.detach() if hasattr(value, "detach") else value
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def shape_of(value: Any) -> tuple[int, ...]:
    """The lengths of nested lists, as far as the first elements tell."""
    shape: list[int] = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def is_array(value: Any) -> bool:
    """Whether nested lists have numbers only and are as long as their neighbors, as those of tensors are."""
    if not isinstance(value, list):
        return _is_number(value)
    return all(map(is_array, value)) and len({shape_of(item) for item in value}) <= 1


def first_difference(given: Any, expected: Any, where: str = "") -> Difference | None:
    """Where two plain values differ first; None if they are equal up to rounding."""
    if isinstance(expected, list):
        if not isinstance(given, list):
            return Difference(where, kind_of(given), kind_of(expected))
        if len(given) != len(expected):
            return Difference(where, f"{len(given)} elements", f"{len(expected)} elements")
        pairs = zip(given, expected, strict=True)
        differences = (first_difference(*pair, f"{where}[{index}]") for index, pair in enumerate(pairs))
        return next((difference for difference in differences if difference is not None), None)
    return None if _same_element(given, expected) else Difference(where, short(given), short(expected))


def _same_element(given: Any, expected: Any) -> bool:
    if _is_number(expected) and _is_number(given):
        if math.isnan(expected) or math.isnan(given):
            return math.isnan(expected) and math.isnan(given)
        return math.isclose(given, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(given) is type(expected) and given == expected


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and type(value) is not bool


def has_nan(value: Any) -> bool:
    """Whether a plain value has an element that is not a number."""
    if isinstance(value, list):
        return any(map(has_nan, value))
    return isinstance(value, float) and math.isnan(value)


def has_text(value: Any) -> bool:
    """Whether a plain value has an element that is text."""
    return any(map(has_text, value)) if isinstance(value, list) else isinstance(value, str)


def kind_of(value: Any) -> str:
    """A description of a plain value."""
    if isinstance(value, list):
        return f"values of shape {' × '.join(map(str, shape_of(value)))}" if value and is_array(value) else short(value)
    return "nothing (None)" if value is None else f"a value of type {type(value).__name__}"


def short(value: Any) -> str:
    """A plain value in at most 60 characters."""
    text = f"{value:.4f}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
