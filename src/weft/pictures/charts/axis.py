"""Axes of charts: the range that is shown, the ticks, and where a value is on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from weft.evaluation.statistics import Estimate
from weft.pictures.charts.chart import Chart
from weft.pictures.html.charts import tick_text, ticks

MAX_TICKS = 8
MIN_GAP = 0.06
"""The smallest distance between two ticks, as a fraction of the axis."""
MARGIN = 0.04
"""The distance from either end of the axis to the nearest x, as a fraction of the axis."""


class Axis(NamedTuple):
    """A linear or logarithmic axis."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def share(self, value: float) -> float:
        """The relative position of a value: 0 at the low end, 1 at the high end; values outside are clamped."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            position = (math.log(value) - low) / (high - low) if value > 0 else 0.0
        else:
            position = (value - self.low) / (self.high - self.low)
        return min(max(position, 0.0), 1.0)

    @property
    def labels(self) -> list[str]:
        return [tick_text(tick) for tick in self.ticks]


def x_axis(chart: Chart) -> Axis:
    """The axis from the first x to the last; if there are few x values, they are the ticks."""
    values = sorted({float(x) for series in chart.series for x, _ in series.estimates()})
    low, high = values[0], values[-1]
    if len(values) <= MAX_TICKS and (chart.log_x or _are_apart(values)):
        marks = values
    elif chart.log_x:
        marks = _thinned(values)
    else:
        whole = all(value.is_integer() for value in values)
        marks = [tick for tick in ticks(low, high, 6) if low <= tick <= high and (tick.is_integer() or not whole)]
    if chart.log_x:
        ratio = (high / low) ** MARGIN if high > low else 2.0
        return Axis(low / ratio, high * ratio, tuple(marks), log=True)
    margin = MARGIN * (high - low) or 0.5
    return Axis(low - margin, high + margin, tuple(marks))


def value_axis(chart: Chart) -> Axis:
    """The axis of the values: all means, and of intervals as much as leaves the means apart."""
    estimates = [*chart.estimates(), *(Estimate.exact(value) for _, value in chart.references)]
    low, high = _range(estimates, chart.log_y)
    means = [estimate.mean for estimate in estimates]
    if chart.log_y:
        return _log_axis(low, high)
    if "%" in chart.y_label and min(means) >= 0 and max(means) <= 100:
        low, high = max(low, 0.0), min(high, 100.0)
    if 0 <= low < 0.5 * high:
        low = 0.0
    marks = ticks(low, high)
    return Axis(marks[0], marks[-1], tuple(marks))


def _range(estimates: Sequence[Estimate], log: bool) -> tuple[float, float]:
    """Intervals are shown up to three quarters of the range of the means beyond them."""
    means = [estimate.mean for estimate in estimates if not log or estimate.mean > 0]
    lows = [estimate.low for estimate in estimates if math.isfinite(estimate.low) and (not log or estimate.low > 0)]
    highs = [estimate.high for estimate in estimates if math.isfinite(estimate.high)]
    if log:
        beyond = max(max(means) / min(means), 2.0) ** 0.75
        return max(min([*means, *lows]), min(means) / beyond), min(max([*means, *highs]), max(means) * beyond)
    span = max(means) - min(means) or max(abs(means[0]), 1.0) * 0.2
    low, high = min([*means, *lows]), max([*means, *highs])
    return max(low, min(means) - 0.75 * span), min(high, max(means) + 0.75 * span)


def _log_axis(low: float, high: float) -> Axis:
    """Ticks at powers of ten, or at 1, 2 and 5 times these where there are few."""
    margin = max(high / low, 1.5) ** 0.06
    low, high = low / margin, high * margin
    decades = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    marks = [decade for decade in decades if low <= decade <= high]
    if len(marks) < 3:
        marks = [mark for decade in decades for mark in (decade, 2 * decade, 5 * decade) if low <= mark <= high]
    if len(marks) < 2:
        marks = [mark for mark in ticks(low, high, 4) if low <= mark <= high]
    return Axis(low, high, tuple(_thinned(marks)), log=True)


def _thinned(values: Sequence[float]) -> list[float]:
    """Every n-th, so that their labels have space."""
    return list(values[:: math.ceil(len(values) / MAX_TICKS)])


def _are_apart(values: Sequence[float]) -> bool:
    """Whether the labels of neighbors do not collide."""
    gaps = [after - before for before, after in pairwise(values)]
    return not gaps or min(gaps) >= MIN_GAP * (values[-1] - values[0])
