"""Charts in HTML."""

from __future__ import annotations

from xml.etree import ElementTree

from weft.pictures.charts.chart import Chart
from weft.pictures.charts.html import chart_html


def test_they_are_well_formed(lines_chart: Chart, dots_chart: Chart) -> None:
    for chart in (lines_chart, dots_chart):
        text = chart_html(chart)
        tree = ElementTree.fromstring(text)
        texts = "".join(tree.itertext())
        assert chart.title in texts and chart.y_label in texts and "whiskers: 95 % intervals" in texts
        assert all(series.name in texts for series in chart.series) and all(name in texts for name in chart.categories)
        marks = [element for element in tree.iter() if "mark" in (element.get("class") or "").split()]
        assert len(marks) == len(list(chart.estimates())) + len(chart.series)
    assert "IBM 1" in texts


def test_every_series_has_its_dash_and_marker(lines_chart: Chart) -> None:
    text = str(chart_html(lines_chart))
    assert 'class="line s1"' in text and 'class="line s2" stroke-dasharray="5 2"' in text
    assert "<circle" in text and "<polygon" in text
