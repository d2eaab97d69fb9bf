"""What tests of labs share: trials in this process, and a result that no lab had to measure."""

from __future__ import annotations

import math

import pytest

from fixtures.charts import make_dots_chart, make_lines_chart
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.verdicts import above, below, judge
from weft.evaluation.statistics import Estimate
from weft.pictures.charts.chart import Chart
from weft.pictures.charts.table import Table


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run trials in this process: starting a worker takes seconds."""
    monkeypatch.setattr("weft.apps.labs.trials.worker_count", lambda: 0)


@pytest.fixture
def lines_chart() -> Chart:
    return make_lines_chart()


@pytest.fixture
def dots_chart() -> Chart:
    return make_dots_chart()


@pytest.fixture
def result(lines_chart: Chart, dots_chart: Chart) -> LabResult:
    lab = Lab("example", "Attention helps at 100 words", "A et al. 2015: 9 points.", "Two LSTMs.", 30, ("weft lab",))
    unknown = Estimate(1.0, -math.inf, math.inf)
    checks = [above("gain at 100 words, in points", Estimate(35.0, 20.0, 50.0), 5), below("loss", unknown, 3)]
    verdict = judge(checks, "Attention adds 35 points.")
    table = Table(("", "words", "exact (%)"), (("with", 10, Estimate(80.0, 78.0, 82.0)), ("without", None, 0.5)), "All")
    charts = (lines_chart, dots_chart)
    return LabResult(lab, verdict, (table,), charts, ("A <note>.",), (1, 2), [{"seed": 1, "exact": math.nan}])
