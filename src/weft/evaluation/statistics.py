"""Estimates with 95 % intervals. Seeds are the unit: one number for each seed, and the t interval of their mean.

    mean ± t · s / √n          t: 97.5 % quantile of Student's distribution with n − 1 degrees of freedom

With one seed nothing is known of the variation between seeds, so the interval is (−∞, ∞).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

T_QUANTILES = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
"""The 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom."""
Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Estimate:
    """A mean and the limits of its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A number without uncertainty: counted, or proved."""
        return cls(value, value, value)

    @property
    def is_exact(self) -> bool:
        """Whether the interval is not wider than the rounding of floating-point numbers."""
        return self.high - self.low <= 1e-9 * abs(self.mean) + 1e-15

    def scaled(self, factor: float) -> Estimate:
        """The estimate in another unit; ``factor`` is positive."""
        return Estimate(self.mean * factor, self.low * factor, self.high * factor)

    def text(self, unit: str = "") -> str:
        """``62 points [55, 69]``, with as many digits as the interval allows; an exact number has no interval."""
        half = (self.high - self.low) / 2
        if self.is_exact or not math.isfinite(half):
            value = f"{number(self.mean)} {unit}".rstrip()
            return value if self.is_exact else f"{value} [no interval]"
        decimals = min(max(-math.floor(math.log10(half / 2)), 0), 6)
        mean, low, high = (number(value, decimals=decimals) for value in (self.mean, self.low, self.high))
        return f"{mean} {unit}".rstrip() + f" [{low}, {high}]"


def number(value: float, *, decimals: int | None = None) -> str:
    """A number for a reader: ``0.0312``, ``62.3``, ``1,480``, ``1.2e−7``; by default with three significant digits."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    size = abs(value)
    if decimals is None:
        if size < 1e15 and abs(value - round(value)) <= 1e-9 * size:
            return f"{round(value):,}".replace("-", "−")
        if size < 1e-3 or size >= 1e7:
            mantissa, _, exponent = f"{value:.1e}".partition("e")
            return f"{mantissa}e{int(exponent)}".replace("-", "−")
        decimals = max(0, 2 - math.floor(math.log10(size)))
    text = f"{value:,.{decimals}f}"
    return (text.removeprefix("-") if not float(text.replace(",", "")) else text).replace("-", "−")


def t_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t distribution; beyond the table by the expansion of Cornish and Fisher."""
    if degrees <= len(T_QUANTILES):
        return T_QUANTILES[degrees - 1]
    first = (Z**3 + Z) / 4
    second = (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    return Z + first / degrees + second / degrees**2


def t_interval(values: Sequence[float]) -> Estimate:
    """The mean over seeds with its t interval."""
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean, -math.inf, math.inf)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = t_quantile(len(values) - 1) * math.sqrt(variance / len(values))
    return Estimate(mean, mean - half, mean + half)


def mean_curve(curves: Sequence[Sequence[float]]) -> list[Estimate]:
    """The mean at each point, with its t interval, of curves with the same points, one per seed."""
    return [t_interval(values) for values in zip(*curves, strict=True)]


def difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """The mean difference, second minus first, paired by seed, with its t interval."""
    return t_interval([after - before for before, after in zip(first, second, strict=True)])


def binomial(successes: int, trials: int) -> Estimate:
    """A share with the interval of Wilson (1927)."""
    if not trials:
        return Estimate(math.nan, -math.inf, math.inf)
    share = successes / trials
    scale = 1 + Z**2 / trials
    center = (share + Z**2 / (2 * trials)) / scale
    half = Z / scale * math.sqrt(share * (1 - share) / trials + Z**2 / (4 * trials**2))
    return Estimate(share, min(center - half, share), max(center + half, share))


def slope(xs: Sequence[float], ys: Sequence[float], *, log: bool = False) -> float:
    """The slope of the least-squares line; ``log``: fit log y to log x, whose slope is the exponent of a power law."""
    if log:
        xs, ys = [math.log(x) for x in xs], [math.log(y) for y in ys]
    x_mean, y_mean = fmean(xs), fmean(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / spread
