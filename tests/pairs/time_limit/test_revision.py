"""The revision of a plan as the speed of training is observed, with made-up speeds and clocks."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.pairs.race.plan import MODEL_SAFETY
from weft.pairs.time_limit import revision as revisions
from weft.pairs.time_limit.budget import DISTILLATION, Speed, fit_settings, lengthened
from weft.pairs.time_limit.revision import MAX_REVISIONS, ObservedPace, Pace, Revised, revise_settings, train_revised
from weft.recipe import Recipe, TrainingSettings
from weft.recipe.data import NamedCorpus
from weft.training.events import Event, Finished, Fitted, Saved, Started, Step, Validation
from weft.training.train import FittedRun, NewRun, TrainingOptions

Tiny = Callable[[dict[str, Any]], Recipe]

SETTINGS = TrainingSettings(steps=42_000, validate_every=2_100, warmup=4_200, save_every=1_000)
FITTED = Fitted(0, 8.0, 42_000, 12_000, 0.01, 20, 0.5, 400.0, closing_seconds=3.0)


def _step(number: int) -> Step:
    return Step(number, 1.0, 0.1, 1.0, 5, 7, 0.0, 0.0, 1)


def test_a_plan_that_fits_stays() -> None:
    assert revise_settings(SETTINGS, 10_000, Pace(0.01, 0.5), 335) is None
    assert revise_settings(SETTINGS, 10_000, Pace(0.01, 0.5), 315) is None, "within the tolerance"
    assert revise_settings(SETTINGS, 42_000, Pace(9.0, 0.5), 0) is None, "all steps are done"


def test_what_is_left_is_fitted_to_the_time() -> None:
    """SCAN of the third round: a step took 3.5 times as long as measured."""
    settings = revise_settings(SETTINGS, 3_000, Pace(0.035, 0.7), 330)
    assert settings is not None
    further = settings.steps - 3_000
    validations = settings.steps // settings.validate_every - 3_000 // settings.validate_every
    assert 0.9 * 330 < 0.035 * further + 0.7 * validations < 330
    assert settings.steps % settings.validate_every == 0, "the last step is validated"
    assert 18 <= validations <= 20, "as many as were left"
    assert settings.warmup == round(4_200 * settings.steps / 42_000), "in proportion"
    rest = settings.model_dump(exclude={"steps", "validate_every", "warmup"})
    assert rest == SETTINGS.model_dump(exclude={"steps", "validate_every", "warmup"})


def test_slow_validations_become_fewer() -> None:
    settings = revise_settings(SETTINGS, 3_000, Pace(0.035, 30.0), 330)
    assert settings is not None
    assert settings.steps // settings.validate_every - 3_000 // settings.validate_every in (2, 3)
    assert settings.save_every == 1_000


def test_slow_validations_translate_fewer_sentences_before_they_become_fewer() -> None:
    """A busy CPU: 500 sentences took 80 s, a tenth of the time; ten validations of 240 fit."""
    settings = SETTINGS.model_copy(
        update={"steps": 1_700, "validate_every": 100, "valid_sentences": 500, "warmup": 100}
    )
    revised = revise_settings(settings, 147, Pace(0.5, 40.0, 500), 800)
    assert revised is not None and revised.valid_sentences == 240
    assert 9 <= revised.steps // revised.validate_every - 147 // revised.validate_every <= 10
    few = revise_settings(settings, 147, Pace(0.5, 40.0, 60), 800)
    assert few is not None and few.valid_sentences == 500, "a small validation set is translated whole"
    least = revise_settings(settings, 147, Pace(0.5, 400.0, 500), 800)
    assert least is not None and least.valid_sentences == 100
    by_loss = revise_settings(settings, 147, Pace(0.5, 40.0), 800)
    assert by_loss is not None and by_loss.valid_sentences == 500, "nothing is translated"


def test_validations_of_very_few_sentences_get_the_usual_ones_once_these_are_fast() -> None:
    """Planned by an untrained model, whose search took 6 s a sentence; a trained one takes 0.05 s."""
    settings = SETTINGS.model_copy(update={"steps": 1_000, "validate_every": 100, "valid_sentences": 8, "warmup": 100})
    revised = revise_settings(settings, 250, Pace(0.25, 0.4, 8), 240)
    assert revised == settings.model_copy(update={"valid_sentences": 100})
    assert revise_settings(settings, 250, Pace(0.25, 4.0, 8), 240) is None, "100 would take too long"
    assert revise_settings(settings, 250, Pace(0.25, 0.4, 5), 200) is None, "the validation set has no more"
    extended = revise_settings(settings, 250, Pace(0.05, 0.4, 8), 200, most_steps=10_000)
    assert extended is not None and extended.valid_sentences == 100 and extended.steps > 1_000
    event = Revised(250, 1_000, 1_000, 0.25, 0.25, 100)
    assert str(event) == "the plan is revised at step 250: validations translate 100 sentences"


def test_a_run_without_validations() -> None:
    settings = revise_settings(SETTINGS, 3_000, Pace(0.1, 0.0), 100)
    assert settings is not None
    assert (settings.steps, settings.validate_every) == (3_960, 2_100)


def test_a_run_that_is_faster_than_planned_is_extended_up_to_what_is_wanted() -> None:
    """A busy CPU: 0.94 s a step were measured, 0.4 s were observed."""
    settings = SETTINGS.model_copy(update={"steps": 225, "validate_every": 45, "warmup": 45})
    pace = Pace(0.4, 2.0)
    extended = revise_settings(settings, 60, pace, 400, most_steps=12_000)
    assert extended is not None and extended.steps % extended.validate_every == 0
    validations = extended.steps // extended.validate_every - 60 // extended.validate_every
    assert 0.85 * 400 < (extended.steps - 60) * 0.4 + validations * 2.0 < 400
    assert validations >= 8, "instead of four, since they take a small part of the time"
    limited = revise_settings(settings, 60, pace, 400, most_steps=300)
    assert limited is not None and 225 < limited.steps <= 300
    for unchanged in (
        revise_settings(settings, 60, pace, 400, most_steps=225),
        revise_settings(settings, 60, pace, 90, most_steps=12_000),
        revise_settings(settings, 225, pace, 400, most_steps=12_000),
    ):
        assert unchanged is None


@pytest.mark.parametrize("seconds", [-5.0, 0.0, 0.02])
def test_without_time_for_a_step_nothing_changes(seconds: float) -> None:
    assert revise_settings(SETTINGS, 3_000, Pace(0.035, 0.7), seconds) is None


def test_first_updates_and_validations_do_not_count_as_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Clock()
    monkeypatch.setattr(revisions, "time", clock)
    observed = ObservedPace()
    for number in range(1, 6):  # kernels are compiled
        clock.now += 50.0
        observed.add(_step(number))
    for number in range(6, 25):
        clock.now += 2.0
        observed.add(_step(number))
    assert observed.pace(FITTED) is None
    clock.now += 1.0
    observed.add(Saved(24, "here"))
    clock.now += 3.0
    observed.add(_step(25))
    assert observed.pace(FITTED) == Pace((19 * 2.0 + 1.0 + 3.0) / 20, 0.5), "validations as planned"
    clock.now += 11.0
    observed.add(Validation(25, 1.0, 2.7, {}, True))
    assert observed.pace(FITTED) == Pace(42.0 / 20, 11.0)


def test_the_event_has_its_numbers() -> None:
    assert str(Revised(3_000, 11_880, 42_000, 0.035, 0.01)) == (
        "the plan is revised at step 3,000: 11,880 steps instead of 42,000, "
        "since a step takes 0.035 s instead of 0.01 s"
    )
    slower = Revised(1, 2, 3, 0.1, 0.2, 100, 4.0, 2.5)
    assert str(slower) == (
        "the plan is revised at step 1: 2 steps instead of 3, since a validation takes 4 s instead of 2.5 s; "
        "validations translate 100 sentences"
    ), "steps became faster, so that they are not the reason"


class _Clock:
    """A clock by which each update takes a second, and that the deadline of the training loop does not know."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def passing(self, event: Event) -> Event:
        self.now += isinstance(event, Step)
        return event


@pytest.fixture
def slow(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Recipe, TrainingOptions, _Clock]]:
    """A run of 1,000 steps that were planned for 100 seconds, of which each takes a second."""

    def slow(*, first_step: int = 1) -> tuple[Recipe, TrainingOptions, _Clock]:
        clock = _Clock()
        monkeypatch.setattr(revisions, "time", clock)
        recipe = tiny(
            {
                "training.steps": 1_000,
                "training.validate_every": 50,
                "training.warmup": 100,
                "training.schedule": "cosine",
            }
        )
        data = {"train": [NamedCorpus(name="copy"), NamedCorpus(name="copy", first_step=first_step)]}
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update=data)})
        event = Fitted(0, 2.0, 1_000, 1_000, 0.1, 20, 0.0, 100.0)

        def fit(run: NewRun) -> FittedRun:
            return FittedRun(run.recipe, event, 100.0)

        return recipe, TrainingOptions(fit=fit), clock

    # The loop's own deadline is far away: what ends the run is its plan.
    monkeypatch.setattr("weft.training.trainer.Trainer._stop_reason", _by_steps)
    return slow


def _by_steps(trainer: Any) -> str:
    return trainer.progress.stop_reason(trainer.settings)


def _run(recipe: Recipe, options: TrainingOptions, clock: _Clock, folder: Path) -> list[Event]:
    with closing(train_revised(recipe, folder, options)) as events:
        return [clock.passing(event) for event in events]


@pytest.mark.parametrize(("share", "steps"), [(800.0, 765), (500.0, 475), (400.0, 545), (150.0, 545)])
def test_one_of_several_models_keeps_to_its_share(slow: Any, tmp_path: Path, share: float, steps: int) -> None:
    """Each step takes ten times as long as planned; where a share is too short for a model, it is one of two."""
    recipe, options, clock = slow()
    event = Fitted(0, 33.0, 1_000, 900, 0.1, 20, 0.0, 100.0, share_seconds=share)
    options = options._replace(fit=lambda run: FittedRun(run.recipe, event, 2_000.0))
    events = _run(recipe, options, clock, tmp_path / "run")
    first = next(event for event in events if isinstance(event, Revised))
    plan = [event for event in events if isinstance(event, Fitted)][-1]
    finished = events[-1]
    assert isinstance(finished, Finished) and finished.step == pytest.approx(steps, abs=30)
    of_two = pytest.approx(2_000.0 / 3.5, abs=1.0)
    assert first.step <= 251 and plan.share_seconds == (share if share > 450.0 else of_two)


def test_a_model_that_is_too_slow_for_two_has_all_of_the_time(slow: Any, tmp_path: Path) -> None:
    recipe, options, clock = slow()
    event = Fitted(0, 25.0, 1_000, 900, 0.1, 20, 0.0, 100.0, share_seconds=300.0)
    options = options._replace(fit=lambda run: FittedRun(run.recipe, event, 1_500.0))
    events = _run(recipe, options, clock, tmp_path / "run")
    plan = [event for event in events if isinstance(event, Fitted)][-1]
    finished = events[-1]
    assert isinstance(finished, Finished) and finished.step == pytest.approx(1_430, abs=60)
    assert plan.share_seconds is None


def test_a_run_that_was_measured_ten_times_too_slow_is_extended(slow: Any, tmp_path: Path) -> None:
    """By a quarter of its steps, not of its time, when it would have ended."""
    recipe, options, clock = slow()
    planned = {"steps": 100, "validate_every": 5, "warmup": 10}
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update=planned)})
    event = Fitted(0, 16.0, 100, 1_000, 10.0, 20, 0.0, 960.0)
    options = options._replace(fit=lambda run: FittedRun(run.recipe, event, 960.0))
    events = _run(recipe, options, clock, tmp_path / "run")
    first = next(event for event in events if isinstance(event, Revised))
    assert 25 <= first.step <= 27 and first.planned_steps == 100
    finished = events[-1]
    assert isinstance(finished, Finished) and finished.step == pytest.approx(900, abs=60)


def test_a_run_that_became_slower_ends_its_schedule_in_time(slow: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    recipe, options, clock = slow()
    events = _run(recipe, options, clock, folder)
    revised = [event for event in events if isinstance(event, Revised)]
    assert 1 <= len(revised) <= MAX_REVISIONS
    assert revised[0].planned_steps == 1_000 and revised[0].planned_step_seconds == 0.1
    assert 25 <= revised[0].step <= 27 and 0.9 <= revised[0].step_seconds <= 1.1
    finished = events[-1]
    assert isinstance(finished, Finished) and finished.reason == "steps"
    assert 90 <= finished.step == revised[-1].steps <= 101
    assert sum(isinstance(event, Started) for event in events) == 1, "it is one run"
    assert [event.steps for event in events if isinstance(event, Fitted)] == [1_000, *(each.steps for each in revised)]
    steps = [event for event in events if isinstance(event, Step)]
    assert [event.step for event in steps] == [*range(1, finished.step + 1)], "no update is made twice, or left out"
    assert steps[-1].learning_rate < 0.1 * max(event.learning_rate for event in steps), "it has decayed"
    saved = weft.load_recipe(folder / "recipe.toml").training
    assert (saved.steps, saved.warmup) == (finished.step, steps_of_warmup(finished.step))
    logged = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    assert [line for line in logged if line["event"] == "revised"] == [event.record() for event in revised]
    assert isinstance(weft.load(folder).translate("a b").text, str)


def steps_of_warmup(steps: int) -> int:
    return max(round(100 * steps / 1_000), min(100, 100, steps // 5))


def test_a_run_that_became_faster_uses_the_time(slow: Any, tmp_path: Path) -> None:
    recipe, options, clock = slow()
    settings = recipe.training.model_copy(update={"steps": 40, "validate_every": 10, "warmup": 8})
    planned = Fitted(0, 2.0, 40, 1_000, 2.4, 4, 0.0, 100.0)

    def fit(run: NewRun) -> FittedRun:
        return FittedRun(run.recipe.model_copy(update={"training": settings}), planned, 100.0)

    events = _run(recipe, options._replace(fit=fit), clock, tmp_path / "run")
    [revised] = [event for event in events if isinstance(event, Revised)]
    assert revised.planned_steps == 40 and revised.steps > 85
    assert isinstance(events[-1], Finished) and events[-1].step == revised.steps <= 101
    steps = [event.step for event in events if isinstance(event, Step)]
    assert steps == [*range(1, revised.steps + 1)]
    assert weft.load_recipe(tmp_path / "run" / "recipe.toml").training.steps == revised.steps


def test_the_run_can_be_resumed_wherever_it_is_left(slow: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    recipe, options, clock = slow()
    with closing(train_revised(recipe, folder, options)) as events:
        for event in events:
            clock.passing(event)
            if isinstance(event, Revised):
                break
    assert isinstance(event, Revised)
    saved = weft.load_recipe(folder / "recipe.toml")
    assert saved.training.steps == event.steps
    assert Path(saved.data.folder) == Path.cwd(), "as it was when training began"
    finished = [*train_revised(saved, folder, TrainingOptions(resume=True))][-1]
    assert isinstance(finished, Finished) and finished.step == event.steps


def test_a_corpus_that_begins_later_is_not_left_out(slow: Any, tmp_path: Path) -> None:
    recipe, options, clock = slow(first_step=150)
    with closing(train_revised(recipe, tmp_path / "run", options)) as events:
        for event in events:
            assert not isinstance(clock.passing(event), Revised)
            if event.step == 110:
                break


def test_without_a_time_limit_there_is_no_plan(tiny: Tiny, tmp_path: Path) -> None:
    recipe = tiny({"training.steps": 30, "training.validate_every": 0})
    events = [*train_revised(recipe, tmp_path / "run", TrainingOptions())]
    assert not any(isinstance(event, Revised | Fitted) for event in events)


class _Plan:
    """A plan of 400 s at 6 ms an update, as of Multi30k, where updates take longer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = _Clock()
        monkeypatch.setattr(revisions, "time", self.clock)
        self.recipe = weft.load_recipe("multi30k-transformer")
        changes = {"steps": 8_500, "validate_every": 425, "warmup": 850, "valid_sentences": 1_000, "patience": 10}
        settings = self.recipe.training.model_copy(update=changes)
        self.speed = Speed(step=0.006, startup=8.0, loss=0.3, sentence=0.0012)
        divided = lengthened(settings, self.speed, 385.0, 1_000)
        self.fitted = fit_settings(divided.settings, self.speed, 385.0, 1_000)
        self.settings, self.models, self.share = self.fitted.settings, divided.models, divided.share(385.0)

    def train(self, step_seconds: float, share: float | None, recipe_steps: int) -> float:
        """Train a model by the plan, and with its revision; returns how long that took."""
        options: Any = None
        plan, start = revisions.PlannedTraining(options), self.clock.now
        counts = self.settings.steps, recipe_steps, self.speed.step, self.fitted.validations
        event = Fitted(0, 6.7, *counts, self.fitted.validation_seconds, 0.0, share_seconds=share)
        recipe = self.recipe.model_copy(update={"training": self.settings})
        plan.fitted, plan.start = FittedRun(recipe, event, 385.0), start
        observed, step = ObservedPace(), 0
        while step < self.settings.steps and self.clock.now < 385.0:
            step += 1
            self.clock.now += step_seconds
            observed.add(_step(step))
            if (revision := plan.revision(step, observed)) is not None:
                plan.fitted, observed = revision.fitted, ObservedPace()
                plan.revisions, self.settings = plan.revisions + 1, revision.fitted.recipe.training
            if step % self.settings.validate_every == 0:
                self.clock.now += 1.6
                observed.add(Validation(step, 1.0, 1.0, outputs=1_000))
        self.clock.now += 2 * 1.6
        return self.clock.now - start


@pytest.mark.parametrize("second", [0.014, 0.02])
def test_two_models_that_are_slower_than_planned_leave_their_student_its_share(
    monkeypatch: pytest.MonkeyPatch, second: float
) -> None:
    """Before, the student had 90 s of 170: the first model took what it needed at the speed that was observed."""
    plan = _Plan(monkeypatch)
    assert plan.models == 2 and plan.share == pytest.approx(110.0)
    first = plan.train(0.014, plan.share, 8_500)
    assert 0.5 * 8_500 <= plan.settings.steps < 8_500 and first <= 110.0
    assert plan.train(second, MODEL_SAFETY * first, 0) <= 1.08 * first
    assert 385.0 - plan.clock.now >= 0.95 * DISTILLATION * 110.0
