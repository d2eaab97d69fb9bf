"""Growth of a cost y with a size n: a fixed part and a power of the size.

    y = a + b n^p          a ≥ 0, b > 0

fitted so that the squares of relative errors, ((y − a − b n^p) / y)², have the smallest sum. For a given p the best a
and b follow from two linear equations; p is found by trying it. Its 95 % interval has every p whose sum of squares is
at most 1 + t²/(n − 3) times the smallest one (t: Student's quantile), so it is wide where the fixed part and
the growth cannot be told apart. Where that leaves the exponent open, or the curve is another one, `Growth.problem` says
so and there is no exponent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.evaluation.statistics import Estimate, number, t_quantile

MIN_SIZES = 5
"""Two more than the parameters of the fit."""
MIN_GROWTH = 1.5
"""The ratio of the largest to the smallest cost below which no exponent is stated."""
MAX_ERROR = 0.15
"""The root of the mean squared relative error of a good fit."""
MAX_HALF_WIDTH = 0.3
"""Half the width of the widest interval for which an exponent is stated."""
EXPONENTS = np.round(np.arange(0.05, 4.0001, 0.005), 3)
"""The exponents that are tried."""
FLAT = "flat"


@dataclass(frozen=True)
class Growth:
    """The fitted curve, or the reason why there is no exponent."""

    fixed: float
    """a, in the unit of the cost."""
    factor: float
    """b"""
    power: float
    """p, whether or not it is determined."""
    exponent: Estimate | None
    """p with its interval; None if there is a problem."""
    error: float
    """The root of the mean squared relative error."""
    problem: str = ""
    """The reason why there is no exponent: "flat", or the problem of the fit."""

    def at(self, size: float) -> float:
        """The cost of a size."""
        return self.fixed + self.factor * size**self.power

    def size_of(self, cost: float) -> float | None:
        """The size that has a cost; None if no exponent is known."""
        if self.exponent is None or cost <= self.fixed:
            return None
        return float(((cost - self.fixed) / self.factor) ** (1 / self.power))

    def text(self) -> str:
        """``1.20 [1.12, 1.29]``, or the problem."""
        return self.problem if self.exponent is None else exponent_text(self.exponent)


def exponent_text(exponent: Estimate) -> str:
    """An exponent with its interval, in hundredths."""
    mean, low, high = (number(value, decimals=2) for value in (exponent.mean, exponent.low, exponent.high))
    return f"{mean} [{low}, {high}]"


def fit_growth(sizes: Sequence[float], costs: Sequence[float]) -> Growth:
    """The growth of costs that are all positive, in the order of their sizes."""
    if len(sizes) < 2:
        return Growth(min(costs, default=math.nan), 0.0, 1.0, None, math.nan, _too_few(len(sizes)))
    ns, ys = np.asarray(sizes, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    fixed, factor, squares = _linear_fits(ns ** EXPONENTS[:, None], ys)
    best = int(squares.argmin())
    power, error = float(EXPONENTS[best]), math.sqrt(squares[best] / len(ns))
    exponent = _interval(squares, best, len(ns))
    problem = _problem(ys, exponent, error)
    return Growth(float(fixed[best]), float(factor[best]), power, None if problem else exponent, error, problem)


def _linear_fits(powers: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a ≥ 0, b > 0 and the sum of squared relative errors; ``powers``: n^p, a row for each p."""
    ones, slopes = np.broadcast_to(1 / costs, powers.shape), powers / costs  # a · ones + b · slopes should be 1
    aa, ab, bb = (ones * ones).sum(1), (ones * slopes).sum(1), (slopes * slopes).sum(1)
    determinant = np.maximum(aa * bb - ab * ab, 1e-12 * aa * bb)
    fixed = (bb * ones.sum(1) - ab * slopes.sum(1)) / determinant
    factor = (slopes.sum(1) - ab * fixed) / bb
    without = (fixed < 0) | (factor <= 0)
    fixed = np.where(without, 0.0, fixed)
    factor = np.where(without, slopes.sum(1) / bb, factor)
    residuals = fixed[:, None] * ones + factor[:, None] * slopes - 1
    return fixed, factor, (residuals * residuals).sum(1)


def _interval(squares: np.ndarray, best: int, count: int) -> Estimate:
    """The exponents that fit about as well as the best one."""
    if count <= 3:
        return Estimate(float(EXPONENTS[best]), -math.inf, math.inf)
    limit = squares[best] * (1 + t_quantile(count - 3) ** 2 / (count - 3)) + 1e-9
    inside = EXPONENTS[squares <= limit]
    low = -math.inf if squares[0] <= limit else float(inside[0])
    high = math.inf if squares[-1] <= limit else float(inside[-1])
    return Estimate(float(EXPONENTS[best]), low, high)


def _problem(costs: np.ndarray, exponent: Estimate, error: float) -> str:
    """The reason why an exponent would be meaningless; empty if it is meaningful."""
    if len(costs) < MIN_SIZES:
        return _too_few(len(costs))
    if costs.max() < MIN_GROWTH * costs.min():
        return FLAT
    if error > MAX_ERROR:
        return f"poor fit: off by {error:.0%}"
    if not exponent.high - exponent.low <= 2 * MAX_HALF_WIDTH:
        low = "0" if math.isinf(exponent.low) else number(exponent.low, decimals=1)
        high = "4 or more" if math.isinf(exponent.high) else number(exponent.high, decimals=1)
        return f"unclear: {low} to {high}"
    return ""


def _too_few(count: int) -> str:
    return f"too few sizes: {count}"
