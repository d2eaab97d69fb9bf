"""Charts as SVG, PNG and PDF, drawn by matplotlib. The same chart gives the same bytes."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from weft.evaluation.statistics import Estimate
from weft.pictures.charts.axis import Axis, value_axis, x_axis
from weft.pictures.charts.chart import COLORS, DASHES, INTERVAL_NOTE, MARKERS, Chart
from weft.pictures.picture import FAINT, FRAME, INK, LINES, Page, title_height, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, ROW = 6.0, 3.6, 0.34
"""Inches of the panel; of a row of a dot plot."""
TITLE_CHARACTER = 0.1
"""Inches of a letter of the title, about."""
LEGEND_ROW = 0.24


def draw_chart(chart: Chart, to: Path | str) -> Path:
    """Write a chart in the format of the path's suffix: .svg, .png or .pdf."""
    return write_picture(to, [*chart.texts(), INTERVAL_NOTE], lambda families: _figure(chart, families))


def _figure(chart: Chart, families: list[str]) -> Figure:
    page = Page.blank(families)
    label = page.style(9, INK)
    values = value_axis(chart)
    row_labels = chart.categories or values.labels
    left = 0.45 + page.width_of(row_labels, label) + (0.0 if chart.categories else 0.25)
    names = [series.name for series in chart.series]
    legend = page.width_of(names, label) + 0.75 if len(names) > 1 else 0.2
    width = left + WIDTH + 0.2 + legend
    title = "\n".join(wrap(chart.title, int(width / TITLE_CHARACTER)))
    rows = len(chart.categories) * (1 + 0.45 * (len(names) - 1))
    height = ROW * rows + 0.2 if chart.categories else HEIGHT
    top = 0.25 + title_height(title)
    page.figure.set_size_inches(width, top + height + 0.85)
    page.write(0.2, 0.15, title, page.title_style)
    axes = page.axes(left, top, WIDTH, height)
    if chart.categories:
        _dot_plot(page, axes, chart, values)
    else:
        _lines(page, axes, chart, values)
    _references(page, axes, chart)
    axes.tick_params(length=2.5, pad=3, labelsize=9, color=FRAME, labelcolor=INK)
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.6, visible=spine.spine_type in ("left", "bottom"))
    if len(names) > 1:
        for number, name in enumerate(names):
            _legend_entry(page, (left + WIDTH + 0.2, top + 0.1 + LEGEND_ROW * number), name, number)
    if chart.has_intervals:
        page.write(0.2, top + height + 0.6, INTERVAL_NOTE, page.style(8, FAINT))
    return page.figure


def _lines(page: Page, axes: Axes, chart: Chart, values: Axis) -> None:
    horizontal = x_axis(chart)
    for axis, setter in ((horizontal, "x"), (values, "y")):
        getattr(axes, f"set_{setter}scale")("log" if axis.log else "linear")
        getattr(axes, f"set_{setter}lim")(axis.low, axis.high)
        getattr(axes, f"set_{setter}ticks")(axis.ticks, axis.labels, **page.text)
        getattr(axes, f"set_{setter}ticks")([], minor=True)
    axes.set_xlabel(chart.x_label, **page.style(9, FAINT))
    axes.set_ylabel(chart.y_label, **page.style(9, FAINT))
    axes.grid(color=LINES, linewidth=0.5, axis="y")
    axes.set_axisbelow(True)
    for number, series in enumerate(chart.series):
        points = series.estimates()
        xs = [x for x, _ in points]
        means = [estimate.mean for _, estimate in points]
        axes.plot(xs, means, **_line_style(number), zorder=4, clip_on=False)
        for x, estimate in points:
            low, high = _drawn_interval(estimate, values)
            axes.plot([x, x], [low, high], "_-", color=COLORS[number], linewidth=1.0, markersize=5, zorder=3)


def _dot_plot(page: Page, axes: Axes, chart: Chart, values: Axis) -> None:
    count, several = len(chart.categories), len(chart.series)
    axes.set_xscale("log" if values.log else "linear")
    axes.set_xlim(values.low, values.high)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_xticks(values.ticks, values.labels, **page.text)
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(count), chart.categories, **page.text)
    axes.set_xlabel(chart.y_label, **page.style(9, FAINT))
    axes.grid(color=LINES, linewidth=0.5, axis="x")
    axes.set_axisbelow(True)
    for number, series in enumerate(chart.series):
        offset = (number - (several - 1) / 2) * 0.6 / several
        for x, estimate in series.estimates():
            low, high = _drawn_interval(estimate, values)
            row = x + offset
            axes.plot([low, high], [row, row], "|-", color=COLORS[number], linewidth=1.2, markersize=6, zorder=3)
            style = _line_style(number) | {"linestyle": "none"}
            axes.plot([estimate.mean], [row], **style, zorder=4, clip_on=False)


def _references(page: Page, axes: Axes, chart: Chart) -> None:
    for name, value in chart.references:
        style: dict[str, Any] = {"color": FAINT, "linewidth": 0.9, "linestyle": (0, (2, 2)), "zorder": 2}
        text = page.style(8, FAINT)
        if chart.categories:
            axes.axvline(value, **style)
            axes.text(value, 1.0, name, ha="center", va="bottom", transform=axes.get_xaxis_transform(), **text)
        else:
            axes.axhline(value, **style)
            axes.text(0.995, value, name, ha="right", va="bottom", transform=axes.get_yaxis_transform(), **text)


def _drawn_interval(estimate: Estimate, axis: Axis) -> tuple[float, float]:
    """The part of an interval that is on the axis; none if it is infinite."""
    if not math.isfinite(estimate.low) or not math.isfinite(estimate.high):
        return estimate.mean, estimate.mean
    return max(estimate.low, axis.low), min(estimate.high, axis.high)


def _line_style(number: int) -> dict[str, Any]:
    dashes = DASHES[number]
    return {
        "color": COLORS[number],
        "linewidth": 1.7,
        "linestyle": (0, dashes) if dashes else "-",
        "marker": MARKERS[number],
        "markersize": 6.0,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
    }


def _legend_entry(page: Page, corner: tuple[float, float], name: str, number: int) -> None:
    from matplotlib.lines import Line2D

    x, top = corner
    width, height = page.figure.get_size_inches()
    y = 1 - (top + 0.07) / height
    page.figure.add_artist(Line2D([x / width, (x + 0.42) / width], [y, y], **_line_style(number) | {"marker": ""}))
    page.figure.add_artist(Line2D([(x + 0.21) / width], [y], **_line_style(number)))
    page.write(x + 0.5, top, name, page.style(9, INK))
