"""The scaling lab: its world, a world in which its claim is false, and its verdict on made-up numbers."""

from __future__ import annotations

import pytest

from weft.apps.labs import scaling
from weft.apps.labs.scaling import Condition, judge_slopes, trial
from weft.evaluation.statistics import Estimate

NARROW = {"widths": (4, 16, 64, 256), "queries": 64}


@pytest.mark.usefixtures("in_process")
def test_the_claim_holds() -> None:
    result = scaling(4, **NARROW)
    assert result.verdict.checks[0].effect.mean == pytest.approx(1, abs=0.05)
    assert result.verdict.checks[1].effect.mean == pytest.approx(0, abs=0.05)
    assert [chart.name for chart in result.charts] == ["variance", "entropy", "gradient"]


@pytest.mark.usefixtures("in_process")
def test_vectors_of_length_one_are_another_world() -> None:
    result = scaling(3, **NARROW, unit_length=True)
    assert result.verdict.outcome == "did not hold"
    assert result.verdict.effect.mean == pytest.approx(-1, abs=0.05)


def test_the_measures() -> None:
    """q·k of width 1,024 has a standard deviation of 32: one key gets nearly all the weight."""
    measured = trial(Condition(1024, 64, False), 1)
    assert measured["dot variance"] == pytest.approx(1024, rel=0.1)
    assert measured["scaled_dot variance"] == pytest.approx(measured["dot variance"] / 1024)
    assert measured["dot entropy"] < 0.3 < 3.5 < measured["scaled_dot entropy"]


@pytest.mark.parametrize(
    ("dot", "scaled", "ratio", "outcome"),
    [
        (Estimate(1.0, 0.98, 1.02), Estimate(0.0, -0.02, 0.02), Estimate(0.2, 0.1, 0.3), "held"),
        (Estimate(1.0, 0.8, 1.2), Estimate(0.0, -0.02, 0.02), Estimate(0.2, 0.1, 0.3), "inconclusive"),
        (Estimate(1.0, 0.98, 1.02), Estimate(0.0, -0.02, 0.02), Estimate(0.9, 0.8, 1.0), "did not hold"),
        (Estimate(0.5, 0.4, 0.6), Estimate(0.0, -0.02, 0.02), Estimate(0.2, 0.1, 0.3), "did not hold"),
    ],
)
def test_the_verdict(dot: Estimate, scaled: Estimate, ratio: Estimate, outcome: str) -> None:
    assert judge_slopes({"dot": dot, "scaled_dot": scaled}, ratio).outcome == outcome
