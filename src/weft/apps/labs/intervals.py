"""Intervals that stay within the range of the quantity they are about.

The t interval of three seeds can leave the range of a percentage: 85 % [59, 112]. So its half width is carried over to
a scale without bounds, where the interval is symmetric, and back (the delta method):

    y = logit((m − a) / (b − a))          m: the mean over seeds of a quantity between a and b
    y ± t · s / √n · dy/dm                dy/dm = (b − a) / ((m − a)(b − m))

A factor, such as a ratio of gradients, is positive: its interval is that of the mean of its logarithms. With one seed
there is no interval; seeds that all give the same number give an interval of width 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.evaluation.statistics import Estimate, difference, t_interval


def bounded(estimate: Estimate, low: float, high: float) -> Estimate:
    """The t interval of a quantity between two limits, by the logit of its place between them."""
    half, mean = (estimate.high - estimate.low) / 2, estimate.mean
    if not math.isfinite(half) or half == 0 or not low < mean < high:
        return estimate if not math.isfinite(half) else Estimate(mean, max(low, mean - half), min(high, mean + half))
    share = (mean - low) / (high - low)
    reach = half / (high - low) / (share * (1 - share))
    limits = (_logistic(math.log(share / (1 - share)) + sign * reach) for sign in (-1, 1))
    first, last = (low + (high - low) * limit for limit in limits)
    return Estimate(mean, first, last)


def percent(values: Sequence[float]) -> Estimate:
    """The mean of percentages, between 0 and 100."""
    return bounded(t_interval(values), 0.0, 100.0)


def points(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """The mean difference of percentages, second minus first, paired by seed: between −100 and 100 points."""
    return bounded(difference(first, second), -100.0, 100.0)


def mean_points(differences: Sequence[float]) -> Estimate:
    """The mean of differences of percentages, one per seed."""
    return bounded(t_interval(differences), -100.0, 100.0)


def percent_curve(curves: Sequence[Sequence[float]]) -> list[Estimate]:
    """The mean percentage at each point of curves with the same points, one per seed."""
    return [percent(values) for values in zip(*curves, strict=True)]


def nonnegative(values: Sequence[float]) -> Estimate:
    """The mean of numbers that are 0 or more: the t interval of the mean on a logarithmic scale."""
    estimate = t_interval(values)
    half = (estimate.high - estimate.low) / 2
    if not math.isfinite(half) or estimate.mean <= 0:
        return estimate
    width = math.exp(min(half / estimate.mean, 700))
    return Estimate(estimate.mean, estimate.mean / width, estimate.mean * width)


def nonpositive(values: Sequence[float]) -> Estimate:
    """The mean of numbers that are 0 or less, such as log p."""
    estimate = nonnegative([-value for value in values])
    return Estimate(-estimate.mean, -estimate.high, -estimate.low)


def factor(values: Sequence[float]) -> Estimate:
    """The geometric mean of positive numbers."""
    logs = t_interval([math.log(value) for value in values])
    return Estimate(math.exp(logs.mean), math.exp(logs.low), _exp(logs.high))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0
