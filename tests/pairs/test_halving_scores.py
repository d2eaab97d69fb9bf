"""Validation scores that are compared."""

from __future__ import annotations

from weft.pairs.halving import Standing, better, is_finite, standing_of, value_of
from weft.training.events import Validation


def test_which_direction_is_better() -> None:
    assert better("loss") == "lower" == better("item_error_rate")
    assert better("bleu") == "higher" == better("edit_f05")


def test_standings() -> None:
    event = Validation(5, 2.0, 7.4, {"bleu": 30.0, "item_error_rate": 40.0})
    assert standing_of("a", event, "bleu") == Standing("a", 30.0, 2.0)
    assert standing_of("a", event, "item_error_rate") == Standing("a", -40.0, 2.0)
    assert standing_of("a", event, "loss") == Standing("a", -2.0, 2.0) and value_of(event, "loss") == 2.0
    diverged = Validation(5, 2.0, float("inf"), {"bleu": 30.0})
    assert standing_of("a", diverged, "bleu") == Standing("a", -float("inf"), float("inf"))
    assert is_finite(1.0, None) and not is_finite(float("nan"), None)


def test_a_structural_holdout_counts_half() -> None:
    event = Validation(5, 2.0, 7.4, {"bleu": 30.0}, structural={"loss": 4.0, "bleu": 10.0})
    assert value_of(event, "bleu") == 20.0 and value_of(event, "loss") == 3.0
    assert standing_of("a", event, "bleu") == Standing("a", 20.0, 2.0)
