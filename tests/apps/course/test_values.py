"""Comparison of nested values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from weft.apps.course.values import Difference, first_difference, has_nan, kind_of, plain, shape_of, short


def test_tensors_arrays_and_tuples_become_lists() -> None:
    value = (torch.ones(2, 1, requires_grad=True), np.zeros(2), {"a": (1, 2)}, "x", 3)
    assert plain(value) == [[[1.0], [1.0]], [0.0, 0.0], {"a": [1, 2]}, "x", 3]


@pytest.mark.parametrize(
    ("given", "expected", "difference"),
    [
        ([1.0, 2.0], [1, 2.000001], None),
        ([[1.0], [2.0]], [[1.0], [2.1]], Difference("[1][0]", "2.0000", "2.1000")),
        (1.0, [1.0], Difference("", "a value of type float", "values of shape 1")),
        ([1, 2], [1], Difference("", "2 elements", "1 elements")),
        ("a", "b", Difference("", "'a'", "'b'")),
        (True, 1, Difference("", "True", "1")),
        (math.nan, math.nan, None),
        (math.nan, 1.0, Difference("", "nan", "1.0000")),
        (None, 1.0, Difference("", "None", "1.0000")),
        (math.inf, math.inf, None),
    ],
)
def test_the_first_difference(given: object, expected: object, difference: Difference | None) -> None:
    assert first_difference(given, expected) == difference


def test_words_for_values() -> None:
    assert shape_of([[1, 2, 3], [4, 5, 6]]) == (2, 3) and shape_of([]) == (0,) and shape_of(3) == ()
    assert kind_of([[1, 2]]) == "values of shape 1 × 2" and kind_of(None) == "nothing (None)"
    assert has_nan([[1.0, [math.nan]]]) and not has_nan(["nan", 1])
    assert len(short("x" * 100)) == 58
