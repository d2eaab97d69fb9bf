"""The alignment lab: its verdict on made-up numbers, replaced weights, and attention that has learned nothing."""

from __future__ import annotations

import pytest

from weft.apps.labs import short_sentences
from weft.apps.labs.alignment import MODELS, alignment, changed, judge_alignment
from weft.apps.labs.training import train_model

ERRORS = {"dot LSTM": [7.0, 8.0, 6.0], "the diagonal": [22.0, 23.0, 22.0], "IBM Model 1": [11.0, 12.0, 11.0]}


@pytest.mark.parametrize(
    ("errors", "permuted", "outcome"),
    [
        (ERRORS, [97.0, 100.0, 90.0], "held"),
        (ERRORS, [3.0, 0.0, 5.0], "did not hold"),  # the output does not depend on the weights
        (ERRORS | {"dot LSTM": [70.0, 71.0, 69.0]}, [97.0, 100.0, 90.0], "did not hold"),
        (ERRORS | {"dot LSTM": [2.0, 20.0, 11.0]}, [97.0, 100.0, 90.0], "inconclusive"),
        ({name: values[:1] for name, values in ERRORS.items()}, [97.0], "inconclusive"),
    ],
)
def test_the_verdict(errors: dict[str, list[float]], permuted: list[float], outcome: str) -> None:
    assert judge_alignment(errors, {"dot LSTM": permuted}).outcome == outcome


def test_weights_replaced_by_themselves_change_nothing() -> None:
    run = train_model(short_sentences.settings(MODELS["dot LSTM"], steps=2), seed=1)
    assert changed(run, short_sentences.pairs("test", 2, seed=1), "themselves", seed=1) == 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_attention_that_has_learned_nothing_does_not_align() -> None:
    result = alignment(2, models=("dot LSTM",), steps=10, sentences=50)
    assert result.verdict.outcome == "did not hold"
    assert result.verdict.effect.high < 0
