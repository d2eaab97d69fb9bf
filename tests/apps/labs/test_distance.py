"""The distance lab: what is counted, a world in which its claim is false, and its verdict on made-up numbers."""

from __future__ import annotations

from itertools import product

import pytest

from weft.apps.labs import distance
from weft.apps.labs.distance import COUNTS, LAYERS, Condition, judge_slopes, trial
from weft.evaluation.statistics import Estimate

SHORT = {"lengths": (8, 16, 32, 64)}


@pytest.mark.usefixtures("in_process")
def test_the_claim_holds() -> None:
    result = distance(2, **SHORT)
    assert result.verdict.outcome == "held"
    assert [chart.name for chart in result.charts] == ["path", "flops", "seconds"]
    assert "seconds" not in result.to_json().replace('"seconds": 15', "") and len(result.record()["charts"]) == 2


@pytest.mark.usefixtures("in_process")
def test_two_recurrences_are_another_world() -> None:
    result = distance(2, **SHORT, layers=("recurrent", "recurrent"))
    assert result.verdict.outcome == "did not hold"
    assert [check.outcome for check in result.verdict.checks[:2]] == ["held", "did not hold"]


def test_what_is_counted() -> None:
    """A recurrent layer multiplies two width × width matrices at each of n steps; attention compares n² pairs twice."""
    recurrent, attention = (trial(Condition(layer, 20, 7), 1) for layer in LAYERS)
    assert recurrent["flops"] == 20 * 2 * 7 * 7 and attention["flops"] == 2 * 20 * 20 * 7
    assert recurrent["path"] > 2 * 20 and attention["path"] < 10
    longer = trial(Condition("recurrent", 21, 7), 1)
    assert longer["path"] - recurrent["path"] == longer["depth"] - recurrent["depth"] == 3  # product, sum, tanh
    assert trial(Condition("attention", 40, 7), 1)["path"] == attention["path"]


@pytest.mark.parametrize(
    ("attention_path", "outcome"),
    [
        (Estimate(0.0, -0.05, 0.05), "held"),
        (Estimate(0.0, -0.2, 0.2), "inconclusive"),
        (Estimate(1.0, 0.9, 1.1), "did not hold"),
    ],
)
def test_the_verdict(attention_path: Estimate, outcome: str) -> None:
    slopes = {key: Estimate.exact(float(key[0] == "recurrent")) for key in product(LAYERS, COUNTS)}
    slopes |= {("attention", "flops"): Estimate.exact(2.0), ("attention", "path"): attention_path}
    assert judge_slopes(slopes).outcome == outcome
