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

from weft.evaluation.statistics import Estimate, difference, t_interval, t_quantile


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


def together(first: Estimate, second: Estimate, count: int, limits: tuple[float, float] | None = None) -> Estimate:
    """The interval of two sets of ``count`` seeds each, from those of the sets.

        Σ(x − m)² = (n − 1)(s₁² + s₂²) + n (m₁ − m)² + n (m₂ − m)²      m: the mean of both; n = ``count``

    ``limits``: of a quantity whose intervals are `bounded` by them. Factors: see `factors_together`.
    """
    mean = (first.mean + second.mean) / 2
    squares = 0.0
    for estimate in (first, second):
        deviation = _half_width(estimate, limits) / t_quantile(count - 1) * math.sqrt(count)
        squares += (count - 1) * deviation**2 + count * (estimate.mean - mean) ** 2
    total = 2 * count
    half = t_quantile(total - 1) * math.sqrt(squares / (total - 1) / total)
    interval = Estimate(mean, mean - half, mean + half)
    return interval if limits is None else bounded(interval, *limits)


def factors_together(first: Estimate, second: Estimate, count: int) -> Estimate:
    """The interval of two sets of factors: that of their logarithms."""
    logs = [Estimate(math.log(part.mean), math.log(part.low), math.log(part.high)) for part in (first, second)]
    both = together(logs[0], logs[1], count)
    return Estimate(math.exp(both.mean), math.exp(both.low), _exp(both.high))


def _half_width(estimate: Estimate, limits: tuple[float, float] | None) -> float:
    """Half of the t interval from which `bounded` has made this one."""
    if limits is None or estimate.is_exact:
        return (estimate.high - estimate.low) / 2
    low, high = limits
    share, *ends = ((value - low) / (high - low) for value in (estimate.mean, estimate.low, estimate.high))
    end = ends[0] if share > 0.5 else ends[1]  # the one that rounding cannot have moved to a limit
    if not 0 < share < 1:
        raise ValueError(f"{estimate.mean}: at its limit, so the width of its interval is not known")
    reach = abs(math.log(end / (1 - end)) - math.log(share / (1 - share)))
    return reach * share * (1 - share) * (high - low)


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0
