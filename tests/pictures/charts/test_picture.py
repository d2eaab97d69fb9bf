"""Charts as pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import DataError
from weft.pictures.charts.chart import Chart
from weft.pictures.charts.picture import draw_chart


def test_an_svg_has_every_text(lines_chart: Chart, dots_chart: Chart, tmp_path: Path) -> None:
    for chart in (lines_chart, dots_chart):
        text = draw_chart(chart, tmp_path / f"{chart.name}.svg").read_text("utf-8")
        for part in (chart.title, chart.y_label, *chart.categories, "without" if chart is lines_chart else "other"):
            assert part in text, part
        assert "whiskers: 95 % intervals" in text
    assert "IBM 1" in text


def test_the_same_bytes(lines_chart: Chart, tmp_path: Path) -> None:
    first, second = (draw_chart(lines_chart, tmp_path / name).read_bytes() for name in ("a.png", "b.png"))
    assert first == second and first.startswith(b"\x89PNG")


def test_another_format(lines_chart: Chart, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot draw a picture of type 'gif'"):
        lines_chart.save(tmp_path / "a.gif")
