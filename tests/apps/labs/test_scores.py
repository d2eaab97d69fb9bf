"""The scores lab: its verdict on made-up numbers, and real worlds in which its claim is true and false."""

from __future__ import annotations

import pytest

from weft.apps.labs.scores import SCORES, judge_scores, scores
from weft.recipe import choices


def test_the_six_scores_exist() -> None:
    assert len(SCORES) == 6 and set(SCORES) < set(choices.SCORES)


@pytest.mark.parametrize(
    ("exact", "outcome"),
    [
        ({"dot": [70.0, 72.0, 71.0], "additive": [46.0, 47.0, 45.0], "cosine": [20.0, 24.0, 23.0]}, "held"),
        ({"dot": [70.0, 72.0, 71.0], "additive": [70.0, 72.0, 71.0], "cosine": [20.0, 24.0, 23.0]}, "did not hold"),
        ({"dot": [70.0, 72.0, 71.0], "additive": [70.5, 72.5, 71.5]}, "did not hold"),
        ({"dot": [40.0, 80.0, 60.0], "additive": [80.0, 40.0, 75.0]}, "inconclusive"),
        ({"dot": [40.0], "additive": [90.0]}, "inconclusive"),
    ],
)
def test_the_verdict(exact: dict[str, list[float]], outcome: str) -> None:
    assert judge_scores(exact, exact).outcome == outcome


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_two_names_of_one_score_do_not_differ() -> None:
    result = scores(2, scores=("dot", "parameter_free"), steps=60, sentences=50)
    assert result.verdict.outcome == "did not hold"
    assert "no pair differs beyond noise" in result.notes[0]
