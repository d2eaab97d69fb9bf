"""Trials: every condition of a lab with every seed, in worker processes of one thread each, with results in order.

The result depends on nothing but conditions and seeds: not on the number of cores, nor on which trial ends first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from weft.apps.labs.intervals import percent
from weft.data.store.worker_processes import parallel_map
from weft.errors import RecipeError, TrainingError, WeftError, option
from weft.evaluation.statistics import Estimate, t_interval
from weft.runtime.activity import activity
from weft.runtime.processes import core_count
from weft.runtime.switches import thread_count

Condition = TypeVar("Condition", bound=Hashable)
Trial = Callable[[Condition, int], dict[str, Any]]
"""A measurement under a condition with a seed, as JSON values; a module-level function, so that it can be pickled."""
SEED_STEP = 1_000
"""Between the seeds of two models of one seed: far more than anybody's number of seeds."""


@dataclass(frozen=True)
class Trials:
    """Measurements by condition and seed."""

    conditions: tuple[Any, ...]
    seeds: tuple[int, ...]
    results: dict[Any, list[dict[str, Any]]]
    """Results by condition, in the order of the seeds; of several models per seed, in the order of `trial_seeds`."""
    models: int = 1
    """Trials of each condition with each seed."""

    @property
    def trial_seeds(self) -> tuple[int, ...]:
        """The seed of each trial of a condition."""
        return trial_seeds(self.seeds, self.models)

    def values(self, condition: Hashable, name: str) -> list[Any]:
        """A measurement under a condition, of each trial."""
        return [result[name] for result in self.results[condition]]

    def curves(self, conditions: Sequence[Hashable], name: str) -> list[list[Any]]:
        """For each trial, a measurement under each of the conditions."""
        return [list(curve) for curve in zip(*(self.values(condition, name) for condition in conditions), strict=True)]

    def estimate(self, condition: Hashable, name: str) -> Estimate:
        """Its mean over the trials, with the t interval."""
        return t_interval(self.values(condition, name))

    def percent(self, condition: Hashable, name: str) -> Estimate:
        """Its mean over the trials, of a percentage."""
        return percent(self.values(condition, name))

    def records(self) -> list[dict[str, Any]]:
        """All of it as values of JSON."""
        return [
            {"condition": plain(condition), "seed": seed, **result}
            for condition in self.conditions
            for seed, result in zip(self.trial_seeds, self.results[condition], strict=True)
        ]


def run_trials(
    trial: Trial[Condition],
    conditions: Sequence[Condition],
    seeds: int | Sequence[int],
    *,
    models: int = 1,
    unit: str = "trainings",
    on_result: Callable[[Condition, int, dict[str, Any]], None] | None = None,
) -> Trials:
    """Run a trial under every condition with every seed; 3 seeds are 1, 2 and 3.

    ``models``: trials of a condition with each seed, each with data and weights of its own. ``unit``: what the trials
    are, for the display of progress. ``on_result`` is called with each result, in order.
    """
    chosen = check_seeds(seeds)
    items = [(condition, seed) for condition in conditions for seed in trial_seeds(chosen, models)]
    workers = min(worker_count(), len(items)) if trial.__module__ != "__main__" else 0  # none can import a script
    results: dict[Any, list[dict[str, Any]]] = {condition: [] for condition in conditions}
    with (
        tempfile.TemporaryDirectory(prefix="weft-labs-") as folder,  # removed here even if a worker is killed
        activity("measuring", unit, total=len(items)) as running,
    ):
        arguments = (trial, folder if workers else None)
        outcomes = parallel_map(_worker, arguments, items, workers=workers, advice="close other programs")
        for (condition, seed), result in zip(items, outcomes, strict=True):
            results[condition].append(result)
            running.done += 1
            if on_result is not None:
                on_result(condition, seed, result)
    return Trials(tuple(conditions), chosen, results, models)


def trial_seeds(seeds: Sequence[int], models: int) -> tuple[int, ...]:
    """The seeds of the trials: seed 1 with two models is 1 and 1,001."""
    return tuple(seed + SEED_STEP * index for seed in seeds for index in range(models))


def worker_count() -> int:
    """One process for each core; none where there is only one core."""
    return core_count() if core_count() > 1 else 0


def check_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """The seeds: 1 to n, or those that were given."""
    chosen = tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0:
        raise RecipeError(f"{option('seeds', seeds)}: expected at least one seed, all of them different")
    return chosen


def plain(value: Any) -> Any:
    """A condition as a value of JSON."""
    if hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def _worker(arguments: tuple[Trial[Any], str | None]) -> Callable[[tuple[Any, int]], dict[str, Any]]:
    """The trial function of a worker process; it puts temporary files where the parent removes them."""
    trial, folder = arguments
    if folder is not None:
        tempfile.tempdir = folder

    def run(item: tuple[Any, int]) -> dict[str, Any]:
        condition, seed = item
        try:
            with thread_count(1):  # the order of additions, and so the result, depends on their number
                return trial(condition, seed)
        except WeftError as error:
            raise TrainingError(f"{_name(condition)}, seed {seed}: {error}") from error
        except Exception as error:
            error.add_note(f"in a trial: {_name(condition)}, seed {seed}")
            raise

    return run


def _name(condition: Any) -> str:
    if hasattr(condition, "_asdict"):
        return ", ".join(f"{name} {value}" for name, value in condition._asdict().items())
    return str(condition)
