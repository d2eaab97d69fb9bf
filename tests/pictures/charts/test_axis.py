"""Axes: the range that is shown, and where a value is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.evaluation.statistics import Estimate
from weft.pictures.charts.axis import Axis, value_axis, x_axis
from weft.pictures.charts.chart import Chart, Series


def chart(*values: Estimate | float, log: bool = False, label: str = "y") -> Chart:
    series = Series("a", tuple(enumerate(values, 1)))
    return Chart("a", "title", "x", label, (series,), log_y=log)


def test_positions() -> None:
    assert Axis(0, 10, ()).share(2.5) == 0.25 and Axis(0, 10, ()).share(-3) == 0 and Axis(0, 10, ()).share(30) == 1
    log = Axis(1, 100, (), log=True)
    assert log.share(10) == pytest.approx(0.5) and log.share(0) == 0 and log.share(-1) == 0


def test_few_values_are_the_ticks(lines_chart: Chart) -> None:
    axis = x_axis(lines_chart)
    assert axis.ticks == (1, 10, 100) and axis.log and axis.low < 1 and axis.high > 100
    assert x_axis(replace(lines_chart, log_x=False)).ticks == (1, 10, 100)
    close = Chart("a", "t", "x", "y", (Series("a", ((1, 1.0), (2, 1.0), (100, 1.0))),))
    assert x_axis(close).ticks == (20, 40, 60, 80, 100)
    many = Chart("a", "t", "x", "y", (Series("a", tuple((2**power, 1.0) for power in range(12))),), log_x=True)
    assert x_axis(many).ticks == (1, 4, 16, 64, 256, 1024)


def test_percentages_stay_between_0_and_100(lines_chart: Chart) -> None:
    axis = value_axis(lines_chart)
    assert (axis.low, axis.high) == (0, 100)
    assert value_axis(chart(Estimate(95.0, 70.0, 120.0), 60.0)).high > 100


def test_a_very_wide_interval_does_not_hide_the_means() -> None:
    axis = value_axis(chart(1.0, Estimate(2.0, -1000.0, 1000.0)))
    assert axis.low >= -1 and axis.high <= 4
    axis = value_axis(chart(1.0, Estimate(100.0, 0.001, 1e9), log=True))
    assert axis.low > 0.01 and axis.high < 1e5


def test_equal_values_have_an_axis_too() -> None:
    for log in (False, True):
        axis = value_axis(chart(3.0, 3.0, log=log))
        assert axis.low < 3 < axis.high and len(axis.ticks) >= 2
    assert value_axis(chart(0.0, 0.0)).low <= 0


def test_ticks_of_a_log_axis() -> None:
    assert value_axis(chart(1.0, 10_000.0, log=True)).ticks == (1, 10, 100, 1000, 10_000)
    assert value_axis(chart(1.0, 20.0, log=True)).ticks == (1, 2, 5, 10, 20)
