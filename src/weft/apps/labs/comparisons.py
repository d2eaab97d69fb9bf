"""Multiple comparisons of conditions: which differences of means are larger than noise.

With six conditions there are fifteen pairs, so some pair differs by chance alone. Tukey's honestly significant
difference is exceeded by the largest of all differences with a probability of 5 % only:

    HSD = q · s / √n      q: 95 % quantile of the studentized range of k conditions, (k − 1)(n − 1) degrees of freedom
                          s: standard deviation of the residuals y_cs − ȳ_c − ȳ_s + ȳ of conditions c and n seeds s

A seed gives all conditions the same training data and the same test sentences: what it adds to all of them is not noise
of their comparison, so its mean ȳ_s is removed (a randomized block design).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import permutations

import numpy as np

from weft.evaluation.statistics import Estimate

DRAWS = 100_000
"""Random samples from which the quantile is computed; its error is below one percent."""


@cache
def range_quantile(conditions: int, degrees: int) -> float:
    """The 95 % quantile of (max − min of k standard normals) / √(χ²/degrees), by simulation."""
    generator = np.random.default_rng(0)
    ranges = np.ptp(generator.standard_normal((DRAWS, conditions)), axis=1)
    scales = np.sqrt(generator.chisquare(degrees, DRAWS) / degrees)
    return float(np.quantile(ranges / scales, 0.95))


def honest_difference(values: Mapping[str, Sequence[float]]) -> float:
    """The smallest difference of two means that counts; infinite with one seed. ``values``: by condition and seed."""
    table_CS = np.array([list(row) for row in values.values()], dtype=float)
    conditions, seeds = table_CS.shape
    if seeds < 2 or conditions < 2:
        return math.inf
    residuals_CS = table_CS - table_CS.mean(1, keepdims=True) - table_CS.mean(0) + table_CS.mean()
    degrees = (conditions - 1) * (seeds - 1)
    return range_quantile(conditions, degrees) * math.sqrt(float((residuals_CS**2).sum()) / degrees / seeds)


def largest_difference(values: Mapping[str, Sequence[float]]) -> Estimate:
    """The largest mean less the smallest, with its simultaneous 95 % interval."""
    means = [float(np.mean(row)) for row in values.values()]
    margin = honest_difference(values)
    spread = max(means) - min(means)
    return Estimate(spread, spread - margin, spread + margin)


def ordered_pairs(values: Mapping[str, Sequence[float]]) -> list[tuple[str, str]]:
    """The pairs of conditions of which the first has a smaller mean than the second beyond noise."""
    margin = honest_difference(values)
    means = {name: float(np.mean(row)) for name, row in values.items()}
    return [(low, high) for low, high in permutations(means, 2) if means[high] - means[low] > margin]


def order_text(values: Mapping[str, Sequence[float]]) -> str:
    """The order that is beyond noise: ``scaled_dot < dot, general``; or that there is none."""
    above: dict[str, list[str]] = {}
    for low, high in ordered_pairs(values):
        above.setdefault(low, []).append(high)
    groups: dict[tuple[str, ...], list[str]] = {}
    for low, highs in above.items():
        groups.setdefault(tuple(highs), []).append(low)
    orders = [f"{', '.join(lows)} < {', '.join(highs)}" for highs, lows in groups.items()]
    return "; ".join(orders) or "no pair differs beyond noise"
