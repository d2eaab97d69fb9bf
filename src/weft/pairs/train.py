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
from pathlib import Path

from weft.data.preparation import Transform, check_files, check_test_pairs
from weft.errors import WeftError, warn
from weft.models.interface import Model
from weft.pairs.outcome import RunOutcome, calibrate_run, evaluate_run
from weft.pairs.planned_run import PlannedRun, train_planned
from weft.pairs.race.events import TimeUsed
from weft.pairs.race.record import RaceRecord
from weft.pairs.race.run import race_run
from weft.pairs.request import TrainingRequest
from weft.pairs.source import GivenPairs, as_source, check_unused
from weft.pairs.time_limit.budget import TimeLimit
from weft.recipe import Recipe, parse_change
from weft.training.distributed import SINGLE_PROCESS, Workers
from weft.training.events import Event, Finished, Fitted
from weft.training.train import Events, TrainingOptions


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
    the recipe in the run folder has the new numbers; ``Finished.reason`` is "time" if the machine became slower. With
    pairs, networks of different kinds race first, and the winner has the rest of the time (`weft.pairs.race`).

    Of pairs: ``columns``, those of the source and the target, by name or number; ``like``, a recipe whose settings are
    used with them. Of pairs or the name of a recipe: ``changes``, such as "training.steps=500"; ``start``, a run whose
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
    request.check_options()
    if isinstance(recipe, Recipe):
        check_unused(like=like, columns=columns, changes=changes, start=start)
        folder = Path("runs") / recipe.name if out is None else out
        evaluates = bool(evaluate) or (evaluate is None and minutes is not None)
        limit = None if minutes is None else TimeLimit.from_now(minutes, evaluates=evaluates)
        run = PlannedRun(recipe, folder, resume, limit, evaluates, accept_new_data=accept_new_data)
    else:
        request = request.with_recommendation()
        request.check()
        run = plan_run(request)
    yield from evaluated(train_run(run, model=model, transforms=transforms), run)


def evaluated(events: Events, run: PlannedRun) -> Events:
    """The same events, and at the end of training the result on the test set; the run is calibrated."""
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
    return run._replace(candidates=candidates, limit=limit.after(RaceRecord(folder).elapsed))


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
        yield from race_run(run, options)
    else:
        yield from train_planned(run, options)
