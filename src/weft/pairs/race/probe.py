"""A candidate of a race: trained up to a step, in its own time, with its best validation so far."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Generator
from pathlib import Path

from weft.errors import WeftWarning
from weft.pairs.halving import Standing, better, standing_of, value_of
from weft.pairs.race.events import ProbeScored
from weft.pairs.race.plan import OVERTIME, PROBE_VALIDATIONS
from weft.pairs.recommendation.proposals import CandidateRecipe
from weft.pairs.time_limit.budget import TimeLimit
from weft.pairs.time_limit.fitting import fit_run
from weft.recipe import Recipe
from weft.runtime.activity import activity
from weft.training.events import Averaged, Event, Finished, Fitted, Started, Step, Validation
from weft.training.train import Events, FittedRun, NewRun

PROBE_SENTENCES = 200
"""Validation sentences that a probe translates at most, the same for all candidates."""


STRUCTURE = 0.1
"""The share of the pairs of a formal language that a probe holds out for their structure."""


def probe_recipe(candidate: CandidateRecipe) -> Recipe:
    """The recipe of a candidate with the validations of a probe, and a learning rate that does not decay after warmup.

    The steps are fitted to the time later. In the few steps of a probe a rate that decays to zero learns less. In a
    formal language some structures are held out, for the probe only: the winner is trained on all pairs.
    """
    recipe, settings = candidate.recipe, candidate.recipe.training
    if candidate.by_structure and not recipe.data.holdout.structure:
        holdout = recipe.data.holdout.model_copy(update={"structure": STRUCTURE})
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"holdout": holdout})})
    changes = {
        "validate_every": max(settings.steps // PROBE_VALIDATIONS, 1),
        "valid_sentences": min(settings.valid_sentences, PROBE_SENTENCES),
        "patience": 0,
        "schedule": "constant",
    }
    return recipe.model_copy(update={"training": settings.model_copy(update=changes)})


class ProbeLimit(TimeLimit):
    """The time of a probe, of which nothing has passed yet: measuring its speed does not count."""

    def remaining(self) -> float:
        return 60 * self.minutes


def fit_probe(run: NewRun, *, seconds: float, check: Callable[[Fitted], None]) -> FittedRun:
    """Fit a run to the time of a probe; ``check`` may refuse to race at that speed.

    There is no deadline: candidates train in turns, and the time of the others passes meanwhile.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeftWarning)  # that there is time for a few steps only: `check`
        fitted = fit_run(run, ProbeLimit.from_now(seconds / 60))
    check(fitted.event)
    return fitted._replace(deadline=math.inf)


class Probe:
    """The training of a candidate, which stands still while others train."""

    def __init__(self, candidate: CandidateRecipe, folder: Path, seconds: float) -> None:
        self.candidate = candidate
        self.folder = folder
        self.seconds = seconds
        """Its share of the time."""
        self.used = 0.0
        """Training time used so far."""
        self.standing = Standing(candidate.name, -math.inf, math.inf)
        """Its best validation so far."""
        self.step = self.steps = self.validated = 0
        self.ended = False
        self._events: Events | None = None

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def metric(self) -> str:
        return self.candidate.recipe.training.metric

    @property
    def value(self) -> float | None:
        """The metric of its best validation."""
        score = self.standing.score
        if not math.isfinite(score):
            return None
        return score if better(self.metric) == "higher" else -score

    def open(self, events: Events) -> None:
        """Prepare the training; the speed is measured, and the steps are known then."""
        self._events = events
        while not self.steps and not self.ended:
            event = self._next()
            self.ended = event is None
            if isinstance(event, Started):
                self.step, self.steps = event.step, event.steps
        self.used = 0.0

    def train_to(self, share: float) -> Generator[ProbeScored, None, None]:
        """Train up to the validation at a share of the steps; its validations as events.

        The last rung (share 1) is the end of the training, with the mean of the best checkpoints. A machine that has
        become slower ends a rung before.
        """
        end = math.inf if share >= 1 else share * self.steps - PROBE_VALIDATIONS / 2  # intervals are rounded down
        with activity(f"race: {self.name}", "steps", total=self.steps) as training:
            while not self.ended and self.validated < end and self.used <= OVERTIME * self.seconds * share:
                event = self._next()
                if event is None or isinstance(event, Finished):
                    self.ended = True
                elif isinstance(event, Step):
                    self.step = training.done = event.step
                elif isinstance(event, Validation | Averaged):
                    self.validated = event.step
                    yield self._score(event)

    def close(self) -> None:
        """End the training; its checkpoint is saved."""
        if self._events is not None:
            self._events.close()
            self._events = None

    def _score(self, event: Validation | Averaged) -> ProbeScored:
        standing = standing_of(self.name, event, self.metric)
        is_best = (-standing.score, standing.loss) < (-self.standing.score, self.standing.loss)
        if is_best:
            self.standing = standing
        return ProbeScored(event.step, self.name, self.steps, self.metric, value_of(event, self.metric), is_best)

    def _next(self) -> Event | None:
        assert self._events is not None
        start = time.monotonic()
        try:
            return next(self._events, None)
        finally:
            self.used += time.monotonic() - start
