"""A time limit for training: how many updates and how many validations fit into it.

`fit_settings` is arithmetic on a measured speed (speed.py). The learning rate schedule, which is a function of the
steps, becomes shorter with them and keeps its shape. A recipe that fits is left as it is, unless the time is to be
used up (`lengthened`: for pairs, whose steps nobody has given). Should the machine become slower than it was when it
was measured, the training loop ends at the limit.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from weft.errors import RecipeError, option, plural, warn
from weft.recipe import TrainingSettings

SAFETY = 0.96
"""The fraction of the time that is planned: speeds vary, and checkpoints take time too."""
VALIDATION_SHARE = 0.25
"""The fraction of the time that validations may take."""
MOST_VALIDATION_SHARE = 0.4
"""… and that they may take where `GOOD_VALIDATIONS` need it."""
VALIDATION_SAFETY = 1.3
"""Validations are planned to take longer than measured by this factor: a barely trained model writes long outputs."""
GOOD_VALIDATIONS = 10
"""If fewer validations than this fit, each translates fewer sentences, and then they may take more of the time."""
MIN_SENTENCES = 100
"""The smallest number of sentences that a validation is reduced to."""
MIN_STEPS = 20
"""Below this many steps a warning says how much more time is needed; the run is trained anyway."""
MIN_WARMUP = 100
"""Warmup is not reduced below this many steps if the run has at least five times as many."""
EVALUATION_SHARE = 0.15
"""The fraction of the time that is planned for the evaluation after training. If a large test set takes longer, the
time that is left in the end decides how much of it is evaluated."""
MAX_LENGTHENING = 4.0
"""The largest factor by which the steps of a recipe are increased to use up the time."""
MAX_MODELS = 6
"""Models of the same recipe that are trained at most, of different seeds, to use up the time."""
DISTILLATION = 1.5
"""Distilling models into one is planned to take as long as this many of them."""
SHORTEST = 0.7
"""The fraction of the steps of the recipe that two models to be distilled have at least, when they are planned …"""
SHORTEST_OBSERVED = 0.5
"""… and once they turn out to be slower than planned. On Multi30k two models and their student were better than one
model of twice the steps of a recipe (43.5 and 42.4 BLEU on validation)."""


class TimeLimit(NamedTuple):
    """The time limit of a run, counted from the moment it starts to read its data."""

    minutes: float
    start: float
    """`time.monotonic`"""
    evaluates: bool = False
    """Whether time is left for an evaluation on the test set after training."""

    @classmethod
    def from_now(cls, minutes: float, *, evaluates: bool = False) -> TimeLimit:
        if not (math.isfinite(minutes) and minutes > 0):
            raise RecipeError(f"{option('minutes', minutes)}: expected a number of minutes above 0")
        return cls(minutes, time.monotonic(), evaluates)

    @property
    def end(self) -> float:
        return self.start + 60 * self.minutes

    def after(self, seconds: float) -> TimeLimit:
        """The limit of a run on which this many seconds were spent before, until it was interrupted."""
        return self._replace(start=self.start - seconds)

    def remaining(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()


class Speed(NamedTuple):
    """Times of the parts of training on this machine, in seconds."""

    step: float
    startup: float = 0.0
    """Additional time of the first updates: capturing CUDA graphs, compiling."""
    loss: float = 0.0
    """Time to compute the loss of the validation set."""
    sentence: float = 0.0
    """Each sentence that is translated for a metric."""

    def validation(self, sentences: int) -> float:
        return VALIDATION_SAFETY * (self.loss + self.sentence * sentences)


class FittedTraining(NamedTuple):
    """Settings that fit into a time limit, and the time they are expected to take."""

    settings: TrainingSettings
    validations: int
    validation_seconds: float
    """Time per validation."""
    seconds: float
    """Time for the rest of the run, without the evaluation after it."""

    @property
    def closing_seconds(self) -> float:
        """The time after the last update: a validation, and one of the mean of the best checkpoints."""
        return self.validation_seconds * (2 if self.settings.averages else 1) if self.validations else 0.0


class _Validations(NamedTuple):
    """The validations of a run."""

    number: int
    sentences: int
    """Sentences translated in each validation."""
    cost: float
    """Seconds of each."""
    averaging: int
    """1 if the mean of the best checkpoints is validated after them."""

    @property
    def seconds(self) -> float:
        return (self.number + self.averaging) * self.cost


def fit_settings(settings: TrainingSettings, speed: Speed, seconds: float, sentences: int | None) -> FittedTraining:
    """The settings of a run that takes at most ``seconds``.

    ``sentences``: the number of sentences that a validation translates; None if there are no validations.
    """
    validations = _all_validations(settings, speed, sentences)
    planned = seconds * SAFETY - speed.startup
    if settings.steps * speed.step + validations.seconds <= planned:
        return _fitted(settings, speed, validations)
    changes: dict[str, int] = {}
    share = VALIDATION_SHARE * max(planned, 0.0)
    if validations.seconds > share:
        fewer = _fewer_validations(validations, speed, share)
        if fewer.sentences < validations.sentences:
            changes["valid_sentences"] = fewer.sentences
        validations = fewer
    left = planned - validations.seconds
    steps = min(max(int(left / speed.step), 1), settings.steps)
    if steps < MIN_STEPS:
        updates = MIN_STEPS * speed.step
        enough = max(updates / (1 - VALIDATION_SHARE), updates + (1 + validations.averaging) * validations.cost)
        needed = (speed.startup + enough) / SAFETY - seconds
        warn(_too_short(steps, speed.step, needed))
    if validations.number:
        steps, every = whole_intervals(steps, validations.number)
        changes["validate_every"] = every
        validations = validations._replace(number=steps // every)
    changes |= {"steps": steps, "warmup": fit_warmup(settings, steps)}
    changes |= {
        "save_every": min(settings.save_every, steps),
        "log_every": min(settings.log_every, max(steps // 10, 1)),
    }
    return _fitted(settings.model_copy(update=changes), speed, validations)


class DividedTime(NamedTuple):
    """Settings of one run or of several that use up a time limit."""

    settings: TrainingSettings
    models: int = 1

    def share(self, seconds: float) -> float | None:
        """The time of each run, if there are several and a distillation."""
        return seconds / (self.models + DISTILLATION) if self.models > 1 else None


def lengthened(
    settings: TrainingSettings, speed: Speed, seconds: float, sentences: int | None, *, models: int = MAX_MODELS
) -> DividedTime:
    """Settings of longer runs that use up the time: one run, or several that are then distilled into one.

    A run of the recipe takes R of the T seconds, and a distillation `DISTILLATION` R. If two runs and a distillation
    fit, as many runs are planned as do, at most ``models``: n runs of T / (n + `DISTILLATION`) seconds each; two runs
    may have fewer steps than the recipe, if not less than `SHORTEST` of them. Otherwise there is one run of T seconds,
    to the end of its schedule: a second one would leave no time to combine the two. No run has more than
    `MAX_LENGTHENING` times the steps of the recipe; early stopping ends those of several that no longer improve. Warmup
    and the interval of validations change in proportion. Settings that do not fit once have no other steps.
    """
    planned = seconds * SAFETY
    validations = _all_validations(settings, speed, sentences)
    needed = speed.startup + settings.steps * speed.step + validations.seconds
    to_the_end = settings.model_copy(update={"patience": 0})
    if planned < needed:
        return DividedTime(to_the_end)

    def steps_of(models: int) -> float:
        """Steps of each model, if the time is divided among so many and a distillation."""
        seconds = DividedTime(settings, models).share(planned) or planned
        return (seconds - speed.startup - validations.seconds) / speed.step

    two_fit = steps_of(2) >= SHORTEST * settings.steps
    models = min(max(int(planned / needed - DISTILLATION), 1 + two_fit), models)
    steps = int(min(steps_of(models), MAX_LENGTHENING * settings.steps))
    if validations.number:
        steps, every = whole_intervals(steps, validations.number)
    else:
        every = settings.validate_every
    if models <= 1:  # what early stopping would leave is too short for a further model
        settings = to_the_end
    if steps <= settings.steps and models <= 1:
        return DividedTime(settings)
    changes = {"steps": steps, "validate_every": every, "warmup": round(settings.warmup * steps / settings.steps)}
    return DividedTime(settings.model_copy(update=changes), max(models, 1))


def whole_intervals(steps: int, count: int) -> tuple[int, int]:
    """The number of steps and the validation interval, such that the last validation is at the last step.

    ``steps`` and ``count`` (of validations) are upper bounds.
    """
    exact = max(steps / count, 1.0)
    intervals = {math.floor(exact), math.ceil(exact)}
    every = max(intervals, key=lambda every: (min(steps // every, count) * every, -every))
    return min(steps // every, count) * every, every


def _all_validations(settings: TrainingSettings, speed: Speed, sentences: int | None) -> _Validations:
    """The validations of the recipe."""
    count = settings.steps // settings.validate_every if settings.validate_every else 0
    if sentences is None or not count:
        return _Validations(0, 0, 0.0, 0)
    return _Validations(count, sentences, speed.validation(sentences), int(settings.averages))


def _fewer_validations(validations: _Validations, speed: Speed, seconds: float) -> _Validations:
    """Validations that take at most ``seconds``: with fewer sentences if only a few would fit, then fewer of them.

    However long translations take, most of the time is left for updates: an untrained model may search a hundred times
    as long as a trained one, and a plan of one update would train none. Then a validation has less than
    `MIN_SENTENCES`.
    """
    count, sentences, cost, averaging = validations
    most = seconds * MOST_VALIDATION_SHARE / VALIDATION_SHARE
    affordable = seconds / (min(count, GOOD_VALIDATIONS) + averaging)
    sentences = fitting_sentences(speed, affordable, sentences)
    sentences = fitting_sentences(speed, most / (1 + averaging), sentences, least=1)
    cost = speed.validation(sentences)
    fitting_number = int(seconds / cost) - averaging
    if fitting_number < GOOD_VALIDATIONS:
        fitting_number = max(fitting_number, min(int(most / cost) - averaging, GOOD_VALIDATIONS))
    return _Validations(max(min(count, fitting_number), 1), sentences, cost, averaging)


def fitting_sentences(speed: Speed, seconds: float, sentences: int, *, least: int = MIN_SENTENCES) -> int:
    """How many sentences a validation of ``seconds`` translates: at most ``sentences``, and not below ``least``."""
    if speed.validation(sentences) <= seconds or not speed.sentence or sentences <= least:
        return sentences
    return int(max(least, min(sentences, (seconds / VALIDATION_SAFETY - speed.loss) / speed.sentence)))


def _fitted(settings: TrainingSettings, speed: Speed, validations: _Validations) -> FittedTraining:
    seconds = speed.startup + settings.steps * speed.step + validations.seconds
    return FittedTraining(settings, validations.number, validations.cost, seconds)


def fit_warmup(settings: TrainingSettings, steps: int) -> int:
    """The warmup of a run shortened to ``steps``: in proportion, unless that would be very short."""
    proportional = round(settings.warmup * steps / settings.steps)
    return max(proportional, min(settings.warmup, MIN_WARMUP, steps // 5))


def _too_short(steps: int, step_seconds: float, needed_seconds: float) -> str:
    minutes = math.ceil(10 * needed_seconds / 60) / 10
    return (
        f"{option('minutes')}: there is time for only {plural(steps, 'step')} of {step_seconds:.3g} s, too few to "
        f"learn from; give {minutes:.1f} minutes more"
    )
