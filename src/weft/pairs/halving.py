"""Successive halving as pure functions: how many candidates reach each rung, at which step, and which of them.

    candidates   9 → 5 → 3          the better half of each rung continues, and at least three
    steps        S/4, S/2, S        the last rung is the end of the training

A rung trains its candidates from the step of the rung before. Times are in seconds, `parallel` is the number of
candidates that train simultaneously. `standing_of` makes the standing of a candidate from its validation.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weft.training.events import Averaged, Validation

FINALISTS = 3
"""Candidates that are trained to the end: the members of the ensemble."""


class CandidateCost(NamedTuple):
    """Measured times of a candidate, in seconds."""

    start: float
    """Seconds before its first step: starting a process, reading the data, building the model."""
    step: float
    """Seconds per update."""
    validation: float = 0.0

    def seconds(self, steps: int, validations: int = 0) -> float:
        """The time to start, and to train ``steps`` with ``validations``."""
        return self.start + steps * self.step + validations * self.validation


class Standing(NamedTuple):
    """The best score of a candidate so far."""

    name: str
    score: float
    """Score of its best validation; higher is better, and minus infinity if no loss was finite."""
    loss: float
    """Loss of that validation."""


def rung_sizes(candidates: int, finalists: int = FINALISTS) -> list[int]:
    """The number of candidates in each rung."""
    sizes = [candidates]
    while sizes[-1] > finalists:
        sizes.append(next_size(sizes[-1], finalists))
    return sizes


def next_size(size: int, finalists: int = FINALISTS) -> int:
    """The number of candidates, out of ``size``, that continue."""
    return max(math.ceil(size / 2), min(finalists, size))


def rung_steps(steps: int, rungs: int) -> list[int]:
    """The step that each rung trains to; every rung is twice as far as the one before."""
    return [steps // 2 ** (rungs - 1 - rung) for rung in range(rungs)]


def ranked(standings: Sequence[Standing]) -> list[Standing]:
    """The best first; equal scores by their loss, then in the given order."""
    return sorted(standings, key=lambda standing: (-standing.score, standing.loss))


def elapsed(durations: Sequence[float], parallel: int) -> float:
    """The time that jobs take if `parallel` of them run simultaneously, each starting as soon as one has ended."""
    ends = [0.0] * max(parallel, 1)
    for duration in durations:
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def expected_seconds(speeds: Sequence[CandidateCost], steps: int, *, validations: int, parallel: int) -> float:
    """The time of all rungs; which candidates survive is not known yet: those of average speed are assumed."""
    sizes = rung_sizes(len(speeds))
    mean = CandidateCost(*(sum(values) / len(speeds) for values in zip(*speeds, strict=True)))
    total, reached = 0.0, 0
    for rung, (size, step) in enumerate(zip(sizes, rung_steps(steps, len(sizes)), strict=True)):
        validated = validations * (step - reached) // steps
        running = list(speeds) if rung == 0 else [mean] * size
        total += elapsed([speed.seconds(step - reached, validated) for speed in running], parallel)
        reached = step
    return total


def affordable_steps(
    speeds: Sequence[CandidateCost], seconds: float, *, validations: int, parallel: int, limit: int
) -> int:
    """The largest multiple of `validations` up to `limit` whose training fits into the time; at least one."""
    low, high = 1, max(limit // validations, 1)
    while low < high:
        middle = (low + high + 1) // 2
        steps = middle * validations
        if expected_seconds(speeds, steps, validations=validations, parallel=parallel) <= seconds:
            low = middle
        else:
            high = middle - 1
    return low * validations


def survivors(
    standings: Sequence[Standing],
    steps: Sequence[int],
    costs: dict[str, CandidateCost],
    *,
    seconds: float,
    parallel: int,
) -> list[str]:
    """The names that train in the next rung: the better half, or fewer if the time is too short; at least one.

    ``steps``: the steps of the rung that has ended and of all that follow. ``costs``: the start and step times of each
    candidate in the rung that has ended, validations included. ``seconds``: the time that is left. A candidate whose
    losses were never finite does not continue, unless there is no other.
    """
    order = [standing.name for standing in ranked(standings)]
    finite = [standing.name for standing in ranked(standings) if math.isfinite(standing.score)]
    kept = (finite or order)[: next_size(len(order))]
    while len(kept) > 1 and _remaining_seconds(kept, steps, costs, parallel) > seconds:
        kept = kept[:-1]
    return kept


def _remaining_seconds(
    names: Sequence[str], steps: Sequence[int], costs: dict[str, CandidateCost], parallel: int
) -> float:
    """The time of the following rungs if these candidates continue, the first of them to the end."""
    total, size = 0.0, len(names)
    for start, end in pairwise(steps):
        total += elapsed([costs[name].seconds(end - start) for name in names[:size]], parallel)
        size = next_size(size)
    return total


# Validation scores of candidates


def better(metric: str) -> str:
    """Whether a "higher" or a "lower" value of the metric is better."""
    from weft.evaluation.metrics import compute_metrics

    if metric == "loss":
        return "lower"
    return compute_metrics([metric], ["a"], ["a"], sources=["a"])[0].better


def is_finite(loss: float, perplexity: float | None) -> bool:
    """Whether the loss of a validation, and its exponential, are finite numbers."""
    return all(abs(float(number)) < float("inf") for number in (loss, 0.0 if perplexity is None else perplexity))


def value_of(event: Validation | Averaged, metric: str) -> float:
    """The number of a validation that runs are compared by; with a structural holdout, the mean of both numbers."""
    value = event.loss if metric == "loss" else event.metrics[metric]
    return value if metric not in event.structural else (value + event.structural[metric]) / 2


def standing_of(name: str, event: Validation | Averaged, metric: str) -> Standing:
    """A validation as successive halving ranks it."""
    if not is_finite(event.loss, event.perplexity):
        return Standing(name, -float("inf"), float("inf"))
    value = value_of(event, metric)
    return Standing(name, value if better(metric) == "higher" else -value, event.loss)
