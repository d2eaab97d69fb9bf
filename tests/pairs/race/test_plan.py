"""Whether to race, for how long, and whether a further model fits."""

from __future__ import annotations

from typing import Any

import pytest

from weft.pairs.race.plan import (
    RaceTimes,
    TrainedModel,
    further_model,
    opens_too_long,
    race_seconds,
    race_times,
    rung_ends,
    rung_lengths,
    too_short,
    too_short_before,
)
from weft.training.events import Fitted


def fitted(steps: int, recipe_steps: int = 2_000, step_seconds: float = 0.1) -> Fitted:
    return Fitted(0, 1.0, steps, recipe_steps, step_seconds, 4, 1.0, 10.0)


@pytest.mark.parametrize(("candidates", "probe"), [(2, 0.15), (3, 0.12), (4, 0.3 / 2)])
def test_the_race_takes_its_share(candidates: int, probe: float) -> None:
    """Of three candidates: p / 2 for each, then p / 2 for the better two."""
    times = race_times(100.0, candidates)
    assert times.winner == 70.0
    expected = {2: 30 / 2, 3: 30 / 2.5, 4: 30 / (4 * 0.5 + 2 * 0.5)}[candidates]
    assert times.probe == pytest.approx(expected)
    assert probe * 100 >= times.probe


def test_half_as_long_if_preparing_candidates_takes_half_of_the_time() -> None:
    assert race_seconds(20.0, 3) == 50.0
    assert not opens_too_long([30.0], 1, 50.0), "the first one has prepared the pairs, too"
    assert not opens_too_long([30.0, 8.0, 8.0], 3, 50.0) and opens_too_long([0.0, 8.0, 9.0], 3, 50.0)
    assert rung_ends(3, shortened=False) == [0.5, 1.0] and rung_ends(3, shortened=True) == [0.25, 0.5]
    assert rung_ends(2, shortened=False) == [1.0] and rung_ends(1, shortened=False) == []


def test_rungs_double() -> None:
    assert rung_lengths(1) == [1.0]
    assert rung_lengths(2) == [0.5, 0.5]
    assert rung_lengths(3) == [0.25, 0.25, 0.5]


def test_too_short_before_anything_is_measured() -> None:
    assert too_short_before(RaceTimes(4.99, 1e9)) == "5 s for each candidate, at least 5 s are needed"
    assert too_short_before(RaceTimes(5.0, 0.0)) is None


@pytest.mark.parametrize(
    ("probe", "winner", "reason"),
    [
        (fitted(100), 60.0, None),  # 576 steps of 500 that are needed
        (fitted(99), 1e6, "99 steps for each candidate, at least 100 are needed"),
        (fitted(30, recipe_steps=30), 1e6, None),  # a recipe of 30 steps
        (fitted(100), 50.0, "480 steps would be left for the winner, at least 25% of the recipe's 2,000 are needed"),
    ],
)
def test_too_short_by_the_measured_speed(probe: Fitted, winner: float, reason: str | None) -> None:
    assert too_short(RaceTimes(10.0, winner), probe) == reason


def model(**changes: Any) -> TrainedModel:
    numbers = {"seed": 1, "steps": 1_000, "recipe_steps": 1_000, "training_seconds": 90.0, "other_seconds": 10.0}
    return TrainedModel(**{**numbers, **changes})  # type: ignore[arg-type]


def test_a_further_model_if_a_complete_one_fits() -> None:
    assert further_model([model()], 105.0) == (False, None)
    assert further_model([model()], 104.9).reason == "a further model takes 1.8 min"
    assert further_model([model(), model(training_seconds=110.0)], 105.0).reason == "a further model takes 2.1 min"
    assert further_model([model()] * 6, 1e6).reason == "6 models are enough"


def test_of_models_that_validation_cannot_tell_apart_only_a_longer_one() -> None:
    reason = "validation pairs cannot tell which of several models is the best"
    assert further_model([model()], 1e6, only_longer=True).reason == reason
    cut = model(steps=600, training_seconds=60.0, other_seconds=0.0)
    assert further_model([cut], 94.0, only_longer=True) == (True, None)
    assert further_model([cut], 10.0, only_longer=True).reason == "a further model takes 1.1 min"


def test_steps_are_fitted_again_if_the_machine_was_measured_too_slow() -> None:
    """One step was planned, which took a second; there are sixty more."""
    slow = model(steps=1, training_seconds=1.0, other_seconds=40.0)
    assert further_model([slow], 60.0) == (True, None)
    assert further_model([slow, slow], 60.0) == (False, None), "the second measurement said the same"
    assert further_model([slow], 42.0).reason == "a further model takes 0.7 min"
    cut = model(steps=600, training_seconds=60.0, other_seconds=0.0)
    assert further_model([cut], 94.0) == (True, None)  # 902 steps, 1.5 times 600
    assert further_model([cut], 93.0) == (False, None)  # 892
    assert further_model([model(steps=600, recipe_steps=600, training_seconds=60.0)], 94.0) == (False, None)
