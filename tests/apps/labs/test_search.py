"""The search lab: its verdict on made-up numbers, what it counts, and a world in which its claim is false."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from weft.apps.labs import search
from weft.apps.labs.search import EMPTY, EXACT, GAIN, LENGTH, SEARCHES, WORSE, _compare, judge_searches


def numbers(**changes: list[float]) -> dict[str, dict[str, list[float]]]:
    """Measures of three seeds in a world in which the claim is true."""
    same = {GAIN: [0.0] * 3, WORSE: [0.0] * 3, LENGTH: [99.0, 100.0, 101.0], EMPTY: [0.0] * 3, EXACT: [50.0] * 3}
    found = {f"{name}, α = {alpha}": dict(same) for alpha in (0, 1) for name in SEARCHES}
    found["beam of 5, α = 0"][GAIN] = changes.get("gain", [0.8, 0.9, 1.0])
    found["beam of 2, α = 0"][WORSE] = changes.get("worse", [9.0, 10.0, 11.0])
    found["exact, α = 0"][LENGTH] = changes.get("length", [30.0, 40.0, 35.0])
    return found


@pytest.mark.parametrize(
    ("changes", "violations", "cases", "outcome"),
    [
        ({}, 0, 100, "held"),
        ({}, 1, 100, "did not hold"),
        ({}, 0, 0, "inconclusive"),
        ({"gain": [-0.5, 0.1, 0.9]}, 0, 100, "inconclusive"),
        ({"gain": [-0.5, -0.6, -0.4]}, 0, 100, "did not hold"),
        ({"worse": [0.0, 0.0, 0.0]}, 0, 100, "did not hold"),
        ({"worse": [0.0, 0.0, 5.0]}, 0, 100, "inconclusive"),
        ({"length": [100.0, 101.0, 102.0]}, 0, 100, "did not hold"),
    ],
)
def test_the_verdict(changes: dict[str, Any], violations: int, cases: int, outcome: str) -> None:
    assert judge_searches(numbers(**changes), violations, cases).outcome == outcome


def output(log_probability: float, length: int, **changes: Any) -> Any:
    found = {"ended": "end", "proven": True, "source": "b a", "text": "a b"}
    return SimpleNamespace(log_probability=log_probability, ids=list(range(length)), **found | changes)


def test_what_is_compared() -> None:
    """Four sentences: a gain, a loss, one whose best is not proven, and one that was cut off."""
    outputs = {
        "greedy": [output(-4.0, 1), output(-4.0, 1), output(-4.0, 1), output(-1.0, 1)],
        "beam of 2": [output(-2.0, 1), output(-6.0, 1), output(-4.0, 1), output(-1.0, 1, ended="length")],
        "exact": [output(-2.0, 1), output(-3.0, 1), output(-5.0, 1, proven=False), output(-3.0, 0)],
    }
    result: dict[str, Any] = {"violations": 0, "cases": 0, "example": ""}
    compared = _compare("beam of 2", outputs, 0, result)
    assert compared == {GAIN: pytest.approx(0.0), WORSE: pytest.approx(100 / 3)}
    assert (result["violations"], result["cases"]) == (0, 2)
    assert result["example"] == "beam of 2, α = 0, b a → a b (−6); greedy a b (−4)"
    assert _compare("beam of 2", outputs, 1, result)[GAIN] == pytest.approx(0.0)


def test_an_output_above_the_best_is_counted() -> None:
    """−3 over 4 tokens is above −2 over 2, though the best by log p is the latter: compared by another α."""
    outputs = {"greedy": [output(-3.0, 3)], "exact": [output(-2.0, 1)]}
    result: dict[str, Any] = {"violations": 0, "cases": 0, "example": ""}
    _compare("greedy", outputs, 0, result)
    assert (result["violations"], result["cases"]) == (0, 1)
    _compare("greedy", outputs, 1, result)
    assert (result["violations"], result["cases"]) == (1, 2)


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_compared_by_another_score_the_claim_is_false() -> None:
    result = search(2, quick=True, compared_by=1)
    assert result.verdict.outcome == "did not hold"
    assert result.verdict.checks[0].effect.mean > 0


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_nothing_scores_above_the_proven_best() -> None:
    result = search(2, quick=True)
    assert result.verdict.checks[0].outcome == "held"
    assert result.data[0]["cases"] > 100
