"""Charts in a terminal."""

from __future__ import annotations

from dataclasses import replace

from weft.pictures.charts.chart import Chart
from weft.pictures.charts.terminal import chart_lines


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


def test_a_long_title_takes_several_lines(lines_chart: Chart) -> None:
    title = "A gap of 35 points between " + "models with attention and " * 3 + "those without"
    lines = [line.plain for line in chart_lines(replace(lines_chart, title=title), 60)]
    assert " ".join(lines[:2]) == title and max(map(len, lines[:2])) <= 60
