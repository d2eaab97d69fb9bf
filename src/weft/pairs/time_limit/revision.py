"""Training within a time limit whose plan is revised as its speed is observed.

A plan is made at a speed that was measured on a few updates. If the machine becomes slower, the run would end at its
limit in the middle of its schedule, with a learning rate that has hardly decayed; if it becomes faster, time would be
left. So the speed is observed, and if the planned steps do not fit, or leave much of the time, training ends at a
checkpoint and is resumed with steps, warmup and validations that fit. The run folder is a run that can be loaded and
resumed at every moment.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from weft.data.preparation import PreparedCorpus
from weft.pairs.time_limit.budget import (
    DISTILLATION,
    GOOD_VALIDATIONS,
    MAX_LENGTHENING,
    MIN_SENTENCES,
    SAFETY,
    SHORTEST_OBSERVED,
    VALIDATION_SHARE,
    fit_warmup,
    whole_intervals,
)
from weft.recipe import Recipe, TrainingSettings, load_recipe
from weft.recipe.data import as_list
from weft.runs.layout import RunFolder
from weft.training import train as core
from weft.training.events import Event, Fitted, Started, Step, Validation
from weft.training.train import Events, FittedRun, NewRun, TrainingOptions

CHECKS = (0.25, 0.5, 0.75)
"""The plan is compared with the observed speed when these fractions of the time have passed, or of the steps are
done: a run that was measured at a tenth of its speed ends before a quarter of the time."""
MAX_REVISIONS = 2
TOLERANCE = 1.05
"""A plan may take this many times what is left of the time: what it lacks is a few steps at the end of the schedule."""
SPARE = 0.8
"""A plan that takes less than this share of what is left of the time is extended, if it has fewer steps than wanted."""
SKIPPED_STEPS = 5
"""The first updates of a process are not observed: kernels are compiled and memory is allocated."""
MIN_OBSERVED = 20
"""Updates on which a revision is based."""


@dataclass(frozen=True)
class Revised(Event):
    """The planned steps did not fit into the time, or left much of it; the run continues with fewer, or with more.

    The event `Fitted` of the new plan follows.
    """

    steps: int
    planned_steps: int
    """Steps of the plan before this one."""
    step_seconds: float
    """As observed."""
    planned_step_seconds: float
    valid_sentences: int | None = None
    """Sentences that each validation translates from now on, if they are not as many as before."""
    validation_seconds: float = 0.0
    """As observed, with as many sentences as before."""
    planned_validation_seconds: float = 0.0

    def __str__(self) -> str:
        changes = []
        if self.steps != self.planned_steps:
            what, seconds, planned = "step", self.step_seconds, self.planned_step_seconds
            if (self.steps < self.planned_steps) != (seconds > planned):
                what, seconds, planned = "validation", self.validation_seconds, self.planned_validation_seconds
            reason = f"since a {what} takes {seconds:.3g} s instead of {planned:.3g} s"
            changes.append(f"{self.steps:,} steps instead of {self.planned_steps:,}, {reason}")
        if self.valid_sentences is not None:
            changes.append(f"validations translate {self.valid_sentences:,} sentences")
        return f"the plan is revised at step {self.step:,}: {'; '.join(changes)}"


class Pace(NamedTuple):
    """Seconds of an update and of a validation, as observed."""

    step: float
    validation: float
    sentences: int = 0
    """Sentences that a validation translates; 0: none, or not observed."""

    def with_sentences(self, sentences: int) -> Pace:
        """With validations of other sentences; the time is taken to be in proportion to them."""
        return Pace(self.step, self.validation * sentences / self.sentences, sentences)


class ObservedPace:
    """The speed of a run, from the moments at which its events arrive."""

    def __init__(self) -> None:
        self.last = time.monotonic()
        self.skipped = self.steps = self.validations = 0
        self.step_seconds = self.validation_seconds = 0.0
        self.sentences = 0

    def add(self, event: Event) -> None:
        now = time.monotonic()
        seconds, self.last = now - self.last, now
        if isinstance(event, Validation):
            self.validations += 1
            self.validation_seconds += seconds
            self.sentences = event.outputs
        elif self.skipped < SKIPPED_STEPS:
            self.skipped += isinstance(event, Step)
        else:  # saving a checkpoint is counted among the updates
            self.steps += isinstance(event, Step)
            self.step_seconds += seconds

    def pace(self, planned: Fitted) -> Pace | None:
        """None before there were enough updates. As long as there was no validation, it takes as long as planned."""
        if self.steps < MIN_OBSERVED:
            return None
        validation = self.validation_seconds / self.validations if self.validations else planned.validation_seconds
        return Pace(self.step_seconds / self.steps, validation, self.sentences)


def revise_settings(
    settings: TrainingSettings, step: int, pace: Pace, seconds: float, *, most_steps: int = 0
) -> TrainingSettings | None:
    """Settings of a run at a step that has some seconds left; None if what it still has to do fits into them.

    Validations are as many as were left, up to `GOOD_VALIDATIONS` with fewer sentences if they take too long, as in
    the first plan; with `MIN_SENTENCES` if they had less, and a trained model translates them in a part of that time.
    ``most_steps``: the steps up to which the run is extended, if much of the time would be left.
    """
    every = settings.validate_every if pace.validation else 0
    validations = settings.steps // every - step // every if every else 0
    planned = SAFETY * seconds
    changes = {}
    if 0 < pace.sentences == settings.valid_sentences < MIN_SENTENCES and validations:
        usual = pace.with_sentences(MIN_SENTENCES)
        if validations * usual.validation <= VALIDATION_SHARE * planned:
            pace, changes = usual, {"valid_sentences": MIN_SENTENCES}
    needed = (settings.steps - step) * pace.step + validations * pace.validation
    extends = needed < SPARE * planned and step < settings.steps < most_steps
    if needed <= TOLERANCE * seconds and not extends:
        return settings.model_copy(update=changes) if changes else None
    if validations:
        validations = max(validations, GOOD_VALIDATIONS) if extends else validations
        share = VALIDATION_SHARE * planned
        shorter = _with_fewer_sentences(pace, share / min(validations, GOOD_VALIDATIONS))
        if shorter != pace:
            changes["valid_sentences"] = shorter.sentences
        pace, validations = shorter, min(validations, max(int(share / shorter.validation), 1))
    further = int((planned - validations * pace.validation) / pace.step)
    further = min(further, most_steps - step) if extends else further
    if further < 1:
        return None
    steps = step + further
    if validations:
        steps, every = whole_intervals(steps, max(round(steps * validations / further), 1))
        changes["validate_every"] = every
    if steps <= step or (steps > settings.steps) is not extends or steps == settings.steps:
        return None
    changes |= {"steps": steps, "warmup": fit_warmup(settings, steps), "save_every": min(settings.save_every, steps)}
    return settings.model_copy(update=changes)


def _with_fewer_sentences(pace: Pace, seconds: float) -> Pace:
    """The pace if each validation takes at most these seconds, with `MIN_SENTENCES` at least."""
    if pace.validation <= seconds or pace.sentences <= MIN_SENTENCES:
        return pace
    return pace.with_sentences(max(int(pace.sentences * seconds / pace.validation), MIN_SENTENCES))


class Revision(NamedTuple):
    """A revised plan, and the event that reports it."""

    fitted: FittedRun
    event: Revised


def train_revised(recipe: Recipe, folder: Path, options: TrainingOptions, lengthening: float = 1.0) -> Events:
    """The events of `weft.training.train.train_with`, with a `Revised` event wherever the plan is revised.

    ``lengthening``: how many times the steps of the recipe a run may have if it is faster than planned.

    Without ``options.fit`` there is no plan; nor is one revised that several processes, or a user's own model, train.
    """
    if options.fit is None or options.model is not None or options.workers.world_size > 1:
        yield from core.train_with(recipe, folder, options)
        return
    plan = PlannedTraining(options, lengthening)
    revision = yield from plan.train(recipe, folder, options._replace(fit=plan.fit))
    while revision is not None:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        recipe = load_recipe(RunFolder(folder).recipe)
        revision = yield from plan.train(recipe, folder, plan.resumption(revision), revision.event)


class PlannedTraining:
    """A training whose plan is compared with its speed, and what a resumption in the same process needs."""

    def __init__(self, options: TrainingOptions, lengthening: float = 1.0) -> None:
        self.options = options
        self.lengthening = lengthening
        self.fitted: FittedRun | None = None
        self.prepared: PreparedCorpus | None = None
        self.start = 0.0
        self.checks = list(CHECKS)
        self.revisions = 0

    def fit(self, run: NewRun) -> FittedRun:
        assert self.options.fit is not None
        self.fitted = self.options.fit(run)
        self.prepared = None if run.recipe.data.streaming else run.prepared
        self.start = time.monotonic()
        return self.fitted

    def resumption(self, revision: Revision) -> TrainingOptions:
        """The options of the training that continues with a revised plan."""
        self.fitted, prepared = revision.fitted, self.prepared
        self.revisions += 1
        options = self.options._replace(resume=True, fit=lambda _: revision.fitted)
        return options if prepared is None else options._replace(prepare=lambda *_, **__: prepared)

    def train(
        self, recipe: Recipe, folder: Path, options: TrainingOptions, revised: Revised | None = None
    ) -> Generator[Event, None, Revision | None]:
        """Train to the end, or until the plan is to be revised; returns the new one then.

        ``revised``: passed on in place of the `Started` event, which belongs to the same run.
        """
        observed = ObservedPace()
        with closing(core.train_with(recipe, folder, options)) as events:
            for event in events:
                if isinstance(event, Started) and revised is not None:
                    RunFolder(folder).append_log(revised.record())
                    event = revised
                yield event
                observed.add(event)
                if isinstance(event, Step) and (revision := self.revision(event.step, observed)) is not None:
                    return revision
        return None

    def revision(self, step: int, observed: ObservedPace) -> Revision | None:
        """The revised plan, if it is time to compare it with the observed speed, and it does not fit the time."""
        if self.fitted is None or self.revisions == MAX_REVISIONS:
            return None
        recipe, event, deadline = self.fitted
        now, training = time.monotonic(), recipe.training
        pace = observed.pace(event)
        if pace is None or not self._is_due(now, self._end(deadline), step / training.steps):
            return None
        closing_validations = 2 if training.averages else 1
        closing_seconds = max(pace.validation - event.validation_seconds, 0.0) * closing_validations
        deadline -= closing_seconds
        settings = self._settings(step, pace, deadline)
        event = self.fitted.event
        if settings is None or settings.steps < max(
            getattr(corpus, "first_step", 1) for corpus in as_list(recipe.data.train)
        ):
            return None
        changed = settings.valid_sentences if settings.valid_sentences != training.valid_sentences else None
        observed_validation = pace.validation
        pace, every = pace if changed is None else pace.with_sentences(changed), settings.validate_every
        fitted = replace(
            event,
            step=step,
            steps=settings.steps,
            step_seconds=pace.step,
            validations=settings.steps // every - step // every if every and event.validations else 0,
            validation_seconds=pace.validation,
            seconds=self._end(deadline) - now,
            closing_seconds=event.closing_seconds + closing_seconds,
        )
        revised = Revised(
            step,
            settings.steps,
            training.steps,
            pace.step,
            event.step_seconds,
            changed,
            observed_validation,
            event.validation_seconds,
        )
        return Revision(FittedRun(recipe.model_copy(update={"training": settings}), fitted, deadline), revised)

    def _settings(self, step: int, pace: Pace, deadline: float) -> TrainingSettings | None:
        """Settings that fit; None if those there are do.

        One of several models keeps to its share or, if that is too short for it, to that of one of two; if that is too
        short as well, it has all of the time, alone.
        """
        assert self.fitted is not None
        event, training, now = self.fitted.event, self.fitted.recipe.training, time.monotonic()
        if event.share_seconds is None:
            most_steps = int(self.lengthening * event.recipe_steps)
            return revise_settings(training, step, pace, deadline - now, most_steps=most_steps)
        of_two = (deadline - self.start) / (2 + DISTILLATION)
        for share in (event.share_seconds, max(of_two, event.share_seconds)):
            self.fitted = self.fitted._replace(event=replace(event, share_seconds=share))
            left = self._end(deadline) - now - (2 if training.averages else 1) * pace.validation
            settings = revise_settings(training, step, pace, left, most_steps=event.recipe_steps)
            if settings is None or settings.steps >= SHORTEST_OBSERVED * event.recipe_steps:
                return settings
        self.fitted = self.fitted._replace(event=replace(event, share_seconds=None))
        alone = training.model_copy(update={"patience": 0})
        most_steps = int(MAX_LENGTHENING * event.recipe_steps)
        return revise_settings(alone, step, pace, deadline - now, most_steps=most_steps)

    def _end(self, deadline: float) -> float:
        """When the run is to end: one of several models before the time is up."""
        share = None if self.fitted is None else self.fitted.event.share_seconds
        return deadline if share is None else min(deadline, self.start + share)

    def _is_due(self, now: float, deadline: float, done: float) -> bool:
        """Whether a check is due, by the time or by the share of the steps that is done; it is done then."""
        passed = max((now - self.start) / max(deadline - self.start, 1e-9), done)
        is_due = bool(self.checks) and passed >= self.checks[0]
        self.checks = [check for check in self.checks if check > passed]
        return is_due
