"""Several conditions at once: the quantile against published tables, and orders on made-up numbers."""

from __future__ import annotations

import math
from statistics import fmean

import pytest

from weft.apps.labs.comparisons import honest_difference, largest_difference, order_text, ordered_pairs, range_quantile

NOISY = {"a": [70.0, 75.0, 72.0], "b": [71.0, 73.0, 75.0], "c": [20.0, 25.0, 24.0]}


@pytest.mark.parametrize(("conditions", "degrees", "q"), [(2, 4, 3.93), (3, 4, 5.04), (6, 10, 4.91), (6, 12, 4.75)])
def test_range_quantile_agrees_with_the_tables(conditions: int, degrees: int, q: float) -> None:
    assert range_quantile(conditions, degrees) == pytest.approx(q, rel=0.01)


def test_honest_difference_is_that_of_the_residuals() -> None:
    """Literally: y_cs − ȳ_c − ȳ_s + ȳ, one number after the other."""
    rows = list(NOISY.values())
    means = [fmean(row) for row in rows]
    seeds = [fmean(column) for column in zip(*rows, strict=True)]
    squares = 0.0
    for row, mean in zip(rows, means, strict=True):
        for value, seed in zip(row, seeds, strict=True):
            squares += (value - mean - seed + fmean(means)) ** 2
    expected = range_quantile(3, 4) * math.sqrt(squares / 4 / 3)
    assert honest_difference(NOISY) == pytest.approx(expected)


def test_an_order_is_stated_only_beyond_noise() -> None:
    assert ordered_pairs(NOISY) == [("c", "a"), ("c", "b")]
    assert order_text(NOISY) == "c < a, b"
    assert order_text({name: [-value for value in row] for name, row in NOISY.items()}) == "a, b < c"
    assert order_text({"a": [1.0, 9.0], "b": [9.0, 1.0]}) == "no pair differs beyond noise"


def test_what_a_seed_adds_to_all_conditions_is_not_noise() -> None:
    assert honest_difference({"a": [1.0, 50.0, 90.0], "b": [2.0, 51.0, 91.0]}) == pytest.approx(0.0, abs=1e-9)
    assert largest_difference({"a": [1.0, 50.0], "b": [2.0, 51.0]}).low == pytest.approx(1.0)


def test_one_seed_tells_nothing() -> None:
    assert largest_difference({"a": [1.0], "b": [9.0]}).low == -math.inf
    assert ordered_pairs({"a": [1.0], "b": [9.0]}) == []
