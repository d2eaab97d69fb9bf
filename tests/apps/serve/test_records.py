"""Results as JSON: numbers that JSON has, and what follows from a translation."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weft.apps.serve.records import coverage, draw_record, matrix, number, numbers
from weft.search.trace import Draw


def test_numbers() -> None:
    assert numbers([0.12345678, math.inf, -math.inf, math.nan, 2.0]) == [0.123457, None, None, None, 2.0]
    assert number(None) is None
    assert matrix(np.array([[0.12345678, math.nan], [1.0, 0.0]])) == [[0.123457, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("attention", "expected"),
    [
        (None, None),
        (np.zeros((0, 3)), None),
        (np.array([[0.5, 0.5], [0.25, 0.75]]), math.log(0.75)),  # 0.75 and 1.25, which counts as 1
        (np.array([[0.0, 1.0]]), math.log(1e-6)),
    ],
)
def test_coverage(attention: Any, expected: float | None) -> None:
    found = coverage(SimpleNamespace(attention=attention))  # type: ignore[arg-type]
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-6))


def test_the_probabilities_of_the_model_are_added_if_they_are_given() -> None:
    draw = Draw(tokens=[4, 2], probabilities=[0.75, 0.25], kept=[True, False], chosen=0, mass=0.75, kept_count=1)
    record = draw_record(draw, str, [-0.5, -math.inf])
    assert record["tokens"] == ["4", "2"] and record["ids"] == [4, 2]
    assert (record["probabilities"], record["log_probabilities"]) == ([0.75, 0.25], [-0.5, None])
    assert (record["kept"], record["chosen"], record["mass"], record["kept_count"]) == ([True, False], 0, 0.75, 1)
    assert draw_record(draw, str)["log_probabilities"] is None
