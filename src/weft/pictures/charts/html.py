"""Charts as SVG in an HTML page: with the colors of the page, also on a dark one."""

from __future__ import annotations

import math

from weft.evaluation.statistics import Estimate
from weft.pictures.charts.axis import Axis, value_axis, x_axis
from weft.pictures.charts.chart import DASHES, INTERVAL_NOTE, Chart
from weft.pictures.html.charts import LinearScale
from weft.pictures.html.elements import Content, Html, element, rounded, svg_line, svg_text

WIDTH, HEIGHT = 460.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 12.0, 38.0
ROW, LEGEND_ROW = 24.0, 16.0
CHARACTER = 6.2
"""The width of a letter, about."""
MARKER = 3.4


def chart_html(chart: Chart) -> Html:
    """A figure with its title, chart and legend."""
    parts, height = _dot_plot(chart) if chart.categories else _lines(chart)
    if len(chart.series) > 1:
        legend, rows = _legend(chart, height)
        parts, height = [*parts, *legend], height + LEGEND_ROW * rows + 6
    size = f"0 0 {WIDTH:g} {height:g}"
    drawing = element("svg", *parts, viewBox=size, class_="chart", role="img", aria_label=chart.title)
    note = [element("p", INTERVAL_NOTE, class_="faint small")] if chart.has_intervals else []
    return element("figure", element("figcaption", chart.title), drawing, *note)


def _lines(chart: Chart) -> tuple[list[Content], float]:
    horizontal, vertical = x_axis(chart), value_axis(chart)
    x_scale, y_scale = LinearScale(0, 1, LEFT, WIDTH - RIGHT), LinearScale(0, 1, HEIGHT - BOTTOM, TOP + 14)
    bottom = HEIGHT - BOTTOM
    parts: list[Content] = [svg_text(0, TOP, chart.y_label, "start", "tick")]
    for tick, label in zip(vertical.ticks, vertical.labels, strict=True):
        y = y_scale(vertical.share(tick))
        parts += [svg_line(LEFT, y, WIDTH - RIGHT, y, "grid"), svg_text(LEFT - 6, y + 4, label, "end", "tick")]
    for tick, label in zip(horizontal.ticks, horizontal.labels, strict=True):
        parts.append(svg_text(x_scale(horizontal.share(tick)), bottom + 14, label, "middle", "tick"))
    parts += [
        svg_line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis"),
        svg_text(WIDTH - RIGHT, HEIGHT - 6, chart.x_label, "end", "tick"),
    ]
    for name, value in chart.references:
        y = y_scale(vertical.share(value))
        parts += [
            svg_line(LEFT, y, WIDTH - RIGHT, y, "axis dashed"),
            svg_text(WIDTH - RIGHT, y - 4, name, "end", "tick"),
        ]
    for number, series in enumerate(chart.series):
        points = [(x_scale(horizontal.share(x)), estimate) for x, estimate in series.estimates()]
        path = "M" + "L".join(f"{rounded(x)} {rounded(y_scale(vertical.share(e.mean)))}" for x, e in points)
        parts.append(element("path", d=path, class_=f"line s{number + 1}", stroke_dasharray=_dashes(number)))
        for x, estimate in points:
            low, high = (y_scale(share) for share in _interval(estimate, vertical))
            if low - high > 1:
                parts += [svg_line(x, low, x, high, f"whisker s{number + 1}")]
                parts += [svg_line(x - 3, y, x + 3, y, f"whisker s{number + 1}") for y in (low, high)]
            parts.append(_marker(x, y_scale(vertical.share(estimate.mean)), number, estimate.text()))
    return parts, HEIGHT


def _dot_plot(chart: Chart) -> tuple[list[Content], float]:
    axis, several = value_axis(chart), len(chart.series)
    left = min(max(map(len, chart.categories)) * CHARACTER + 12, WIDTH / 2)
    row = ROW * (1 + 0.4 * (several - 1))
    bottom = TOP + 12 + row * len(chart.categories)
    scale = LinearScale(0, 1, left, WIDTH - RIGHT)
    parts: list[Content] = []
    for tick, label in zip(axis.ticks, axis.labels, strict=True):
        x = scale(axis.share(tick))
        parts += [svg_line(x, TOP + 8, x, bottom, "grid"), svg_text(x, bottom + 14, label, "middle", "tick")]
    for category, name in enumerate(chart.categories):
        parts.append(svg_text(left - 8, TOP + 12 + row * (category + 0.5) + 4, name, "end", ""))
    for name, value in chart.references:
        x = scale(axis.share(value))
        parts += [svg_line(x, TOP + 4, x, bottom, "axis dashed"), svg_text(x, TOP, name, "middle", "tick")]
    for number, series in enumerate(chart.series):
        offset = (number - (several - 1) / 2) * 0.6 / several
        for index, estimate in series.estimates():
            y = TOP + 12 + row * (index + 0.5 + offset)
            low, high = (scale(share) for share in _interval(estimate, axis))
            parts.append(svg_line(low, y, high, y, f"whisker s{number + 1}"))
            parts += [svg_line(x, y - 3, x, y + 3, f"whisker s{number + 1}") for x in (low, high) if high - low > 1]
            parts.append(_marker(scale(axis.share(estimate.mean)), y, number, estimate.text()))
    parts.append(svg_text(WIDTH - RIGHT, bottom + 30, chart.y_label, "end", "tick"))
    return parts, bottom + 36


def _legend(chart: Chart, top: float) -> tuple[list[Content], int]:
    """The legend below the chart, in as many rows as the names need."""
    parts: list[Content] = []
    x, row = 8.0, 0
    for number, series in enumerate(chart.series):
        width = 40 + CHARACTER * len(series.name)
        if x > 8 and x + width > WIDTH:
            x, row = 8.0, row + 1
        y = top + LEGEND_ROW * row + 6
        sample = element("path", d=f"M{rounded(x)} {rounded(y)}h24", class_=f"line s{number + 1}")
        if dashes := _dashes(number):
            sample = element(
                "path", d=f"M{rounded(x)} {rounded(y)}h24", class_=f"line s{number + 1}", stroke_dasharray=dashes
            )
        parts += [sample, _marker(x + 12, y, number, series.name), svg_text(x + 30, y + 4, series.name, "start", "")]
        x += width
    return parts, row + 1


def _interval(estimate: Estimate, axis: Axis) -> tuple[float, float]:
    if not math.isfinite(estimate.low) or not math.isfinite(estimate.high):
        return axis.share(estimate.mean), axis.share(estimate.mean)
    return axis.share(estimate.low), axis.share(estimate.high)


def _dashes(number: int) -> str | None:
    return " ".join(f"{length:g}" for length in DASHES[number]) or None


def _marker(x: float, y: float, number: int, note: str) -> Html:
    """A circle, square, triangle, diamond, inverted triangle or cross, with a tooltip."""
    title, style, r = element("title", note), f"mark s{number + 1}", MARKER
    if number == 0:
        return element("circle", title, cx=x, cy=y, r=r, class_=style)
    shapes = {
        1: ((-r, -r), (r, -r), (r, r), (-r, r)),
        2: ((0.0, -1.3 * r), (1.2 * r, r), (-1.2 * r, r)),
        3: ((0.0, -1.4 * r), (1.4 * r, 0.0), (0.0, 1.4 * r), (-1.4 * r, 0.0)),
        4: ((0.0, 1.3 * r), (1.2 * r, -r), (-1.2 * r, -r)),
        5: (
            *((-r / 2, -1.3 * r), (r / 2, -1.3 * r), (r / 2, -r / 2), (1.3 * r, -r / 2), (1.3 * r, r / 2)),
            *((r / 2, r / 2), (r / 2, 1.3 * r), (-r / 2, 1.3 * r), (-r / 2, r / 2), (-1.3 * r, r / 2)),
            *((-1.3 * r, -r / 2), (-r / 2, -r / 2)),
        ),
    }
    points = " ".join(f"{rounded(x + dx)},{rounded(y + dy)}" for dx, dy in shapes[number])
    return element("polygon", title, points=points, class_=style)
