"""`weft.train`: from a recipe, its name or pairs to a run folder; what ``weft train`` does.

    for event in weft.train("pairs.tsv", "runs/mine", minutes=10):
        print(event)

`weft.training.train` trains a recipe. Here is what surrounds it: which recipe it is, its reasons at the head of
RUN/recipe.toml, the time limit, and the result on the test set.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from weft.data.preparation import Transform, check_files, check_test_pairs
from weft.errors import WeftError, warn
from weft.evaluation.calibrate import LIMIT
from weft.files import save_text
from weft.models.interface import Model
from weft.pairs.outcome import RunOutcome, calibrate_run, evaluate_run
from weft.pairs.race.events import TimeUsed
from weft.pairs.race.record import RaceRecord
from weft.pairs.recommendation.proposals import CandidateRecipe
from weft.pairs.request import TrainingRequest
from weft.pairs.source import GivenPairs, as_source, check_unused
from weft.pairs.state_index import keep_states
from weft.pairs.time_limit.budget import MAX_LENGTHENING, Speed, TimeLimit
from weft.pairs.time_limit.fitting import evaluation_items_within, fit_run
from weft.pairs.time_limit.revision import train_revised
from weft.recipe import Recipe, parse_change
from weft.recipe.toml import with_comments, without_comments
from weft.runs.layout import RunFolder
from weft.runs.model_card import with_facts
from weft.training.distributed import SINGLE_PROCESS, Workers
from weft.training.events import Event, Finished, Fitted, Started
from weft.training.train import Events, TrainingOptions

MIN_CALIBRATION = 200
"""Validation pairs that a run is calibrated with even if its time is up."""


class PlannedRun(NamedTuple):
    """A run that is about to be trained."""

    recipe: Recipe
    folder: Path
    resume: bool = False
    limit: TimeLimit | None = None
    evaluates: bool = False
    """Whether it is evaluated on the test set at the end."""
    comments: tuple[str, ...] = ()
    """For the head of RUN/recipe.toml."""
    accept_new_data: bool = False
    candidates: tuple[CandidateRecipe, ...] = ()
    """Recipes that the time limit is to decide between and to be used up with; the first is ``recipe``."""
    fits_batch: bool = False
    """Whether batches may be smaller than recommended, if only a part of the steps fits into the time."""

    def evaluation_items(self, plan: Fitted | TimeUsed | None) -> int | None:
        """How many items of the test set there is time to evaluate now; None: all.

        ``plan``: the last event that says how long an item takes.
        """
        if plan is None or self.limit is None:
            return None
        return evaluation_items_within(self.recipe, plan, self.limit.remaining())

    def calibration_items(self, plan: Fitted | TimeUsed | None) -> int | None:
        """How many validation pairs there is time to calibrate the run with now; None: as many as usual."""
        if self.limit is None:
            return None
        item_seconds = None if plan is None else plan.item_seconds
        affordable = int(self.limit.remaining() / item_seconds) if item_seconds else MIN_CALIBRATION
        return max(MIN_CALIBRATION, min(affordable, LIMIT))


@dataclass(frozen=True)
class Evaluated(Event):
    """The finished run on its test set: the last event of training on pairs or within a time limit."""

    outcome: RunOutcome

    def __str__(self) -> str:
        return f"{type(self).__name__} at step {self.step}:\n{self.outcome}"


def train(
    recipe: Recipe | GivenPairs,
    out: Path | str | None = None,
    *,
    minutes: float | None = None,
    like: str | None = None,
    columns: tuple[str | int, str | int] | None = None,
    changes: Sequence[str] | str = (),
    start: Path | str | None = None,
    evaluate: bool | None = None,
    resume: bool = False,
    accept_new_data: bool = False,
    model: Model | None = None,
    transforms: Transform | Sequence[Transform] = (),
) -> Events:
    """Train a model; every event is logged to the run folder and yielded.

        for event in weft.train("pairs.tsv", "runs/mine", minutes=10):
            print(event)
        for event in weft.train(weft.load_recipe("grammar"), "runs/grammar"):
            print(event)

    ``recipe``: a recipe, its name or its TOML file; or pairs, for which a recipe is chosen (`weft.recommend` shows it):
    a file, a folder with train, valid and test, a tuple of two parallel files, or a list of pairs, which is saved
    beside the run folder. ``out``: the run folder, by default runs/NAME.
    ``minutes``: a time limit. Steps, warmup and the interval of validations are fitted to it by the measured speed, and
    the recipe in the run folder has the new numbers. They are fitted again, with a `Revised` event, if the machine
    becomes slower or faster; ``Finished.reason`` is "time" if that was not enough. With pairs, networks of different
    kinds race first, and the winner has the rest of the time (`weft.pairs.race`).

    For pairs: ``columns``, those of the source and the target, by name or number; ``like``, a recipe whose settings are
    used with them. For pairs or the name of a recipe: ``changes``, such as "training.steps=500"; ``start``, a run whose
    weights, model and tokenizer training starts from.

    ``evaluate``: end with an `Evaluated` event, the result on the test set; by default so for pairs and with
    ``minutes``, which include it.

    Ctrl-C, SIGTERM and SIGHUP take effect after the current step, when a checkpoint is saved; so does closing this
    generator (a ``break`` in the loop over it). ``resume=True`` continues from there; ``accept_new_data``: even if the
    data files have changed since.

    ``model``: your own, trained in place of the one that the recipe's [model] describes; see docs/extending.md.
    ``transforms``: functions that every training pair goes through after data.pipeline; None for a pair drops it.
    """
    out, start = (None if path is None else Path(path) for path in (out, start))
    changes = [changes] if isinstance(changes, str) else list(changes)
    source = None if isinstance(recipe, Recipe) else as_source(recipe, columns, like, resume=resume)
    name = str(recipe) if isinstance(recipe, str | Path) else ""
    request = TrainingRequest(name, changes, out, start, resume, minutes, evaluate, source, None, accept_new_data)
    if minutes is not None or accept_new_data:
        request.check_options()
    if isinstance(recipe, Recipe):
        if changes or (like, columns, start) != (None, None, None):
            check_unused(like=like, columns=columns, changes=changes, start=start)
        run = _plan_recipe(recipe, request)
    else:
        request = request.with_recommendation()
        request.check()
        run = plan_run(request)
    yield from evaluated(train_run(run, model=model, transforms=transforms), run)


def _plan_recipe(recipe: Recipe, request: TrainingRequest) -> PlannedRun:
    """The run of a request for a recipe that is made already."""
    folder = Path("runs") / recipe.name if request.out is None else request.out
    evaluates = bool(request.evaluate) or (request.evaluate is None and request.minutes is not None)
    limit = None if request.minutes is None else TimeLimit.from_now(request.minutes, evaluates=evaluates)
    return PlannedRun(recipe, folder, request.resume, limit, evaluates, accept_new_data=request.accept_new_data)


def evaluated(events: Events, run: PlannedRun) -> Events:
    """Pass events on; at the end of training, calibrate the run and evaluate it on the test set."""
    finished: Finished | None = None
    plan: Fitted | TimeUsed | None = None
    with closing(events):
        for event in events:
            plan = event if isinstance(event, Fitted | TimeUsed) else plan
            finished = event if isinstance(event, Finished) else finished
            yield event
    if finished is None:
        return
    device = run.recipe.training.device
    keep_states(run.folder, device=device)
    if not run.evaluates:
        calibrate_run(run.folder, device=device, limit=run.calibration_items(plan))
        return
    try:
        outcome = evaluate_run(run.folder, device=device, limit=run.evaluation_items(plan))
    except WeftError as error:  # the run is complete nevertheless
        warn(f"not evaluated: {error}")
        return
    calibrate_run(run.folder, device=device, limit=run.calibration_items(plan))
    yield Evaluated(finished.step, outcome)


def plan_run(request: TrainingRequest, workers: Workers = SINGLE_PROCESS) -> PlannedRun:
    """The run of a request that has been checked; its files are checked here, before a long preparation.

    Of several workers, each computes at least one batch of an update (training.accumulate).
    """
    recipe = request.settings()
    folder = request.folder(recipe)
    if not request.resume and workers.was_training(str(folder.resolve())):  # the launcher has restarted all workers
        changes = [change for change in request.changes if parse_change(change)[0] != ["training", "accumulate"]]
        request = request._replace(resume=True, changes=changes)
    if request.resume:
        recipe = request.saved_settings(recipe)
    evaluates = workers.world_size == 1 and request.evaluates(folder)
    if not request.resume and recipe.training.accumulate < workers.world_size:
        training = recipe.training.model_copy(update={"accumulate": workers.world_size})
        recipe = recipe.model_copy(update={"training": training})
    if not request.resume and workers.is_main:
        check_files(recipe)
        check_test_pairs(recipe)
    comments = tuple(request.comments()) if workers.is_main else ()
    limit = None if request.minutes is None else TimeLimit.from_now(request.minutes, evaluates=evaluates)
    run = PlannedRun(recipe, folder, request.resume, limit, evaluates, comments, request.accept_new_data)
    if limit is None or workers.world_size > 1 or not (candidates := tuple(request.candidates())):
        return run
    given = [parse_change(change)[0] for change in request.changes]
    fits_batch = ["training", "batch_tokens"] not in given
    return run._replace(candidates=candidates, limit=limit.after(RaceRecord(folder).elapsed), fits_batch=fits_batch)


def train_run(
    run: PlannedRun,
    workers: Workers = SINGLE_PROCESS,
    *,
    model: Model | None = None,
    transforms: Transform | Sequence[Transform] = (),
) -> Events:
    """The events of a planned run, without its evaluation."""
    options = TrainingOptions(model, transforms=transforms, workers=workers)
    if run.candidates and model is None:
        from weft.pairs.race.run import race_run

        yield from race_run(run, options)
    else:
        yield from train_planned(run, options)


def train_planned(
    run: PlannedRun, options: TrainingOptions, *, models: int = 0, observed: Speed | None = None
) -> Events:
    """The events of a planned run without a race; ``models`` and ``observed`` as in `fit_run`."""
    fit = None
    if run.limit is not None:
        fits_batch = run.fits_batch and bool(models)
        fit = partial(fit_run, limit=run.limit, models=models, observed=observed, fits_batch=fits_batch)
    options = options._replace(resume=run.resume, fit=fit, accept_new_data=run.accept_new_data)
    lengthening = MAX_LENGTHENING if models == 1 else 1.0
    training = train_revised(run.recipe, run.folder, options, lengthening)
    events = annotated(training, RunFolder(run.folder), list(run.comments))
    if options.model is None and options.workers.is_main:
        events = _with_exports(events, RunFolder(run.folder), run.recipe)
    yield from events


def annotated(events: Events, run: RunFolder, comments: list[str]) -> Events:
    """Pass the events on; the recipe of the run folder gets these comments as soon as it is written."""
    has_comments = bool(comments)
    with closing(events):
        for event in events:
            if isinstance(event, Fitted):
                comments = _fitted_comments(comments, event)
            if has_comments and isinstance(event, Started | Fitted):
                save_text(run.recipe, with_comments(without_comments(run.recipe.read_text("utf-8")), comments))
            yield event


def _with_exports(events: Events, run: RunFolder, recipe: Recipe) -> Events:
    """Pass the events on; at the end of training, the model card gets lines about exports."""
    with closing(events):
        for event in events:
            if isinstance(event, Finished) and run.card.is_file():
                from weft.interop.portability import EXPORTS_TO, NO_EXPORT_TO, export_lines

                lines = export_lines(recipe)
                save_text(run.card, with_facts(run.card.read_text("utf-8"), lines, (EXPORTS_TO, NO_EXPORT_TO)))
            yield event


def with_batch(comments: Sequence[str], tokens: int) -> list[str]:
    """The comments of a recipe whose batches are smaller than recommended."""
    kept = [line for line in comments if not line.startswith("batch: ")]
    return [*kept, f"batch: {tokens:,} tokens (smaller ones, since there is time for more of them)"]


def _fitted_comments(comments: list[str], event: Fitted) -> list[str]:
    """The comments of a recipe whose steps, and with them its schedule, were fitted to a time limit."""
    if event.batch_tokens is not None:
        comments = with_batch(comments, event.batch_tokens)
    if event.steps == event.recipe_steps:
        return comments
    kept = [line for line in comments if not line.startswith(("steps: ", "learning rate: "))]
    reason = f"fitted to {event.minutes:g} min, with warmup and validations; {event.recipe_steps:,} without a limit"
    return [*kept, f"steps: up to {event.steps:,} ({reason})"]
