"""The bottleneck lab: its verdict on made-up numbers, a small run, and a world without attention."""

from __future__ import annotations

import math

import pytest

from weft.apps.labs import bottleneck
from weft.apps.labs.bottleneck import LENGTHS, judge_gaps


def gap(per_doubling: float, level: float) -> list[float]:
    return [level + per_doubling * math.log2(length) for length in LENGTHS]


@pytest.mark.parametrize(
    ("narrow", "wide", "outcome"),
    [
        ([gap(15, 20), gap(16, 21), gap(14, 19)], [gap(10, 5), gap(11, 6), gap(9, 6)], "held"),
        ([gap(0, 0)] * 3, [gap(0, 0)] * 3, "did not hold"),
        ([gap(15, 20), gap(16, 21), gap(14, 19)], [gap(15, 20), gap(16, 21), gap(14, 19)], "did not hold"),
        ([gap(15, 20), gap(16, 21), gap(14, 19)], [gap(10, 5), gap(11, 40), gap(9, -20)], "inconclusive"),
        ([gap(15, 20), gap(-9, 21), gap(14, 19)], [gap(10, 5), gap(11, 6), gap(9, 6)], "inconclusive"),
        ([gap(15, 20)], [gap(10, 5)], "inconclusive"),
    ],
)
def test_the_verdict(narrow: list[list[float]], wide: list[list[float]], outcome: str) -> None:
    assert judge_gaps(narrow, wide, [97.0] * len(narrow)).outcome == outcome


def test_the_effects() -> None:
    """Growth per doubling of the length, and the difference of the widths over the lengths of the training."""
    growth, shrinkage, _ = judge_gaps([gap(3, 5), gap(4, 5)], [gap(3, 1), gap(4, 1)], [95.0, 97.0]).checks
    assert growth.effect.mean == pytest.approx(3.5) and shrinkage.effect.mean == pytest.approx(4)


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_without_attention_there_is_no_gain() -> None:
    result = bottleneck(2, quick=True, attention="none", widths=(8, 16), steps=12)
    assert result.verdict.outcome == "did not hold" and result.verdict.effect.mean == 0
    assert [series.name for series in result.charts[0].series] == ["no attention, 8 units", "no attention, 16 units"]
