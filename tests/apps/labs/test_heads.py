"""The heads lab: its verdict on made-up numbers, and a real world in which every head is needed."""

from __future__ import annotations

from typing import Any

import pytest

from weft.apps.labs.heads import Condition, heads, judge_heads, removable, trial


def measured(costs: list[float], *, least: float, most: float, exact: float = 95.0) -> dict[str, Any]:
    """A model of four heads; exact match without the least and without the most important half."""
    curves = {
        "exact least": [exact, exact, exact, exact, least, 0],
        "exact most": [exact, exact, exact, exact, most, 0],
    }
    errors = {"error least": [10.0] * 6, "error most": [10.0] * 6}
    names = ["encoder layer 1, head 1", "decoder layer 1, head 1", "cross layer 1, head 1", "cross layer 1, head 2"]
    return {"exact": exact, "heads": names, "costs": costs, **curves, **errors}


def test_removable() -> None:
    assert removable([0.0, 0.9, 1.0, -3.0]) == 75.0


@pytest.mark.parametrize(
    ("results", "outcome"),
    [
        ([measured([0.0, 0.3, 0.0, 40.0], least=95.0, most=50.0)] * 3, "held"),
        ([measured([5.0, 9.0, 30.0, 40.0], least=80.0, most=50.0)] * 3, "did not hold"),
        ([measured([0.0, 0.3, 0.0, 0.2], least=94.0, most=94.0)] * 3, "did not hold"),  # all are alike
        ([measured([0.0, 0.3, 0.0, 40.0], least=95.0, most=50.0)], "inconclusive"),
        ([measured([0.0] * 4, least=0.0, most=0.0, exact=1.0)] * 3, "inconclusive"),  # nothing was learned
    ],
)
def test_the_verdict(results: list[dict[str, Any]], outcome: str) -> None:
    assert judge_heads(results).outcome == outcome


def test_a_trial_removes_every_head() -> None:
    result = trial(Condition(heads=2, layers=1, steps=2, sentences=2), seed=1)
    assert [name.partition(" ")[0] for name in result["heads"]] == ["encoder"] * 2 + ["decoder"] * 2 + ["cross"] * 2
    assert len(result["costs"]) == 6 and len(result["exact least"]) == len(result["error most"]) == 6
    assert result["exact least"][0] == result["exact most"][0] == result["exact"]


@pytest.mark.slow
def test_a_model_with_few_heads_needs_them() -> None:
    result = heads(3, heads=1, layers=1, steps=500, sentences=100)
    assert result.verdict.outcome == "did not hold"
