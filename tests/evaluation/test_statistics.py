"""Estimates: against literal formulas, known quantiles, and simulated coverage."""

from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import numpy as np
import pytest

from weft.evaluation.statistics import (
    Estimate,
    binomial,
    difference,
    mean_curve,
    number,
    slope,
    t_interval,
    t_quantile,
)


def t_tail(t: float, degrees: int) -> float:
    """P(T > t) by integration of the density; x = t + u/(1 − u) maps [t, ∞) to [0, 1)."""
    constant = math.gamma((degrees + 1) / 2) / (math.sqrt(degrees * math.pi) * math.gamma(degrees / 2))
    u = (np.arange(200_000) + 0.5) / 200_000
    x = t + u / (1 - u)
    return float(np.mean(constant * (1 + x**2 / degrees) ** (-(degrees + 1) / 2) / (1 - u) ** 2))


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 19, 30, 31, 60, 150])
def test_quantiles_of_t(degrees: int) -> None:
    assert t_tail(t_quantile(degrees), degrees) == pytest.approx(0.025, abs=1e-5)


def test_an_interval_over_seeds() -> None:
    values = [3.0, 5.0, 10.0]
    half = 4.3027 * stdev(values) / math.sqrt(3)
    assert t_interval(values) == Estimate(6.0, pytest.approx(6 - half), pytest.approx(6 + half))
    assert t_interval([2.0, 2.0]).is_exact


def test_one_seed_tells_nothing_of_the_variation() -> None:
    assert t_interval([7.0]) == Estimate(7.0, -math.inf, math.inf)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    draws = random.Random(1)
    intervals = [t_interval([draws.gauss(2, 3) for _ in range(3)]) for _ in range(3_000)]
    assert fmean(interval.low < 2 < interval.high for interval in intervals) == pytest.approx(0.95, abs=0.015)


def test_a_difference_is_paired_by_seed() -> None:
    assert difference([1.0, 5.0, 9.0], [2.0, 6.0, 10.0]) == Estimate(1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="zip"):
        difference([1.0], [1.0, 2.0])


def test_a_share() -> None:
    assert binomial(0, 10).low == 0 and binomial(0, 10).high == pytest.approx(0.2775, abs=1e-4)
    half = binomial(50, 100)  # Wilson: (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n)
    assert (half.low, half.high) == (pytest.approx(0.4038, abs=1e-4), pytest.approx(0.5962, abs=1e-4))
    assert binomial(10, 10).high == 1 and math.isnan(binomial(0, 0).mean)


def test_slopes() -> None:
    xs = [1.0, 2.0, 4.0, 8.0]
    assert slope(xs, [3 * x + 1 for x in xs]) == pytest.approx(3)
    assert slope(xs, [5 * x**1.5 for x in xs], log=True) == pytest.approx(1.5)
    ys = [1.0, 2.5, 3.5, 8.5]
    assert slope(xs, ys) == pytest.approx(np.polyfit(xs, ys, 1)[0])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0312, "0.0312"), (62.34, "62.3"), (1480.2, "1,480"), (3.0, "3"), (-0.5, "−0.500"), (1.2e-7, "1.2e−7")],
)
def test_numbers_for_readers(value: float, text: str) -> None:
    assert number(value) == text


def test_estimates_for_readers() -> None:
    assert Estimate(62.34, 55.12, 69.4).text("points") == "62 points [55, 69]"
    assert Estimate(1.0031, 0.9941, 1.0121).text() == "1.003 [0.994, 1.012]"
    assert Estimate(-0.00001, -0.1, 0.1).text() == "0.00 [−0.10, 0.10]"
    assert Estimate.exact(4).text() == "4"
    assert t_interval([7.0]).text() == "7 [no interval]"
    assert number(math.nan) == "–" and number(-math.inf) == "−∞" and number(math.inf) == "∞"
    assert Estimate(1.0, 0.5, 2.0).scaled(100) == Estimate(100.0, 50.0, 200.0)


def test_the_mean_of_curves_is_the_mean_at_each_point() -> None:
    assert mean_curve([[1.0, 5.0], [2.0, 5.0], [6.0, 8.0]]) == [t_interval([1, 2, 6]), t_interval([5, 5, 8])]
