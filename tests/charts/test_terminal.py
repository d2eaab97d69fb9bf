"""Charts in a terminal."""

from __future__ import annotations

from weft.charts.chart import Chart
from weft.charts.terminal import chart_lines


def test_lines(lines_chart: Chart) -> None:
    lines = [line.plain for line in chart_lines(lines_chart, 60)]
    assert lines[0] == "A gap of 35 points" and lines[1] == "  ● with <attention>   ■ without  "
    assert lines[2] == "exact match (%)" and lines[-1].endswith("length (words)")
    assert max(map(len, lines)) <= 60
    assert sum(line.count("●") for line in lines[2:]) == 2 and sum(line.count("■") for line in lines[2:]) == 3
    assert lines[-2].split() == ["1", "10", "100"]


def test_a_dot_plot(dots_chart: Chart) -> None:
    lines = [line.plain for line in chart_lines(dots_chart, 70)]
    assert lines[2].startswith("dot     │") and lines[2].endswith("│ 12 [10, 14]")
    assert "├" in lines[2] and "●" in lines[2] and "┤" in lines[2]
    assert lines[3].startswith("        │") and "■" in lines[3]
    assert lines[-1].strip() == ": IBM 1: 23"


def test_narrow(lines_chart: Chart, dots_chart: Chart) -> None:
    for chart in (lines_chart, dots_chart):
        assert list(chart_lines(chart, 10, ascii_only=True))
