"""What tests of labs share: trials in this process, and a result that no lab had to measure."""

from __future__ import annotations

import math

import pytest

from weft.labs.charts.chart import Chart, Series
from weft.labs.lab import Lab, LabResult, Table
from weft.labs.statistics import Estimate
from weft.labs.verdicts import above, below, judge


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run trials in this process: starting a worker takes seconds."""
    monkeypatch.setattr("weft.labs.trials.worker_count", lambda: 0)


@pytest.fixture
def lines_chart() -> Chart:
    wide = Estimate(40.0, 30.0, 55.0)
    series = (
        Series("with <attention>", ((1, 90.0), (10, Estimate(80.0, 78.0, 82.0)), (100, wide))),
        Series("without", ((1, 91.0), (10, 50.0), (100, Estimate(5.0, -math.inf, math.inf)))),
    )
    return Chart("length", "A gap of 35 points", "length (words)", "exact match (%)", series, log_x=True)


@pytest.fixture
def dots_chart() -> Chart:
    series = (
        Series("AER", ((0, Estimate(12.0, 10.0, 14.0)), (1, Estimate(30.0, 20.0, 40.0)))),
        Series("other", ((0, 22.0), (1, 25.0))),
    )
    return Chart(
        "scores",
        "dot is best",
        "score",
        "AER (%)",
        series,
        categories=("dot", "général"),
        references=(("IBM 1", 23.0),),
    )


@pytest.fixture
def result(lines_chart: Chart, dots_chart: Chart) -> LabResult:
    lab = Lab("example", "Attention helps at 100 words", "A et al. 2015: 9 points.", "Two LSTMs.", 30, ("weft lab",))
    unknown = Estimate(1.0, -math.inf, math.inf)
    checks = [above("gain at 100 words, in points", Estimate(35.0, 20.0, 50.0), 5), below("loss", unknown, 3)]
    verdict = judge(checks, "Attention adds 35 points.")
    table = Table(("", "words", "exact (%)"), (("with", 10, Estimate(80.0, 78.0, 82.0)), ("without", None, 0.5)), "All")
    charts = (lines_chart, dots_chart)
    return LabResult(lab, verdict, (table,), charts, ("A <note>.",), (1, 2), [{"seed": 1, "exact": math.nan}])
