"""Charts in a terminal.

exact match (%)
100 ┤●──────●·
    │         ··
 50 ┤           ■
    └────────────────
     4     16     64
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from weft.evaluation.statistics import Estimate, number
from weft.pictures.charts.axis import Axis, value_axis, x_axis
from weft.pictures.charts.chart import ASCII_SYMBOLS, SYMBOLS, TERMINAL_COLORS, Chart
from weft.pictures.labels import shorten

MAX_WIDTH, ROWS = 72, 14
"""Columns and rows of the plot."""


def chart_lines(chart: Chart, width: int, *, ascii_only: bool = False) -> Iterator[Text]:
    """The lines of a chart that fits the width."""
    symbols = ASCII_SYMBOLS if ascii_only else SYMBOLS
    yield from (Text(line, style="bold") for line in wrap(chart.title, width))
    if len(chart.series) > 1:
        yield from _legend(chart, width, symbols)
    if chart.categories:
        yield from _dot_plot(chart, width, symbols)
    else:
        yield from _lines(chart, width, symbols)


def _legend(chart: Chart, width: int, symbols: str) -> Iterator[Text]:
    """The names of the series, in as many lines as they need."""
    line = Text(" ")
    for index, series in enumerate(chart.series):
        if len(line) > 1 and len(line) + cell_len(series.name) + 3 > width:
            yield line
            line = Text(" ")
        line.append(f" {symbols[index]} ", TERMINAL_COLORS[index]).append(f"{series.name}  ")
    yield line


def _lines(chart: Chart, width: int, symbols: str) -> Iterator[Text]:
    horizontal, vertical = x_axis(chart), value_axis(chart)
    labels = dict(zip((_row(vertical, tick) for tick in vertical.ticks), vertical.labels, strict=True))
    margin = max(map(cell_len, vertical.labels))
    columns = max(min(width - margin - 3, MAX_WIDTH), 20)
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    for _, value in chart.references:
        cells |= {(_row(vertical, value), column): ("-", "dim") for column in range(0, columns, 2)}
    for index, series in enumerate(chart.series):
        points = [
            (_column(horizontal, x, columns), vertical.share(estimate.mean)) for x, estimate in series.estimates()
        ]
        for (start, low), (end, high) in pairwise(points):
            for column in range(start + 1, end):
                share = low + (high - low) * (column - start) / (end - start)
                cells[round((1 - share) * (ROWS - 1)), column] = ("·", TERMINAL_COLORS[index])
    for index, series in enumerate(chart.series):
        for x, estimate in series.estimates():
            position = _row(vertical, estimate.mean), _column(horizontal, x, columns)
            cells[position] = (symbols[index], TERMINAL_COLORS[index])
    yield Text(chart.y_label, style="dim")
    for row in range(ROWS):
        line = Text(f"{labels.get(row, ''):>{margin}} {'┤' if row in labels else '│'}")
        for column in range(columns):
            line.append(*cells.get((row, column), (" ", "")))
        yield line
    yield Text(f"{'':>{margin}} └{'─' * columns}")
    yield _tick_line(horizontal, margin + 2, columns)
    yield Text(f"{chart.x_label:>{margin + 2 + columns}}", style="dim")
    for name, value in chart.references:
        yield Text(f"{'':>{margin}} - - {name}: {number(value)}", style="dim")


def _tick_line(axis: Axis, margin: int, columns: int) -> Text:
    """The labels of the ticks, each below its column, without those that would collide."""
    line = [" "] * (margin + columns + 8)
    free = 0
    for tick, label in zip(axis.ticks, axis.labels, strict=True):
        start = max(margin + _column(axis, tick, columns) - len(label) // 2, 0)
        if start >= free:
            line[start : start + len(label)] = label
            free = start + len(label) + 1
    return Text("".join(line).rstrip())


def _dot_plot(chart: Chart, width: int, symbols: str) -> Iterator[Text]:
    axis = value_axis(chart)
    margin = min(max(map(cell_len, chart.categories)), width // 3)
    texts = [estimate.text() for estimate in chart.estimates()]
    columns = max(min(width - margin - max(map(cell_len, texts)) - 5, MAX_WIDTH), 12)
    marks = [_column(axis, value, columns) for _, value in chart.references]
    for row, name in enumerate(chart.categories):
        for index, series in enumerate(chart.series):
            heading = "" if index else shorten(name, margin)
            for x, estimate in series.estimates():
                if x == row:
                    line = Text(f"{heading}{' ' * (margin - cell_len(heading))} │")
                    line.append_text(_whisker(estimate, axis, columns, marks, symbols[index], TERMINAL_COLORS[index]))
                    yield line.append(f"│ {estimate.text()}")
    yield Text(f"{'':>{margin}} └{'─' * columns}")
    yield _tick_line(axis, margin + 2, columns)
    yield Text(f"{chart.y_label:>{margin + 2 + columns}}", style="dim")
    for name, value in chart.references:
        yield Text(f"{'':>{margin}} : {name}: {number(value)}", style="dim")


def _whisker(estimate: Estimate, axis: Axis, columns: int, marks: list[int], symbol: str, color: str) -> Text:
    """A value with its interval on one line: ``  ├──●──┤ ``."""
    cells = [(" ", "")] * columns
    for mark in marks:
        cells[mark] = (":", "dim")
    if math.isfinite(estimate.low) and math.isfinite(estimate.high):
        low, high = _column(axis, estimate.low, columns), _column(axis, estimate.high, columns)
        for column in range(low, high + 1):
            cells[column] = ("├" if column == low else "┤" if column == high else "─", color)
    cells[_column(axis, estimate.mean, columns)] = (symbol, color)
    return Text.assemble(*cells)


def _row(axis: Axis, value: float) -> int:
    return round((1 - axis.share(value)) * (ROWS - 1))


def _column(axis: Axis, value: float, columns: int) -> int:
    return round(axis.share(value) * (columns - 1))
