"""Charts as data."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from weft.evaluation.statistics import Estimate
from weft.pictures.charts.chart import Chart, Series


def test_values_with_and_without_intervals(lines_chart: Chart) -> None:
    assert lines_chart.has_intervals and len(list(lines_chart.estimates())) == 6
    assert Series("a", ((1, 2.0), (2, math.nan))).estimates() == [(1, Estimate.exact(2.0))]
    exact = replace(lines_chart, series=(Series("a", ((1, 2.0),)),))
    assert not exact.has_intervals


def test_what_cannot_be_drawn(lines_chart: Chart, dots_chart: Chart) -> None:
    with pytest.raises(ValueError, match="7 series; a chart has 1 to 6"):
        replace(lines_chart, series=7 * lines_chart.series[:1])
    with pytest.raises(ValueError, match="no value of this chart is finite"):
        replace(lines_chart, series=(Series("a", ((1, math.nan),)),))
    with pytest.raises(ValueError, match="an x of a dot plot is the index of a category"):
        replace(dots_chart, categories=("dot",))
