"""Charts as SVG: lines over steps, bars, a reliability diagram, and a value with its interval.

Their width is that of a telephone, so that the labels are legible there; on a wide page several stand side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from weft.pictures.html.elements import Content, Html, element, svg_line, svg_text

WIDTH, HEIGHT = 340.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 10.0, 34.0
MAX_POINTS = 400
"""Points per line; longer lines are shown as means of neighboring points."""
STYLES = ("first", "second", "third")
Point = tuple[float, float]


class Line(NamedTuple):
    """One line of a chart."""

    name: str
    points: Sequence[Point]


class Bar(NamedTuple):
    """One bar of a bar chart."""

    label: str
    value: float
    text: str
    """Its tooltip."""


class LinearScale(NamedTuple):
    """A linear map from values to coordinates: low ↦ start, high ↦ end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, number: int = 5) -> list[float]:
    """About ``number`` round values that cover the range from low to high, both included."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        low, span = low - 0.5, 1.0
        high = low + span
    raw = span / number
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def tick_text(value: float) -> str:
    """A short label: 0.25, 1.5k, 2e−4."""
    if value and (abs(value) < 1e-3 or abs(value) >= 1e6):
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return f"{float(mantissa):g}e{int(exponent)}".replace("-", "−")
    text = f"{value / 1000:g}k" if abs(value) >= 10_000 else f"{value:g}"
    return text.replace("-", "−")


def thinned(points: Sequence[Point], limit: int = MAX_POINTS) -> list[Point]:
    """At most ``limit`` points: neighbors are averaged as needed, and values that are not finite are left out."""
    finite = [point for point in points if all(map(math.isfinite, point))]
    size = -(-len(finite) // limit) or 1
    groups = (finite[start : start + size] for start in range(0, len(finite), size))
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


def line_chart(title: str, lines: Sequence[Line], *, x_name: str, mark: float | None = None) -> Html:
    """Lines over a common axis, the first of them blue; ``mark``: a vertical line at this value."""
    drawn = [Line(line.name, thinned(line.points)) for line in lines]
    drawn = [line for line in drawn if line.points]
    xs = [x for line in drawn for x, _ in line.points]
    ys = [y for line in drawn for _, y in line.points]
    x_ticks, y_ticks = ticks(min(0.0, *xs), max(xs), 4), ticks(min(ys), max(ys))
    x_scale, y_scale = _scales((min(0.0, *xs), max(*xs, 1.0)), (y_ticks[0], y_ticks[-1]))
    parts = _axes([tick for tick in x_ticks if tick <= x_scale.high], y_ticks, (x_scale, y_scale), x_name)
    if mark is not None:
        x = x_scale(mark)
        parts.append(svg_line(x, TOP, x, HEIGHT - BOTTOM, "axis dashed"))
    for style, line in zip(STYLES, drawn, strict=False):
        coordinates = [(x_scale(x), y_scale(y)) for x, y in line.points]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in coordinates)
        parts.append(element("path", d=path, class_=f"line {style}"))
        if len(coordinates) <= 30:
            parts += [element("circle", cx=x, cy=y, r=2.4, class_=f"fill-{style}") for x, y in coordinates]
    if len(drawn) > 1:
        parts += _legend([line.name for line in drawn])
    return figure(title, *parts)


def bar_chart(title: str, bars: Sequence[Bar], *, x_name: str) -> Html:
    """Vertical bars with their labels; every n-th label if they are many."""
    y_ticks = ticks(0.0, max((bar.value for bar in bars), default=1.0) or 1.0, 4)
    x_scale, y_scale = _scales((0.0, float(max(len(bars), 1))), (0.0, y_ticks[-1]))
    parts = _axes([], y_ticks, (x_scale, y_scale), x_name)
    width = x_scale(1.0) - x_scale(0.0)
    longest = max((len(bar.label) for bar in bars), default=1)
    every = max(math.ceil((longest + 1) * 6.2 / width), 1)
    for index, bar in enumerate(bars):
        top = y_scale(bar.value)
        x = x_scale(index)
        shape = element("title", bar.text)
        parts.append(
            element("rect", shape, x=x + 1, y=top, width=width - 2, height=HEIGHT - BOTTOM - top, class_="fill-first")
        )
        if index % every == 0:
            parts.append(svg_text(x + width / 2, HEIGHT - BOTTOM + 13, bar.label, "middle", "tick"))
    return figure(title, *parts)


def reliability_diagram(title: str, points: Sequence[tuple[float, float, float]], *, names: tuple[str, str]) -> Html:
    """Accuracy over confidence, both from 0 to 1: (confidence, accuracy, share of the outputs) of each bin.

    The area of a point is the share; on the diagonal, confidence is accuracy.
    """
    x_scale, y_scale = _scales((0.0, 1.0), (0.0, 1.0))
    fifths = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    parts = _axes(fifths, fifths, (x_scale, y_scale), names[0])
    parts.append(svg_line(x_scale(0), y_scale(0), x_scale(1), y_scale(1), "axis dashed"))
    parts.append(svg_text(LEFT + 5, TOP + 10, names[1], "start", "tick"))
    path = "M" + "L".join(f"{x_scale(x):.1f} {y_scale(y):.1f}" for x, y, _ in points)
    parts.append(element("path", d=path, class_="line first"))
    for x, y, share in points:
        note = element("title", f"confidence {x:.3f}, accuracy {y:.3f}, {100 * share:.1f} %")
        radius = 2.5 + 9.0 * math.sqrt(share)
        parts.append(
            element("circle", note, cx=x_scale(x), cy=y_scale(y), r=radius, class_="fill-first", fill_opacity=0.75)
        )
    return figure(title, *parts)


def interval_bar(value: float, interval: tuple[float, float] | None, limits: tuple[float, float]) -> Html:
    """A value as a short bar, with its interval as a band; for a cell of a table."""
    width, height = 120.0, 14.0
    scale = LinearScale(*limits, 0.0, width)
    parts: list[Content] = [element("rect", x=0, y=5, width=width, height=4, class_="band")]
    if interval is not None:
        low, high = scale(interval[0]), scale(interval[1])
        parts.append(svg_line(low, height / 2, high, height / 2, "line first"))
        parts += [svg_line(x, 4, x, height - 4, "line first") for x in (low, high)]
    parts.append(element("circle", cx=scale(value), cy=height / 2, r=3.4, class_="fill-first"))
    return element("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", width=width, height=height, aria_hidden="true")


def figure(title: str, *parts: Content) -> Html:
    """A chart with its title."""
    size = f"0 0 {WIDTH:g} {HEIGHT:g}"
    drawing = element("svg", *parts, viewBox=size, class_="chart", role="img", aria_label=title)
    return element("figure", element("figcaption", title), drawing)


def _scales(x: tuple[float, float], y: tuple[float, float]) -> tuple[LinearScale, LinearScale]:
    return LinearScale(*x, LEFT, WIDTH - RIGHT), LinearScale(*y, HEIGHT - BOTTOM, TOP)


def _axes(
    x_ticks: Sequence[float], y_ticks: Sequence[float], scales: tuple[LinearScale, LinearScale], x_name: str
) -> list[Content]:
    x_scale, y_scale = scales
    parts: list[Content] = []
    for tick in y_ticks:
        y = y_scale(tick)
        parts.append(svg_line(LEFT, y, WIDTH - RIGHT, y, "grid"))
        parts.append(svg_text(LEFT - 6, y + 4, tick_text(tick), "end", "tick"))
    for tick in x_ticks:
        parts.append(svg_text(x_scale(tick), HEIGHT - BOTTOM + 13, tick_text(tick), "middle", "tick"))
    parts.append(svg_line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"))
    parts.append(svg_text(WIDTH - RIGHT, HEIGHT - 4, x_name, "end", "tick"))
    return parts


def _legend(names: Sequence[str]) -> list[Content]:
    """The legend at the top right, one line for each name."""
    parts: list[Content] = []
    for row, (style, name) in enumerate(zip(STYLES, names, strict=False)):
        y = TOP + 8 + 14 * row
        parts.append(svg_line(WIDTH - RIGHT - 20, y, WIDTH - RIGHT - 4, y, f"line {style}"))
        parts.append(svg_text(WIDTH - RIGHT - 26, y + 4, name, "end", ""))
    return parts
