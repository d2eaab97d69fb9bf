"""A chart as data: what is drawn is decided here, how it looks in `picture`, `terminal` and `html`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.evaluation.statistics import Estimate

MAX_SERIES = 6
"""The largest number of series that color, marker and dash distinguish."""
Point = tuple[float, Estimate | float]


@dataclass(frozen=True)
class Series:
    """One line of a chart, or one mark in each row of a dot plot."""

    name: str
    points: tuple[Point, ...]
    """x and its value, with an interval or without."""

    def estimates(self) -> list[tuple[float, Estimate]]:
        """The points whose value is finite."""
        points = ((x, y if isinstance(y, Estimate) else Estimate.exact(y)) for x, y in self.points)
        return [(x, estimate) for x, estimate in points if math.isfinite(estimate.mean)]


@dataclass(frozen=True)
class Chart:
    """Lines over a numeric axis or, with categories, a dot plot with a row for each category."""

    name: str
    """Base name of its files: letters, digits and hyphens."""
    title: str
    """States the finding."""
    x_label: str
    """Label with its unit; for a dot plot, the meaning of the categories."""
    y_label: str
    """Label with its unit."""
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    categories: tuple[str, ...] = ()
    """Categories of a dot plot, whose x is the index of a category."""
    references: tuple[tuple[str, float], ...] = ()
    """Lines at a value, with their labels."""
    varies: bool = False
    """Whether the same seeds give other values, such as seconds; it is then left out of JSON."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.series) <= MAX_SERIES:
            raise ValueError(f"{self.name}: {len(self.series)} series; a chart has 1 to {MAX_SERIES}")
        if not any(series.estimates() for series in self.series):
            raise ValueError(f"{self.name}: no value of this chart is finite")
        rows = range(len(self.categories))
        if self.categories and any(x not in rows for series in self.series for x, _ in series.points):
            raise ValueError(f"{self.name}: an x of a dot plot is the index of a category")

    @property
    def has_intervals(self) -> bool:
        return any(not estimate.is_exact and math.isfinite(estimate.low) for estimate in self.estimates())

    def estimates(self) -> Iterator[Estimate]:
        return (estimate for series in self.series for _, estimate in series.estimates())

    def texts(self) -> list[str]:
        """Every text in it."""
        names = [*(series.name for series in self.series), *(name for name, _ in self.references)]
        return [self.title, self.x_label, self.y_label, *names, *self.categories]

    def save(self, path: Path | str) -> Path:
        """Draw it in the format of the path's suffix: .svg, .png or .pdf."""
        from weft.pictures.charts.picture import draw_chart

        return draw_chart(self, path)


COLORS = ("#08519c", "#d55e00", "#117733", "#aa4499", "#3d4852", "#8a7a00")
"""Colors in print and in pictures; pictures/html/style.css repeats them, and has others for a dark page."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""Markers of matplotlib."""
SYMBOLS = "●■▲◆▼✚"
ASCII_SYMBOLS = "o#^*v+"
TERMINAL_COLORS = ("blue", "yellow", "green", "magenta", "default", "cyan")
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2), (3, 1), (9, 3))
"""Lengths of dashes and gaps; empty: a solid line."""
INTERVAL_NOTE = "whiskers: 95 % intervals"
