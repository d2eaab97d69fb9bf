"""Exponents of made-up costs."""

from __future__ import annotations

import math
from random import Random

import pytest

from weft.apps.bench.growth import FLAT, fit_growth

SIZES = (4, 8, 16, 32, 64, 128, 256)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.37, 2.0, 3.0])
@pytest.mark.parametrize("fixed", [0.0, 0.02])
def test_a_power_law_is_recovered(power: float, fixed: float) -> None:
    growth = fit_growth(SIZES, [fixed + 0.003 * size**power for size in SIZES])
    assert growth.exponent is not None and growth.problem == ""
    assert growth.exponent.mean == pytest.approx(power, abs=0.01)
    assert growth.fixed == pytest.approx(fixed, abs=0.001)
    assert growth.exponent.low <= growth.exponent.mean <= growth.exponent.high
    assert growth.at(512) == pytest.approx(fixed + 0.003 * 512**power, rel=0.05)


def test_the_interval_holds_the_exponent_under_noise() -> None:
    """In 95 % of all cases; 100 cases have a standard deviation of 2.2 of them."""
    random, inside = Random(1), 0
    for _ in range(100):
        growth = fit_growth(SIZES, [(0.02 + 0.003 * size**1.2) * random.gauss(1, 0.03) for size in SIZES])
        assert growth.exponent is not None
        inside += growth.exponent.low - 0.005 <= 1.2 <= growth.exponent.high + 0.005
    assert inside >= 88


def test_noise_makes_the_interval_wider() -> None:
    signs = (1, -1, 1, -1, 1, -1, 1)
    widths = []
    for noise in (0.01, 0.03):
        costs = [(0.02 + 0.003 * size) * (1 + noise * sign) for size, sign in zip(SIZES, signs, strict=True)]
        exponent = fit_growth(SIZES, costs).exponent
        assert exponent is not None
        widths.append(exponent.high - exponent.low)
    assert widths[0] < widths[1]


class TestNoExponent:
    """What is told instead of a number that means nothing."""

    def test_too_few_sizes(self) -> None:
        assert fit_growth(SIZES[:4], [1, 2, 4, 8]).text() == "too few sizes: 4"
        assert fit_growth([4], [1.0]).text() == "too few sizes: 1" and math.isnan(fit_growth([], []).fixed)

    def test_nothing_grows(self) -> None:
        growth = fit_growth(SIZES, [1.0, 1.01, 0.99, 1.0, 1.02, 1.1, 1.2])
        assert growth.problem == FLAT and growth.exponent is None and growth.size_of(100) is None

    def test_another_curve(self) -> None:
        growth = fit_growth(SIZES, [1, 9, 2, 16, 3, 30, 8])
        assert growth.exponent is None and growth.text().startswith("poor fit: off by ")

    def test_growth_that_begins_at_the_last_size(self) -> None:
        growth = fit_growth(SIZES, [1.0, 1.03, 0.97, 1.0, 1.02, 1.1, 1.6])
        assert growth.exponent is None and growth.text().startswith("unclear: ")


def test_the_size_of_a_cost() -> None:
    growth = fit_growth(SIZES, [10 + 2 * size**2 for size in SIZES])
    assert growth.size_of(10 + 2 * 1000**2) == pytest.approx(1000, rel=0.02)
    assert growth.size_of(5) is None
    assert growth.text().startswith("2.00 [")
