"""Charts: axes with round values, and lines that stay inside."""

from __future__ import annotations

import re

import pytest

from weft.pictures.html.charts import (
    HEIGHT,
    WIDTH,
    Bar,
    Line,
    bar_chart,
    interval_bar,
    line_chart,
    reliability_diagram,
    thinned,
    tick_text,
    ticks,
)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0.2, 5.1, [0, 1, 2, 3, 4, 5, 6]),
        (0, 0.008, [0, 0.002, 0.004, 0.006, 0.008]),
        (3, 3, [2.4, 2.6, 2.8, 3, 3.2, 3.4, 3.6]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round_and_cover_the_range(low: float, high: float, expected: list[float]) -> None:
    found = ticks(low, high)
    assert found == pytest.approx(expected) and found[0] <= low and found[-1] >= high


def test_labels_of_ticks() -> None:
    assert [tick_text(value) for value in (0, 0.25, -3, 15_000, 0.0002, 2.5e6)] == [
        *("0", "0.25", "−3", "15k", "2e−4", "2.5e6"),
    ]


def test_long_lines_are_thinned() -> None:
    points = [(float(x), float(x % 2)) for x in range(1000)] + [(1.0, float("inf")), (float("nan"), 0.0)]
    short = thinned(points, 100)
    assert len(short) == 100 and short[0] == (4.5, 0.5)
    assert thinned([(1.0, 2.0)]) == [(1.0, 2.0)] and thinned([]) == []


def coordinates(chart: str) -> list[tuple[float, float]]:
    (path,) = re.findall(r'<path d="M([^"]*)"', chart)
    return [tuple(map(float, point.split())) for point in path.split("L")]  # type: ignore[misc]


def test_a_line_is_inside_and_in_order() -> None:
    chart = line_chart("Loss", [Line("a", [(0, 4.0), (50, 1.0), (100, 0.5)])], x_name="step", mark=50)
    points = coordinates(chart)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted(y for _, y in points)  # downwards: a falling loss
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert "dashed" in chart and chart.count("<circle") == 3
    assert line_chart("x", [Line("a", [(5, 1.0)])], x_name="step")  # one point


def test_bars_and_their_labels() -> None:
    bars = [Bar(f"{index * 10}–{index * 10 + 9}", index, f"{index} texts") for index in range(20)]
    chart = bar_chart("Length", bars, x_name="words")
    assert chart.count("<rect") == 20 and chart.count("–") < 12  # only every n-th label
    assert bar_chart("Length", [], x_name="words")


def test_a_reliability_diagram() -> None:
    chart = reliability_diagram("Tokens", [(0.5, 0.25, 0.5), (0.9, 1.0, 0.5)], names=("confidence", "right"))
    (x, y), (x2, y2) = coordinates(chart)
    assert x < x2 and y > y2 and chart.count("<circle") == 2


def test_intervals_in_a_table() -> None:
    assert interval_bar(50, (40, 60), (0, 100)).count("<line") == 3
    assert interval_bar(50, None, (0, 100)).count("<line") == 0
