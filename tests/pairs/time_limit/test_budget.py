"""Fitting settings to a time limit: arithmetic on made-up speeds."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weft.errors import RecipeError, WeftWarning
from weft.pairs.time_limit import budget
from weft.pairs.time_limit.budget import (
    DISTILLATION,
    FittedTraining,
    Speed,
    TimeLimit,
    fit_settings,
    fit_warmup,
    lengthened,
)
from weft.pairs.time_limit.fitting import believed
from weft.recipe import TrainingSettings


def settings(**changes: Any) -> TrainingSettings:
    return TrainingSettings(
        **{"steps": 2_000, "warmup": 200, "validate_every": 100, "average": 5, "metric": "bleu", **changes}
    )


def planned_seconds(fitted: FittedTraining, speed: Speed, sentences: int) -> float:
    """What the fitted run takes, by its own settings."""
    chosen, seconds = fitted.settings, speed.startup
    validations = chosen.steps // chosen.validate_every if chosen.validate_every else 0
    assert validations == fitted.validations
    averaging = 1 if chosen.average > 1 and validations else 0
    validation = 1.3 * (speed.loss + speed.sentence * min(sentences, chosen.valid_sentences))
    return seconds + chosen.steps * speed.step + (validations + averaging) * validation


def test_a_recipe_that_fits_is_left_alone() -> None:
    chosen = settings(save_every=5_000, log_every=700)
    fitted = fit_settings(chosen, Speed(step=0.01, loss=0.1), 60, 0)
    assert fitted.settings == chosen
    assert fitted.validations == 20 and fitted.seconds == pytest.approx(20 + 21 * 0.13)


def test_steps_warmup_and_validations_in_proportion() -> None:
    fitted = fit_settings(settings(), Speed(step=0.1), 100 / 0.96, 0)
    assert fitted.settings.steps == pytest.approx(1_000, abs=20)
    assert fitted.settings.warmup == pytest.approx(100, abs=2)
    assert fitted.validations == 20 and fitted.settings.steps == 20 * fitted.settings.validate_every
    same = {"learning_rate", "schedule", "patience", "average", "batch_tokens", "metric", "valid_sentences"}
    assert fitted.settings.model_dump(include=same) == settings().model_dump(include=same)


def test_a_loss_that_seems_slow_leaves_time_for_updates() -> None:
    speed = believed(Speed(step=0.135, loss=380.0), TimeLimit(3.5, 0.0))
    assert speed.loss == pytest.approx(0.12 * 210)
    fitted = fit_settings(settings(steps=20_000), speed, 210, 0)
    assert fitted.settings.steps * 0.135 > 0.6 * 210 and fitted.validations == 1


@pytest.mark.parametrize("sentence", [0.5, 6.0, 30.0])
def test_translations_of_an_untrained_model_leave_time_for_updates(sentence: float) -> None:
    """A CTC search on a GPU that others used took 6 s a sentence before the first update, and 0.05 s after training."""
    speed = Speed(step=0.25, sentence=sentence)
    fitted = fit_settings(settings(steps=20_000, valid_sentences=1_000, average=5), speed, 360, 1_000)
    assert fitted.settings.steps * speed.step > 0.55 * 360
    assert 1 <= fitted.settings.valid_sentences <= 100 and fitted.validations >= 1
    assert fitted.closing_seconds < 0.4 * 360 and planned_seconds(fitted, speed, 1_000) <= 360


@pytest.mark.parametrize(
    ("seconds", "save_every", "log_every", "expected"),
    [
        (100, 700, 70, (700, 70)),
        (50, 700, 70, (500, 50)),  # no later than the last step, ten times a run
        (0.9, 700, 70, (9, 1)),
        (100, 999, 101, (999, 100)),
        (100, 2_000, 7, (1_000, 7)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*too few to learn from")
def test_a_short_run_is_saved_and_logged(
    seconds: float, save_every: int, log_every: int, expected: tuple[int, int]
) -> None:
    chosen = settings(save_every=save_every, log_every=log_every)
    fitted = fit_settings(chosen, Speed(step=0.1), seconds / 0.96 + 0.01, None).settings
    assert (fitted.save_every, fitted.log_every) == expected


def test_slow_validations_become_fewer_and_then_smaller() -> None:
    quick = Speed(step=0.1, sentence=0.007)
    fitted = fit_settings(settings(valid_sentences=200), quick, 100, 200)
    assert 8 <= fitted.validations < 20 and fitted.settings.valid_sentences == 200
    slow = Speed(step=0.1, sentence=0.01, loss=0.1)
    fitted = fit_settings(settings(valid_sentences=1_000), slow, 100, 1_000)
    assert 100 <= fitted.settings.valid_sentences < 1_000 and fitted.validations >= 7
    fitted = fit_settings(settings(metric="loss", valid_sentences=1_000), Speed(step=0.1, loss=30), 100, 0)
    assert fitted.settings.valid_sentences == 1_000
    assert fitted.validations == 1 and fitted.settings.validate_every == fitted.settings.steps


@pytest.mark.parametrize(
    ("loss", "average", "validations"),
    [
        (2.0, 1, 10),  # 9 fit into 25 s, at 1.3 · 2 s each; ten may take up to 40 s
        (2.0, 2, 10),  # one more is of the mean of the best checkpoints
        (5.0, 1, 6),  # 40 s
        (5.0, 2, 5),
        (15.0, 1, 2),
        (15.0, 2, 1),  # at least one, whatever the time
        (30.0, 1, 1),
        (0.5, 1, 20),  # 38 would fit, but the recipe has 20
    ],
)
def test_as_many_validations_as_fit_into_their_share(loss: float, average: int, validations: int) -> None:
    chosen = settings(metric="loss", average=average)
    assert fit_settings(chosen, Speed(step=0.1, loss=loss), 100 / budget.SAFETY, 0).validations == validations


def test_a_run_without_validations() -> None:
    fitted = fit_settings(settings(), Speed(step=0.1, startup=20), 100, None)
    assert fitted.settings.steps == 760 and fitted.settings.validate_every == 100
    assert (fitted.validations, fitted.closing_seconds) == (0, 0.0)


@pytest.mark.parametrize("average", [1, 5])
def test_what_follows_the_last_update(average: int) -> None:
    fitted = fit_settings(settings(average=average), Speed(step=0.1, loss=1), 100, 0)
    assert fitted.closing_seconds == pytest.approx(1.3 * (2 if average > 1 else 1))


def test_a_warmup_is_not_shortened_to_nothing() -> None:
    assert fit_warmup(settings(steps=10_000, warmup=400), 5_000) == 200
    assert fit_warmup(settings(steps=100_000, warmup=4_000), 1_000) == 100
    assert fit_warmup(settings(steps=10_000, warmup=400), 100) == 20
    assert fit_warmup(settings(steps=10_000, warmup=0), 100) == 0


def test_too_little_time() -> None:
    """What fits is trained, at least one step, with a warning."""
    with pytest.warns(WeftWarning) as caught:
        fitted = fit_settings(settings(), Speed(step=3.0), 20, None)
    assert fitted.settings.steps == 6 and str(caught[0].message) == (
        "minutes: there is time for only 6 steps of 3 s, too few to learn from; give 1.1 minutes more"
    )
    with pytest.warns(WeftWarning, match="time for only 1 step of 3 s"):
        fitted = fit_settings(settings(), Speed(step=3.0, loss=1.0), -5, 0)
    assert (fitted.settings.steps, fitted.settings.validate_every, fitted.validations) == (1, 1, 1)


@pytest.mark.parametrize(
    ("loss", "average", "startup", "minutes"),
    [
        (1.0, 5, 0.0, "0.9"),  # 20 updates of 3 s are three quarters of 80 s: 80 s / 0.96 − 30 s
        (20.0, 1, 0.0, "1.0"),  # 20 updates and a validation of 1.3 · 20 s
        (20.0, 5, 0.0, "1.5"),  # … and one of the mean of the best checkpoints
        (1.0, 5, 10.0, "1.1"),
    ],
)
def test_how_much_more_time_is_needed(loss: float, average: int, startup: float, minutes: str) -> None:
    with pytest.warns(WeftWarning, match=f"give {minutes} minutes more"):
        fit_settings(settings(average=average), Speed(step=3.0, loss=loss, startup=startup), 30, 0)


def test_minutes_that_are_enough_are_named(recwarn: pytest.WarningsRecorder) -> None:
    speed = Speed(step=3.0, startup=4, loss=1)
    fit_settings(settings(), speed, 30, 0)
    more = float(str(recwarn.pop(WeftWarning).message).split("give ")[1].split()[0])
    assert fit_settings(settings(), speed, 30 + 60 * more, 0).settings.steps >= budget.MIN_STEPS
    assert not recwarn.list


@given(
    step=st.floats(1e-4, 5),
    startup=st.floats(0, 60),
    loss=st.floats(0, 60),
    sentence=st.floats(0, 1),
    sentences=st.integers(1, 1_000),
    seconds=st.floats(10, 10_000),
    average=st.integers(1, 5),
    validate_every=st.sampled_from([0, 1, 30, 500, 5_000]),
)
@example(1.0, 0.0, 1.0, 5e-324, 101, 10.0, 1, 1)
def test_fits_whatever_the_speed(
    step: float,
    startup: float,
    loss: float,
    sentence: float,
    sentences: int,
    seconds: float,
    average: int,
    validate_every: int,
) -> None:
    speed = Speed(step, startup, loss, sentence)
    chosen = settings(average=average, validate_every=validate_every, valid_sentences=sentences)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit_settings(chosen, speed, seconds, sentences if validate_every else None)
    if not caught:
        assert planned_seconds(fitted, speed, sentences) <= seconds * 1.0001
        assert fitted.settings.steps > budget.MIN_STEPS / 2
    assert fitted.seconds == pytest.approx(planned_seconds(fitted, speed, sentences), rel=1e-6)
    assert 1 <= fitted.settings.steps <= 2_000
    assert TrainingSettings.model_validate(fitted.settings.model_dump()) == fitted.settings


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_limit(minutes: float) -> None:
    with pytest.raises(RecipeError, match="expected a number of minutes above 0"):
        TimeLimit.from_now(minutes)


class TestLengthened:
    """Runs of pairs use up the time."""

    @pytest.mark.parametrize(
        ("seconds", "steps", "runs"),
        [
            (100.0, 2_000, 0),  # a run takes 200 s: it is cut, not lengthened
            (300.0, 2_880, 1),  # 288 s are planned
            (416.0, 3_980, 1),
            (510.0, 4_880, 1),  # two runs and a distillation of 140 s each would take 490 s, which are just not planned
            (512.0, 1_400, 2),  # they fit, with 70 % of the steps
            (730.0, 2_000, 2),
            (930.0, 2_540, 2),
            (940.0, 2_000, 3),
            (5_000.0, 6_400, 6),
            (9_000.0, 8_000, 6),  # six models, and at most four times as many steps
        ],
    )
    def test_one_run_or_several(self, seconds: float, steps: int, runs: int) -> None:
        speed, chosen = Speed(step=0.1), settings()
        longer, models = lengthened(chosen, speed, seconds, 0)
        assert models == max(runs, 1)
        assert longer.steps == pytest.approx(steps, abs=20) and longer.steps % longer.validate_every == 0
        assert longer.steps // longer.validate_every == 20, "as many validations as before"
        assert longer.warmup == pytest.approx(longer.steps / 10, abs=1)
        distillation = DISTILLATION if runs > 1 else 0
        assert not runs or (runs + distillation) * longer.steps * speed.step <= seconds
        same = {"learning_rate", "schedule", "patience", "average", "batch_tokens", "metric", "valid_sentences"}
        assert longer.model_dump(include=same) == chosen.model_dump(include=same)
        stops_early = lengthened(settings(patience=10), speed, seconds, 0).settings
        assert stops_early.steps == longer.steps and bool(stops_early.patience) == (runs > 1), (
            "one uses all of its time"
        )

    def test_without_validations(self) -> None:
        longer = lengthened(settings(), Speed(step=0.1, startup=20.0), 300.0, None).settings
        assert (longer.steps, longer.validate_every) == (2_680, 100)
