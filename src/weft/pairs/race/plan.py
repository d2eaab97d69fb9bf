"""The arithmetic of a race: whether to race, for how long, and whether a further model fits. Times are in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from weft.errors import plural
from weft.pairs.halving import rung_sizes
from weft.pairs.time_limit.budget import MAX_MODELS, SAFETY
from weft.training.events import Fitted

RACE_SHARE = 0.3
"""The fraction of the time that the race takes; the winner has the rest."""
MIN_PROBE_SECONDS = 5.0
"""A probe is at least this long …"""
MIN_PROBE_STEPS = 100
"""… and has at least this many steps."""
MOST_OPENING = 0.5
"""If preparing the candidates takes this fraction of the time of the race, probes are half as long; if preparing two
takes that, there is no third."""
NEEDED_SHARE = 0.25
"""The winner must have time for this fraction of the recipe's steps, or there is no race."""
PROBE_VALIDATIONS = 4
"""Validations per probe: an even number, so that one of them is at half of the steps."""
OVERTIME = 1.25
"""A probe that has been validated is ended after this many times its share: the machine became slower."""
MOST_OVERTIME = 3.0
"""… and one that has not been validated after this many times its share."""
MODEL_SAFETY = 1.05
"""A further model is planned to take longer than the one before by this factor."""
REFIT = 1.5
"""The steps are fitted again if the observed speed allows at least this many times as many as before."""


class RaceTimes(NamedTuple):
    """Time for the parts of a race, in seconds."""

    probe: float
    """Time for each probe that is not eliminated."""
    winner: float
    """Time left for the winner, further models and the evaluation."""


def race_times(seconds: float, candidates: int) -> RaceTimes:
    """The share of each candidate: a probe of p seconds takes p / 2 of every candidate, then p / 2 of the survivors."""
    race = RACE_SHARE * seconds
    return RaceTimes(race / max(race_seconds(1.0, candidates), 1.0), seconds - race)


def race_seconds(probe_seconds: float, candidates: int) -> float:
    """The time in which all candidates are trained, with the elimination of some."""
    sizes = rung_sizes(candidates, finalists=1)[:-1]
    return probe_seconds * sum(size * length for size, length in zip(sizes, rung_lengths(len(sizes)), strict=True))


def opens_too_long(opening: Sequence[float], candidates: int, race: float) -> bool:
    """Whether preparing so many candidates takes a large part of the time of the race.

    ``opening``: the seconds that each one so far took to open: to build the model, to compile kernels, to measure the
    speed. The first one prepared the pairs too, which the winner needs anyway, so it counts as much as the others. On
    an H200 that eight races shared, 77 s of 258 s were planned for a race, and 100 to 160 s taken.
    """
    return len(opening) > 1 and fmean(opening[1:]) * candidates >= MOST_OPENING * race


def rung_ends(candidates: int, *, shortened: bool) -> list[float]:
    """The share of a probe at which each rung ends; half of that if ``shortened``.

    The learning rate of a probe does not decay, so that it loses nothing but time.
    """
    lengths = rung_lengths(len(rung_sizes(candidates, finalists=1)) - 1)
    return [(0.5 if shortened else 1.0) * sum(lengths[: rung + 1]) for rung in range(len(lengths))]


def rung_lengths(rungs: int) -> list[float]:
    """The part of a probe that each rung trains; each rung ends twice as far as the one before."""
    ends = [0.5 ** (rungs - 1 - rung) for rung in range(rungs)]
    return [end - start for start, end in zip([0.0, *ends], ends, strict=False)]


def too_short_before(times: RaceTimes) -> str | None:
    """The reason why there is no time for a race, before anything is measured; None if there may be."""
    if times.probe < MIN_PROBE_SECONDS:
        return f"{times.probe:.2g} s for each candidate, at least {MIN_PROBE_SECONDS:g} s are needed"
    return None


def too_short(times: RaceTimes, probe: Fitted) -> str | None:
    """The reason why there is no time for a race, by the measured speed of the recommended recipe; None if there is.

    ``probe``: that recipe, fitted to the time of a probe.
    """
    if probe.steps < min(MIN_PROBE_STEPS, probe.recipe_steps):
        return f"{plural(probe.steps, 'step')} for each candidate, at least {MIN_PROBE_STEPS} are needed"
    steps = int(times.winner * SAFETY / probe.step_seconds)
    if steps < NEEDED_SHARE * probe.recipe_steps:
        needed = f"at least {NEEDED_SHARE:.0%} of the recipe's {probe.recipe_steps:,} are needed"
        return f"{plural(steps, 'step')} would be left for the winner, {needed}"
    return None


class TrainedModel(NamedTuple):
    """A model of the winner's recipe."""

    seed: int
    steps: int
    recipe_steps: int
    """Steps of the recipe, before they were fitted to the time."""
    training_seconds: float
    """Updates and validations."""
    other_seconds: float
    """Everything else: reading the data, measuring the speed, scoring."""
    value: float | None = None
    """Score on the validation set; None if there is no validation set."""

    @property
    def seconds(self) -> float:
        return self.training_seconds + self.other_seconds


class FurtherModel(NamedTuple):
    """The next model to train in the time that is left, or the reason why there is none."""

    refits: bool = False
    """Whether its steps are fitted to the time that is left, since there is time for more than the others had."""
    reason: str | None = None
    """The reason why there is no further model."""


def further_model(models: Sequence[TrainedModel], seconds: float, *, only_longer: bool = False) -> FurtherModel:
    """Whether another model is trained in the time that is left, and how.

    If the limit has cut off steps of the recipe, and the observed speed allows `REFIT` times as many as before, the
    measurement was wrong, or early stopping came soon: the steps are fitted again, unless that gave no more steps the
    last time. Otherwise a model like the others; not with ``only_longer``.
    """
    if len(models) >= MAX_MODELS:
        return FurtherModel(reason=f"{plural(len(models), 'model')} are enough")
    longest = max(models, key=lambda model: model.steps)
    may_refit = len(models) == 1 or models[-1].steps > max(model.steps for model in models[:-1])
    each = longest.training_seconds / max(longest.steps, 1)
    possible = int((SAFETY * seconds - longest.other_seconds) / max(each, 1e-9))
    if may_refit and longest.steps < longest.recipe_steps and possible >= REFIT * longest.steps:
        return FurtherModel(refits=True)
    needed = MODEL_SAFETY * max(model.seconds for model in models)
    if needed > seconds:
        return FurtherModel(reason=f"a further model takes {needed / 60:.1f} min")
    if only_longer:
        return FurtherModel(reason="validation pairs cannot tell which of several models is the best")
    return FurtherModel()
