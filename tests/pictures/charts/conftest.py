"""Charts that the tests of this folder draw."""

from __future__ import annotations

import pytest

from fixtures.charts import make_dots_chart, make_lines_chart
from weft.pictures.charts.chart import Chart


@pytest.fixture
def lines_chart() -> Chart:
    return make_lines_chart()


@pytest.fixture
def dots_chart() -> Chart:
    return make_dots_chart()
