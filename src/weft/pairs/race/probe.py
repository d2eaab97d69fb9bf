"""A candidate of a race: trained up to a step, in its own time, with its best validation so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from pathlib import Path

from weft.pairs.halving import Standing, better, standing_of, value_of
from weft.pairs.race.events import ProbeScored
from weft.pairs.race.plan import MOST_OVERTIME, OVERTIME, PROBE_VALIDATIONS
from weft.pairs.recommendation.proposals import CandidateRecipe
from weft.pairs.time_limit import fitting
from weft.pairs.time_limit.budget import Speed
from weft.pairs.time_limit.speed import update_speed
from weft.recipe import Recipe
from weft.runtime.activity import activity
from weft.training.events import Averaged, Event, Finished, Fitted, Started, Step, Validation
from weft.training.train import Events, FittedRun, NewRun

PROBE_SENTENCES = 500
"""Validation sentences that a probe translates at most, the same for all candidates. 83 and 80 % of 200 differ by less
than a standard deviation."""
MIN_OBSERVED = 20
"""Updates from which on a probe tells how long an update takes."""


def probe_recipe(candidate: CandidateRecipe) -> Recipe:
    """The recipe of a candidate with the validations of a probe, and a learning rate that does not decay after warmup.

    Steps and validations are fitted to the time later. In the few steps of a probe a rate that decays to zero learns
    less, and the mean of checkpoints that are far apart is worse than the last.
    """
    settings = candidate.recipe.training
    changes = {
        "valid_sentences": min(settings.valid_sentences, PROBE_SENTENCES),
        "patience": 0,
        "average": 1,
        "schedule": "constant",
    }
    return candidate.recipe.model_copy(update={"training": settings.model_copy(update=changes)})


def fit_probe(run: NewRun, *, probe: Probe, check: Callable[[Fitted], None], batch_seconds: float = 0.0) -> FittedRun:
    """Fit a run to the time of a probe; ``check`` may refuse to race at that speed.

    ``batch_seconds``: the time of the winner, for which batches are chosen; 0: those of the recipe.
    There is no deadline: candidates train in turns, and the time of the others passes meanwhile.
    """
    fitted, probe.speed = fitting.fit_probe(
        run, probe.seconds, validations=PROBE_VALIDATIONS, batch_seconds=batch_seconds
    )
    check(fitted.event)
    probe.batch_tokens = fitted.event.batch_tokens
    return fitted


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
        self.outputs = 0
        """How many outputs a validation has judged."""
        self.step = self.steps = self.validated = 0
        self.step_durations: list[float] = []
        self.speed: Speed | None = None
        """Measured before the first update."""
        self.batch_tokens: int | None = None
        """Tokens of a batch, if they are fewer than those of its recipe."""
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
        become slower ends a rung before, but not before the candidate has been validated in it.
        """
        end = math.inf if share >= 1 else share * self.steps
        first, before = self.validated, self.step
        steps = round(min(end, self.steps)) - before
        with activity(f"race: {self.name}", "steps", total=steps) as training:
            while not self.ended and self.validated < end and self._has_time(share, is_scored=self.validated > first):
                event = self._next()
                if event is None or isinstance(event, Finished):
                    self.ended = True
                elif isinstance(event, Step):
                    self.step = event.step
                    training.done = event.step - before
                    self.step_durations.append(event.seconds)
                elif isinstance(event, Validation | Averaged):
                    self.validated = event.step
                    yield self._score(event)

    def _has_time(self, share: float, *, is_scored: bool) -> bool:
        """Whether the rung that ends at a share of the steps goes on; ``is_scored``: validated in that rung."""
        return self.used <= (OVERTIME if is_scored else MOST_OVERTIME) * self.seconds * share

    @property
    def step_seconds(self) -> float | None:
        """The typical duration of the later updates; None before there are some.

        An update during which another candidate was trained, and took long by that, does not count.
        """
        later = self.step_durations[len(self.step_durations) // 2 :]
        return update_speed(later).step if len(later) >= MIN_OBSERVED else None

    def close(self) -> None:
        """End the training; its checkpoint is saved."""
        if self._events is not None:
            self._events.close()
            self._events = None

    def _score(self, event: Validation | Averaged) -> ProbeScored:
        standing = standing_of(self.name, event, self.metric)
        if isinstance(event, Validation):
            self.outputs = event.outputs
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
