"""The bias lab: its verdict on made-up numbers, and a world in which its claim is false."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from weft.apps.labs import bias
from weft.apps.labs.bias import judge_bias


@pytest.mark.parametrize(
    ("beliefs", "outputs", "fluent", "data", "outcome"),
    [
        ([80.0, 82.0, 81.0], [95.0, 97.0, 96.0], [90.0, 92.0, 94.0], 75.0, "held"),
        ([50.0, 51.0, 49.0], [40.0, 60.0, 55.0], [90.0, 92.0, 94.0], 50.0, "did not hold"),
        ([80.0, 82.0, 81.0], [60.0, 61.0, 62.0], [90.0, 92.0, 94.0], 75.0, "did not hold"),
        ([80.0, 82.0, 81.0], [95.0, 97.0, 96.0], [10.0, 12.0, 9.0], 75.0, "did not hold"),
        ([80.0, 82.0, 81.0], [70.0, 99.0, 80.0], [90.0, 92.0, 94.0], 75.0, "inconclusive"),
    ],
)
def test_the_verdict(
    beliefs: Sequence[float], outputs: Sequence[float], fluent: Sequence[float], data: float, outcome: str
) -> None:
    assert judge_bias(beliefs, outputs, fluent, data).outcome == outcome


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_where_both_genders_are_as_frequent_the_claim_is_false() -> None:
    result = bias(3, skewed=False)
    assert result.verdict.outcome == "did not hold"
    assert result.verdict.effect.high < 60
