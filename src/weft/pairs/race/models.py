"""The winner of a race in OUT, and further models of its recipe as long as a complete one fits; OUT has the best one.

Each further model has another seed, and is trained below OUT. If it is better on the validation set, the two exchange
their places, so that OUT is a complete run, and the best so far, from the end of the first training on.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from weft.errors import WeftError, warn
from weft.files import save_text
from weft.pairs.race.events import (
    Distilled,
    EnsembleScored,
    FurtherModelStarted,
    ModelScored,
    ProbeKept,
    RaceEvent,
    TimeUsed,
)
from weft.pairs.race.exchange import exchange, keep_weights
from weft.pairs.race.plan import MODEL_SAFETY, FurtherModel, TrainedModel, further_model
from weft.pairs.race.record import RaceRecord
from weft.pairs.race.scoring import is_better, score_runs
from weft.pairs.time_limit.budget import DISTILLATION, MAX_MODELS, TimeLimit
from weft.pairs.time_limit.fitting import EVALUATION_SAFETY, evaluation_reserve, fit_run
from weft.pairs.time_limit.revision import train_revised
from weft.pairs.train import PlannedRun, train_planned
from weft.recipe import Recipe, load_recipe
from weft.recipe.toml import leading_comments, with_comments
from weft.runs.layout import RunFolder
from weft.runs.locks import lock_run
from weft.runtime.activity import activity
from weft.training.events import Event, Finished, Fitted, Started, Step, Validation
from weft.training.train import Events, FittedRun, NewRun, TrainingOptions

FORMAL_METRIC = "token_match"
"""The metric of formal languages. On questions that are translated into SQL, students of two teachers were 2 to 4
points below them, and a model of twice the steps above (benchmarks/RESULTS.md)."""


class DistillationInputs(NamedTuple):
    """Models whose ensemble is better than the best of them: what a distillation into one model starts from."""

    folders: tuple[Path, ...]
    """Run folders with one tokenizer; the first is OUT, the best one."""
    out: Path
    """The run folder of the student; what its recipe names may be put beside it, as NAME.…"""
    limit: TimeLimit
    reserved: float
    """Seconds to be left at the end, for the evaluation."""


Distill = Callable[[DistillationInputs], Events]
"""Trains one model on what the ensemble of several predicts; it takes the place of the best one if it is better."""


class FurtherModels:
    """Further training in the time that is left after the first model: more models, their ensemble, its student."""

    def __init__(self, run: PlannedRun, options: TrainingOptions, record: RaceRecord, distill: Distill | None) -> None:
        assert run.limit is not None
        self.run = run
        self.limit = run.limit
        self.options = options
        self.record = record
        self.metric = run.recipe.training.metric
        self.by_length = run.recipe.training.choose == "last"
        """Whether the model that was trained the longest is the best, since validation pairs cannot tell."""
        poor_students = run.recipe.model.copies or self.metric == FORMAL_METRIC
        self.distill = None if poor_students else distill
        self.planned = 1 if poor_students or self.by_length else MAX_MODELS
        """The number of models that the time is divided among: one where students are poor, those of models that copy
        and those of formal languages."""
        self.models: list[TrainedModel] = []
        self.folders = [run.folder]
        """Run folders of the models, the best one first."""
        self.fitted: Fitted | None = None
        self.recipe_steps = 0
        """Steps of the recipe, before they were fitted to the time."""
        self.item_seconds = 0.0
        """Estimated time per test item, from the validations so far."""
        self.step = 0
        """The last step of the first model."""

    def events(self) -> Generator[Event, None, None]:
        """Train the run, and further models of its recipe."""
        start = time.monotonic()
        finished: Finished | None = None
        training = train_planned(self.run, self.options, models=self.planned, observed=self.record.speed)
        with closing(training) as events:
            for event in self._observed(events):
                if isinstance(event, Started):
                    self.record.move_into_run()
                elif isinstance(event, Finished):
                    finished, self.step = event, event.step
                    self._annotate_card(self.run.folder)
                yield event
        if finished is None or self.fitted is None:
            return
        self.recipe_steps = self.fitted.recipe_steps
        yield from self._compare_with_probe(finished)
        self.models = [self._model(self.run.recipe.seed, finished, start, None)]
        following = self._next()
        if following.reason is None:
            value = score_runs([self.run.folder], self.run.recipe)
            self.models = [self._model(self.run.recipe.seed, finished, start, value)]
            if value is None:
                following = FurtherModel(reason="no validation score tells which of several models is the best")
            else:
                yield self._logged(self._scored(self.models[0], chosen=True))
        while following.reason is None:
            yield from self._train_further(refits=following.refits)
            following = self._next()
        yield from self._combine()
        self._finish()
        yield self._logged(self._time_used(following.reason))

    def _compare_with_probe(self, finished: Finished) -> Generator[RaceEvent, None, None]:
        """Keep the model of the race if the machine has become so slow that the winner had fewer steps and is worse."""
        out, probe = self.run.folder, self.record.probe
        if not probe.is_dir():
            return
        probe_steps = self.record.content["probes"][self.record.content["winner"]]["step"]
        if finished.step < probe_steps and _tokenizers(out) == _tokenizers(probe):
            value, other = (score_runs([folder], self.run.recipe) for folder in (probe, out))
            if is_better(value, other, self.metric):
                self._add_comments(probe, f"steps: those of the race ({probe_steps:,}; there was no time for more)")
                with lock_run(out):
                    exchange(out, probe)
                yield self._logged(ProbeKept(self.step, self.metric, value, other))
        shutil.rmtree(probe, ignore_errors=True)

    def _next(self) -> FurtherModel:
        """Whether a further model fits; if models are distilled into one, time is kept for that."""
        seconds = self._left()
        if self.distill is not None and len(self.models) > 1:
            seconds -= DISTILLATION * max(model.seconds for model in self.models)
        return further_model(self.models, seconds, only_longer=self.by_length)

    def _train_further(self, *, refits: bool) -> Generator[RaceEvent, None, None]:
        """One more model, which takes the place of the best one if it is better."""
        start, number = time.monotonic(), len(self.models) + 1
        recipe = load_recipe(self.run.folder / "recipe.toml")
        if refits:
            recipe = recipe.model_copy(update={"training": self.run.recipe.training})
        recipe = recipe.model_copy(update={"seed": self.run.recipe.seed + number - 1})
        folder = self.run.folder / "race" / f"model-{number}"
        yield self._logged(FurtherModelStarted(self.step, recipe.seed, self._left(), refits))
        try:
            finished = self._train_quietly(recipe, folder, refits=refits)
            value = score_runs([folder], self.run.recipe)
            if self.by_length:
                chosen = finished.step > max(model.steps for model in self.models)
            else:
                chosen = is_better(value, max_value(self.models, self.metric), self.metric)
            self._add_comments(folder, f"seed: {recipe.seed} (the best of {number} on the validation set)")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if chosen:
            with lock_run(self.run.folder):
                exchange(self.run.folder, folder)
        self.folders.append(folder)
        self.models.append(self._model(recipe.seed, finished, start, value))
        yield self._logged(self._scored(self.models[-1], chosen=chosen))

    def _train_quietly(self, recipe: Recipe, folder: Path, *, refits: bool) -> Finished:
        """Train a further model without reporting its events."""
        assert self.fitted is not None
        event = replace(self.fitted, steps=recipe.training.steps, recipe_steps=0, share_seconds=self._share())
        deadline = self.limit.end - self._reserved()[0] - self.fitted.validation_seconds
        fit: Callable[[NewRun], FittedRun] = lambda new: FittedRun(new.recipe, event, deadline)  # noqa: E731
        if refits:
            fit = partial(fit_run, limit=self.limit, models=self.planned, fits_batch=self.run.fits_batch)
        shutil.rmtree(folder, ignore_errors=True)
        options = self.options._replace(resume=False, fit=fit)
        with (
            activity(f"training a model of seed {recipe.seed}", "steps", total=recipe.training.steps) as training,
            closing(train_revised(recipe, folder, options)) as events,
        ):
            for passed in self._observed(events):
                training.done = passed.step if isinstance(passed, Step) else training.done
        assert isinstance(passed, Finished)
        return passed

    def _share(self) -> float | None:
        """Seconds in which a further model is trained, as the others were, so that its student keeps its time.

        Its plan has no steps of a recipe to be extended to, or to be too short for: it is revised to end in time.
        """
        if self.distill is None:
            return None
        return MODEL_SAFETY * max(model.training_seconds for model in self.models)

    def _observed(self, events: Events) -> Events:
        """Pass events on, and estimate from the validations how long the evaluation will take."""
        start = time.monotonic()
        for event in events:
            if isinstance(event, Fitted):
                self.fitted, self.item_seconds = event, event.item_seconds
            elif isinstance(event, Validation) and event.outputs:
                self.item_seconds = EVALUATION_SAFETY * (time.monotonic() - start) / event.outputs
            yield event
            start = time.monotonic()

    def _model(self, seed: int, finished: Finished, start: float, value: float | None) -> TrainedModel:
        other = time.monotonic() - start - finished.seconds
        return TrainedModel(seed, finished.step, self.recipe_steps, finished.seconds, max(other, 0.0), value)

    def _combine(self) -> Generator[Event, None, None]:
        """The ensemble of all models on the validation set, and one model that is distilled from it.

        The ensemble is compared with the mean of its members, not with the best of them, which was chosen on the same
        items. A student is trained whatever the ensemble has reached: there is no better use for the time, and the
        validation set decides about it. In four of five races it was better there than the best of its teachers.
        """
        metric, best = self.metric, max_value(self.models, self.metric)
        if len(self.models) < 2 or best is None or self.by_length or self._left() < 0:
            return
        value = score_runs(self.folders, self.run.recipe)
        if value is None:
            return
        mean = fmean(model.value for model in self.models if model.value is not None)
        better = is_better(value, mean, metric)
        members = tuple(map(str, self.folders))
        self.record.content["ensemble"] = {"value": value, "members": list(members)}
        yield self._logged(EnsembleScored(self.step, metric, value, mean, members, better))
        if self.distill is not None:
            yield from self._distill(self.distill, expected_value(mean, best))
        if not better:
            self._remove_further()

    def _distill(self, distill: Distill, expected: float) -> Generator[Event, None, None]:
        """Train a student of the ensemble; it is the run if it is better than what the best model promises alone."""
        run = self.run
        student = run.folder / "race" / "distilled"
        teachers = DistillationInputs(tuple(self.folders), student, self.limit, self._reserved()[0])
        try:
            with (
                activity("training a student of the ensemble", "steps") as training,
                closing(distill(teachers)) as events,
            ):
                for event in events:
                    training.done = event.step if isinstance(event, Step) else training.done
        except WeftError as error:  # the best model alone is complete
            warn(f"the ensemble is not distilled: {error}")
        except BaseException:
            shutil.rmtree(student, ignore_errors=True)
            raise
        value = score_runs([student], run.recipe) if (student / "recipe.toml").is_file() else None
        chosen = is_better(value, expected, self.metric)
        if chosen:
            reason = f"distilled from an ensemble of {len(self.folders)} models"
            self._add_comments(student, reason, replaced=("seed: ", "steps: ", "variants: "))
            with lock_run(run.folder):
                exchange(run.folder, student)
        for folder in student.parent.glob(student.name if chosen else f"{student.name}*"):
            shutil.rmtree(folder, ignore_errors=True)
        self.record.content["distilled"] = value
        yield self._logged(Distilled(self.step, self.metric, value, expected, chosen))

    def _finish(self) -> None:
        """Write what was decided; of further models only the weights are kept, for an ensemble that is better."""
        models = [{"seed": model.seed, "seconds": model.seconds, "value": model.value} for model in self.models]
        self.record.content["models"] = models
        self.record.save_in_run()
        for folder in self.folders[1:]:
            if folder.is_dir():
                keep_weights(folder)

    def _remove_further(self) -> None:
        for folder in self.folders[1:]:
            shutil.rmtree(folder, ignore_errors=True)

    def _reserved(self) -> tuple[float, int | None]:
        """Seconds for the evaluation on the test set, and how many items of it."""
        return evaluation_reserve(self.run.recipe, self.limit, self.item_seconds)

    def _left(self) -> float:
        """Seconds until the time that is reserved for the evaluation."""
        return self.limit.remaining() - self._reserved()[0]

    def _scored(self, model: TrainedModel, *, chosen: bool) -> ModelScored:
        return ModelScored(self.step, model.seed, self.metric, model.value, chosen, model.seconds)

    def _time_used(self, reason: str) -> TimeUsed:
        limit, (_, items) = self.limit, self._reserved()
        used = limit.minutes - limit.remaining() / 60
        text = f"{reason}; {max(self._left(), 0.0) / 60:.1f} min are left"
        return TimeUsed(self.step, limit.minutes, used, text, items, self.item_seconds)

    def _logged(self, event: RaceEvent) -> RaceEvent:
        RunFolder(self.run.folder).append_log(event.record())
        return event

    def _add_comments(self, folder: Path, reason: str, replaced: tuple[str, ...] = ("seed: ",)) -> None:
        """The head of the recipe of a further model: that of the first one, and why it is the run."""
        comments = leading_comments((self.run.folder / "recipe.toml").read_text("utf-8"))
        comments = [line for line in comments if not line.startswith(replaced)]
        path = folder / "recipe.toml"
        save_text(path, with_comments(path.read_text("utf-8"), [*comments, reason]))
        self._annotate_card(folder)

    def _annotate_card(self, folder: Path) -> None:
        """The model card names what was raced."""
        card, lines = RunFolder(folder).card, [line for line in self.run.comments if line.startswith("race: ")]
        if lines and card.is_file():
            text = card.read_text("utf-8")
            save_text(card, text.replace("\n- seed: ", f"\n- {lines[0]}\n- seed: ", 1))


def _tokenizers(folder: Path) -> list[bytes]:
    """The contents of the tokenizer files of a run."""
    return [path.read_bytes() for path in RunFolder(folder).tokenizer_paths()]


def expected_value(mean: float, best: float) -> float:
    """The expected score of the best of several models on other items: its lead over their mean is partly luck.

    Models of different seeds differ by a point or less, and so does chance on a thousand validation items: on average
    half of the lead is real there, and less of it with fewer items. A student, of which there is one, has no such luck.
    """
    return (mean + best) / 2


def max_value(models: Sequence[TrainedModel], metric: str) -> float | None:
    """The best value of several models."""
    best: float | None = None
    for model in models:
        best = model.value if is_better(model.value, best, metric) else best
    return best
