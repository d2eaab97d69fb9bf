"""The order lab: permutation equivariance, a world in which its claim is false, and its verdict on made-up numbers."""

from __future__ import annotations

import pytest

from weft.apps.labs import order
from weft.apps.labs.order import LENGTHS, Condition, judge_order, letters, trial
from weft.evaluation.statistics import Estimate

TINY = (40, 8)


def test_an_encoder_without_positions_is_equivariant() -> None:
    assert trial(Condition("encoder without positions", "none", 1, TINY), 1)["difference"] < 1e-5
    assert trial(Condition("encoder without positions", "sinusoidal", 1, TINY), 1)["difference"] > 0.1


def test_the_letters() -> None:
    pairs = letters(8, "a")
    assert pairs == letters(8, "a") != letters(8, "b")
    assert [len(pair.target.split()) for pair in pairs] == [*LENGTHS, *LENGTHS]
    assert all(len(set(pair.target.split())) == len(pair.target.split()) for pair in pairs)
    assert pairs[0].source == f"{pairs[0].target} ="


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_both_worlds() -> None:
    """About a minute a world: positions in the encoder make the claim false."""
    assert order(3, steps=200).verdict.outcome == "held"
    assert order(3, steps=200, positions="learned").verdict.outcome == "did not hold"


@pytest.mark.parametrize(
    ("difference", "encoder", "decoder", "outcome"),
    [
        (1e-6, Estimate(18.0, 15.0, 21.0), Estimate(95.0, 90.0, 100.0), "held"),
        (2.0, Estimate(18.0, 15.0, 21.0), Estimate(95.0, 90.0, 100.0), "did not hold"),
        (1e-6, Estimate(18.0, 15.0, 21.0), Estimate(20.0, 15.0, 25.0), "did not hold"),
        (1e-6, Estimate(18.0, 15.0, 21.0), Estimate(65.0, 40.0, 90.0), "inconclusive"),
    ],
)
def test_the_verdict(difference: float, encoder: Estimate, decoder: Estimate, outcome: str) -> None:
    assert judge_order(Estimate.exact(difference), encoder, decoder).outcome == outcome
