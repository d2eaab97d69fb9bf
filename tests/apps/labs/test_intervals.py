"""Intervals of percentages, differences and factors stay within their range."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.apps.labs.intervals import (
    bounded,
    factor,
    factors_together,
    mean_points,
    nonnegative,
    percent,
    percent_curve,
    points,
    together,
)
from weft.evaluation.statistics import Estimate, t_interval

PERCENTAGES = st.lists(st.floats(0, 100), min_size=2, max_size=6)


@given(PERCENTAGES)
def test_percentages_stay_between_0_and_100(values: list[float]) -> None:
    estimate = percent(values)
    assert 0 <= estimate.low <= estimate.mean + 1e-9 and estimate.mean - 1e-9 <= estimate.high <= 100


@given(PERCENTAGES)
def test_differences_stay_between_minus_100_and_100(values: list[float]) -> None:
    estimate = points(values, values[::-1])
    assert -100 <= estimate.low <= estimate.mean + 1e-9 and estimate.mean - 1e-9 <= estimate.high <= 100


def test_by_hand() -> None:
    """(60, 80, 100): mean 80, half width t · s / √3 = 4.3027 · 20 / √3; logit(0.8) = ln 4, slope 1 / 0.16."""
    half = 4.3027 * 20 / math.sqrt(3) / 100
    low, high = (1 / (1 + math.exp(-(math.log(4) + sign * half / 0.16))) for sign in (-1, 1))
    estimate = percent([60.0, 80.0, 100.0])
    assert (estimate.mean, estimate.low, estimate.high) == pytest.approx((80, 100 * low, 100 * high))
    assert t_interval([60.0, 80.0, 100.0]).high > 100


def test_a_narrow_interval_is_that_of_t() -> None:
    values = [49.9, 50.0, 50.1]
    expected = t_interval(values)
    estimate = percent(values)
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-3)


def test_the_edges() -> None:
    assert percent([100.0, 100.0]) == Estimate(100.0, 100.0, 100.0)
    assert percent([50.0]).low == -math.inf
    assert bounded(Estimate(3.0, 2.0, 4.0), 0.0, 3.0) == Estimate(3.0, 2.0, 3.0)
    assert percent_curve([[10.0, 20.0], [10.0, 40.0]])[0].mean == 10.0


def test_points_are_those_of_the_differences() -> None:
    assert points([1.0, 2.0], [5.0, 7.0]) == mean_points([4.0, 5.0])


def test_a_factor_is_positive() -> None:
    estimate = factor([0.1, 1.0, 10.0])
    assert estimate.mean == pytest.approx(1.0) and 0 < estimate.low < 0.1 and estimate.high > 10
    assert factor([2.0]).low == 0 and factor([2.0]).high == math.inf


def test_nonnegative_numbers() -> None:
    estimate = nonnegative([1.0, 2.0, 30.0])
    assert estimate.mean == pytest.approx(11) and 0 < estimate.low < 11 < estimate.high
    assert nonnegative([0.0, 0.0]) == Estimate(0.0, 0.0, 0.0) and nonnegative([4.0]).low == -math.inf


def test_two_sets_of_seeds_together_are_all_of_them() -> None:
    first, second = [60.0, 71.0, 83.0], [55.0, 90.0, 64.0]
    shares = together(percent(first), percent(second), 3, (0.0, 100.0))
    assert astuple(shares) == pytest.approx(astuple(percent([*first, *second])))
    plain = together(t_interval(first), t_interval(second), 3)
    assert astuple(plain) == pytest.approx(astuple(t_interval([*first, *second])))
    ratios = factors_together(factor(first), factor(second), 3)
    assert astuple(ratios) == pytest.approx(astuple(factor([*first, *second])))


def test_sets_without_spread() -> None:
    assert astuple(together(percent([100.0] * 3), percent([100.0] * 3), 3, (0.0, 100.0))) == (100, 100, 100)


def test_a_rounded_mean_at_its_limit_has_no_width() -> None:
    with pytest.raises(ValueError, match=r"^100\.0: at its limit"):
        together(Estimate(100.0, 77.0, 100.0), percent([99.0, 98.0, 97.0]), 3, (0.0, 100.0))
