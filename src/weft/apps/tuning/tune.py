"""`weft.tune`: from a recipe, or pairs, to the best of its candidates. The package's docstring says how."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from weft import errors
from weft.apps.tuning.candidates import BASE, Candidate, find_candidates
from weft.apps.tuning.events import (
    Failed,
    Planned,
    RungFinished,
    RungStarted,
    Scored,
    Tuned,
    TuningEvent,
    TuningStarted,
)
from weft.apps.tuning.folder import TuningFolder
from weft.apps.tuning.job import Outcome, Runner, TuningJob
from weft.apps.tuning.plan import RESERVE, TuningPlan, make_plan
from weft.apps.tuning.result import TuningResult
from weft.errors import DataError, RecipeError, TrainingError, option
from weft.pairs.halving import CandidateCost, Standing, ranked, survivors
from weft.pairs.recommendation.recommend import Recommendation
from weft.pairs.source import GivenPairs, PairSource, as_source, check_unused
from weft.recipe import Recipe, load_recipe
from weft.runs.locks import lock_folder

Events = Generator[TuningEvent, None, None]
MEASURED_SHARE = 0.005
"""The fraction of the time for which a candidate is measured."""
MEASURED_SECONDS = (0.5, 8.0)
"""Bounds of the time for which a candidate is measured, in seconds."""
SAME_FOR_ALL = ("DataError", "RecipeError", "VocabularyError", "CheckpointError")
"""Errors of the recipe itself, which every candidate would have."""


def tune(
    recipe: Recipe | GivenPairs,
    out: Path | str | None = None,
    *,
    minutes: float = 60.0,
    like: str | None = None,
    columns: tuple[str | int, str | int] | None = None,
    changes: Sequence[str] | str = (),
    parallel: int | None = None,
    runner: Runner | None = None,
) -> Events:
    """Train variants of a recipe, stop the worse ones early, and keep the best; yields events.

        for event in weft.tune("pairs.tsv", "runs/tuned", minutes=60):
            print(event)

    ``recipe``: a recipe, its name or its file; or pairs, for which one is chosen first, as `weft.train` does; ``like``,
    ``columns`` and ``changes`` are those of `weft.train`. Repeating the call continues an interrupted tuning run.
    ``minutes``: the time limit for everything. ``parallel``: the number of candidates that train simultaneously, by
    default one per core or two per GPU. ``runner``: runs the jobs, by default in processes on this machine.
    """
    changes = [changes] if isinstance(changes, str) else list(changes)
    if isinstance(recipe, Recipe):
        check_unused(like=like, columns=columns, changes=changes)
    else:
        source = as_source(recipe, columns, like)
        name = str(recipe) if source is None else None
        recipe = recipe_to_tune(name, source, changes, None if out is None else Path(out)).recipe
    check_request(recipe, minutes)
    recipe = with_absolute_paths(recipe)
    folder = TuningFolder(out or default_folder(recipe))
    folder.check(recipe, minutes)
    candidates = find_candidates(recipe)
    runner = runner or _process_runner(folder, recipe.training.device, parallel, len(candidates))
    folder.path.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder.path, "tuning"):
        folder.create(recipe, minutes)
        yield from _Tuning(folder, candidates, runner, 60 * minutes).events()


class RecipeToTune(NamedTuple):
    """The recipe whose variants are tried, and the choices in it if it is one for pairs."""

    recipe: Recipe
    recommendation: Recommendation | None = None


def recipe_to_tune(
    name: str | None, source: PairSource | None, changes: list[str], out: Path | None = None
) -> RecipeToTune:
    """The recipe that was named, or the one for the pairs."""
    if source is None:
        assert name is not None
        return RecipeToTune(load_recipe(name, changes))
    if source.argument.name == "-" and source.pairs is None:
        raise DataError("-: standard input cannot be read again by the command that continues; give a file")
    folder = Path("runs") / source.name if source.pairs is None else out or Path("runs") / f"{source.name}-tuned"
    recommendation = source.recommend(changes, None, folder)
    return RecipeToTune(recommendation.recipe, recommendation)


def _process_runner(folder: TuningFolder, device: str, parallel: int | None, candidates: int) -> Runner:
    from weft.apps.tuning.processes import ProcessRunner, find_slots

    return ProcessRunner(find_slots(device, parallel, candidates), folder.logs)


def default_folder(recipe: Recipe) -> Path:
    return Path("runs") / f"{recipe.name}-tuned"


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """The recipe for a file in another folder, with an absolute data folder; new data are accepted."""
    data = recipe.data.model_copy(update={"folder": str(Path(recipe.data.folder).resolve())})
    return recipe.model_copy(update={"data": data}).accepting_new_data()


def check_request(recipe: Recipe, minutes: float) -> None:
    """Fail on what cannot be tuned."""
    if not 0 < minutes < math.inf:
        raise RecipeError(f"{option('minutes', minutes)}: expected a number of minutes above 0")
    from weft.data.preparation.corpora import check_files, find_corpora, has_corpus
    from weft.data.reading.corpora import reads_standard_input
    from weft.evaluation.metrics import check_metrics

    recipe = recipe.accepting_new_data()  # to train on the data of a recipe is to ask for them
    if recipe.training.metric != "loss":
        check_metrics([recipe.training.metric], setting="training.metric")
    if not has_corpus(recipe, "valid"):
        raise RecipeError("data.valid: candidates are compared on a validation set; name one")
    for split in ("train", "valid"):
        if any(reads_standard_input(entry.corpus) for entry in find_corpora(recipe, split, allow_missing=True)):
            raise RecipeError(f"data.{split}: several candidates cannot all read standard input (-); give them a file")
    check_files(recipe)


class _Tuning:
    """A tuning run in a folder that this process has locked."""

    def __init__(self, folder: TuningFolder, candidates: Sequence[Candidate], runner: Runner, seconds: float) -> None:
        self.folder = folder
        self.candidates = list(candidates)
        self.runner = runner
        self.seconds = seconds
        self.started = time.monotonic()
        self.rungs = folder.read_rungs()
        """The candidates of each rung that was decided on."""
        self.outcomes: dict[str, list[Outcome]] = {candidate.name: [] for candidate in candidates}
        """The outcomes of each candidate, rung by rung."""
        self.failures: dict[str, str] = {}

    @property
    def recipe(self) -> Recipe:
        return self.candidates[0].recipe

    @property
    def metric(self) -> str:
        return self.recipe.training.metric

    @property
    def seconds_left(self) -> float:
        return self.seconds - self.folder.seconds_before - (time.monotonic() - self.started)

    def save(self) -> None:
        self.folder.write_progress(time.monotonic() - self.started, self.rungs)

    def events(self) -> Iterator[TuningEvent]:
        try:
            yield TuningStarted(self.candidates, self.runner.parallel, str(self.folder.path))
            yield from self._prepare()
            plan = self.folder.read_plan()
            assert plan is not None
            for rung in range(len(plan.rungs)):
                yield from self._train(plan, rung)
            result = self._compare(plan)
            result.write(self.folder, self.recipe)
            yield Tuned(result)
        finally:
            self.save()

    def _do(self, jobs: Sequence[TuningJob]) -> Iterator[tuple[TuningJob, Outcome]]:
        """The outcomes of jobs: those that are known, then those that must be done."""
        known = [(job, outcome) for job in jobs if (outcome := self.folder.outcome(job)) is not None]
        yield from known
        for job, outcome in self.runner.run([job for job in jobs if self.folder.outcome(job) is None]):
            self.save()
            yield job, outcome

    def _prepare(self) -> Iterator[TuningEvent]:
        """Measure, and make the plan, unless that was done before."""
        speeds: dict[str, CandidateCost] = {}
        plan = self.folder.read_plan()
        yield from self._measure(speeds, plan is None)
        if plan is None:
            plan = make_plan(self.candidates, speeds, seconds=self.seconds_left, parallel=self.runner.parallel)
            self.folder.write_plan(plan, self.candidates)
            self.rungs = [plan.candidates]
            self.save()
        left_out = [candidate.name for candidate in self.candidates if candidate.name not in plan.candidates]
        left_out = [name for name in left_out if name not in self.failures]
        self.rungs = self.rungs or [plan.candidates]
        yield Planned(plan, left_out, self.recipe.training.steps, self.seconds_left)

    def _measure(self, speeds: dict[str, CandidateCost], is_new: bool) -> Iterator[TuningEvent]:
        """The speed of every candidate, one measurement for those that differ in nothing that takes time.

        Of a tuning run that has a plan already, only what failed is found again.
        """
        groups: dict[str, list[Candidate]] = {}
        for candidate in self.candidates:
            groups.setdefault(candidate.speed_key(), []).append(candidate)
        jobs = []
        shortest, longest = MEASURED_SECONDS
        measured_seconds = min(max(MEASURED_SHARE * self.seconds, shortest), longest)
        for first, *_ in groups.values():
            arguments = {"recipe": str(self.folder.recipe_path(first.name)), "seconds": measured_seconds}
            job = self.folder.job("measure", first.name, arguments)
            if is_new:
                self.folder.write_recipe(first.name, first.recipe)
            if is_new or self.folder.outcome(job) is not None:
                jobs.append(job)
        for job, outcome in self._do(jobs):
            [group] = [group for group in groups.values() if group[0].name == job.name]
            if "failed" not in outcome:
                speed = CandidateCost(outcome["start"], outcome["step"], outcome["validation"])
                speeds.update({candidate.name: speed for candidate in group})
                continue
            if job.name == BASE and outcome.get("error") in SAME_FOR_ALL:
                Path(job.result).unlink(missing_ok=True)  # so that it is tried again after a correction
                raise getattr(errors, outcome["error"])(outcome["failed"])
            for candidate in group:
                yield self._fail(candidate.name, outcome["failed"])
        if not speeds:
            raise TrainingError(f"no candidate can be trained; {BASE}: {self.failures[BASE]}")

    def _fail(self, name: str, reason: str) -> Failed:
        self.failures[name] = reason
        return Failed(name, reason)

    def _train(self, plan: TuningPlan, rung: int) -> Iterator[TuningEvent]:
        """Train the candidates of a rung, and decide which of them continue."""
        step, names = plan.rungs[rung], self.rungs[rung]
        yield RungStarted(rung + 1, len(plan.rungs), step, names)
        jobs = [self._training_job(name, step) for name in names if not self._has_finished(name)]
        for job, outcome in self._do(jobs):
            if "failed" in outcome:
                yield self._fail(job.name, outcome["failed"])
                continue
            self.outcomes[job.name].append(outcome)
            yield Scored(job.name, rung + 1, outcome["step"], outcome["value"], self.metric, outcome["seconds"])
        alive = [name for name in names if name not in self.failures]
        if not alive:
            raise TrainingError(f"every candidate failed; {names[0]}: {self.failures[names[0]]}")
        if rung + 1 == len(plan.rungs):
            return
        if len(self.rungs) == rung + 1:
            standings = [self._standing(name) for name in alive]
            costs = {name: self._cost(name) for name in alive}
            steps = plan.rungs[rung:]
            left, parallel = self.seconds_left - (1 - RESERVE) * self.seconds, self.runner.parallel
            self.rungs.append(survivors(standings, steps, costs, seconds=left, parallel=parallel))
            self.save()
        continuing = self.rungs[rung + 1]
        yield RungFinished(rung + 1, continuing, [name for name in alive if name not in continuing])

    def _training_job(self, name: str, step: int) -> TuningJob:
        arguments = {
            "recipe": str(self.folder.recipe_path(name)),
            "folder": str(self.folder.run_path(name)),
            "step": step,
        }
        return self.folder.job("train", name, arguments, suffix=f"step-{step}")

    def _has_finished(self, name: str) -> bool:
        """Whether training has ended before the last rung, because it did not improve."""
        return bool(self.outcomes[name]) and bool(self.outcomes[name][-1]["finished"])

    def _standing(self, name: str) -> Standing:
        outcome = self.outcomes[name][-1]
        return Standing(name, outcome["score"], outcome["loss"])

    def _cost(self, name: str) -> CandidateCost:
        """Seconds before the first step and seconds per step, validations included, in a candidate's last rung."""
        if self._has_finished(name):
            return CandidateCost(0.0, 0.0)
        *before, last = self.outcomes[name]
        seconds = last["training_seconds"] - (before[-1]["training_seconds"] if before else 0.0)
        steps = last["step"] - (before[-1]["step"] if before else 0)
        return CandidateCost(max(last["seconds"] - seconds, 0.0), seconds / max(steps, 1))

    def _order(self) -> list[str]:
        """Candidates that did not fail: by the rung that they have reached, then by their score."""
        order: list[str] = []
        for names in reversed(self.rungs):
            standings = [self._standing(name) for name in names if name not in self.failures and name not in order]
            order += [standing.name for standing in ranked(standings)]
        return order

    def _compare(self, plan: TuningPlan) -> TuningResult:
        """The finalists and the ensemble on the whole validation set."""
        order = self._order()
        finalists = [name for name in self.rungs[-1] if name in order]
        arguments = {"folders": [str(self.folder.run_path(name)) for name in order], "finalists": len(finalists)}
        [(_, comparison)] = self._do([self.folder.job("compare", "ensemble", arguments)])
        return TuningResult.collect(self.candidates, plan, self.outcomes, self.failures, order, comparison)
