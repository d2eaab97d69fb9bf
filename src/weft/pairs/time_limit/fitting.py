"""Fitting a recipe to a time limit: the speed is measured, and the settings of [training] are reduced to what fits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple, Protocol

from weft.data.preparation import has_corpus, read_corpus
from weft.errors import RecipeError, option
from weft.evaluation.pairs import GROUPINGS
from weft.pairs.time_limit.batch_size import BatchSpeed, batch_for
from weft.pairs.time_limit.budget import (
    EVALUATION_SHARE,
    SAFETY,
    DividedTime,
    Speed,
    TimeLimit,
    fit_settings,
    fit_warmup,
    fitting_sentences,
    lengthened,
)
from weft.pairs.time_limit.speed import MeasuredRun, measure
from weft.recipe import Recipe, TrainingSettings
from weft.recipe.data import as_list
from weft.training.events import Fitted
from weft.training.train import FittedRun, NewRun
from weft.training.update import TrainingContext, decide_compilation
from weft.training.validation import RecipeValidation

MEASURED_SHARE = 0.02
"""The fraction of the time for which updates are measured."""
MEASURED_SECONDS = (0.5, 8.0)
"""Bounds of the time for which updates are measured, in seconds."""
BATCH_SECONDS = 0.5
"""The fraction of these seconds for which updates on smaller batches are measured."""
MOST_LOSS = 0.12
"""The fraction of the time that the loss of a validation is planned to take at most."""
PROBE_VALIDATIONS_SHARE = 0.25
"""The fraction of the time of a probe that its validations take, unless the fewest sentences take longer."""
EVALUATION_SAFETY = 1.3
LOADING_SECONDS = 2.0
"""Loading the finished run."""


class _Evaluation(NamedTuple):
    """The evaluation that is planned after training."""

    seconds: float = 0.0
    items: int | None = None
    """None: all."""
    item_seconds: float = 0.0


class _Measurement(NamedTuple):
    """A run before it is fitted: its settings, how fast it is, and its validations."""

    settings: TrainingSettings
    speed: Speed
    validation: RecipeValidation | None

    @property
    def sentences(self) -> int | None:
        """How many a validation translates; None if there are no validations."""
        return None if self.validation is None else self.validation.searched


def _measure_run(
    run: NewRun, limit: TimeLimit, observed: Speed | None = None, *, batch_seconds: float = 0.0
) -> _Measurement:
    """``batch_seconds``: the time to choose the batch for, if it may be smaller than that of the recipe; 0: it may
    not."""
    recipe, model, prepared, validation_pairs, device, teacher = run
    settings = decide_compilation(recipe.training, model, device, limit.remaining())
    recipe = recipe.model_copy(update={"training": settings})
    validation = None if validation_pairs is None else RecipeValidation(recipe, validation_pairs, prepared, device)
    if observed is not None:
        return _Measurement(settings, believed(observed, limit), validation)
    shortest, longest = MEASURED_SECONDS
    seconds = min(max(MEASURED_SHARE * 60 * limit.minutes, shortest), longest)
    context = TrainingContext(settings, recipe.seed, device, teacher=teacher)
    measured = MeasuredRun(model, prepared.data, context, validation)
    translates = recipe.source_role != "none" and (settings.metric != "loss" or limit.evaluates)
    speed = believed(measure(measured, seconds=seconds, translates=translates), limit)

    def measure_batch(tokens: int) -> Speed:
        smaller = context.settings.model_copy(update={"batch_tokens": tokens})
        updates = measured._replace(context=replace(context, settings=smaller), validation=None)
        return measure(updates, seconds=BATCH_SECONDS * seconds, translates=False)

    batch = BatchSpeed(settings.batch_tokens, speed)
    if batch_seconds:
        batch = batch_for(batch, measure_batch, seconds=batch_seconds, steps=settings.steps)
    settings = settings.model_copy(update={"batch_tokens": batch.tokens})
    return _Measurement(settings, batch.speed, validation)


def believed(speed: Speed, limit: TimeLimit) -> Speed:
    """The speed that is planned with: the loss of a validation takes at most `MOST_LOSS` of the time.

    The first losses of pictures took 380 s on a GPU that others used, of 210 s that were given, and a plan of one
    update was made. Two validations of that length leave two thirds of the time for updates.
    """
    return speed._replace(loss=min(speed.loss, MOST_LOSS * 60 * limit.minutes))


def fit_run(
    run: NewRun, limit: TimeLimit, *, models: int = 0, observed: Speed | None = None, fits_batch: bool = False
) -> FittedRun:
    """The recipe of a run with settings that fit into the limit.

    ``models``: use up the time, with more steps than the recipe has, for one model or at most so many (`lengthened`).
    ``fits_batch``: batches may be smaller than those of the recipe, if only a part of its steps fits (batch_size.py).
    ``observed``: the speed of another training of this recipe, so that none is measured: on a GPU, that would compile
    and capture everything once more.
    """
    recipe = run.recipe
    batch_seconds = limit.remaining() if fits_batch else 0.0
    settings, speed, _ = measured = _measure_run(run, limit, observed, batch_seconds=batch_seconds)
    sentences = measured.sentences
    evaluation = _evaluation(recipe, speed, measured.validation, limit)
    left = limit.remaining() - evaluation.seconds
    longer = lengthened(settings, speed, left, sentences, models=models) if models else DividedTime(settings)
    fitted = fit_settings(longer.settings, speed, left, sentences)
    _check_corpora(recipe, fitted.settings.steps)
    event = Fitted(
        step=0,
        minutes=limit.minutes,
        steps=fitted.settings.steps,
        recipe_steps=settings.steps,
        step_seconds=speed.step,
        validations=fitted.validations,
        validation_seconds=fitted.validation_seconds,
        seconds=fitted.seconds,
        closing_seconds=fitted.closing_seconds + evaluation.seconds,
        test_items=evaluation.items,
        item_seconds=evaluation.item_seconds,
        share_seconds=longer.share(left),
        batch_tokens=_smaller_batch(settings, recipe),
    )
    return FittedRun(recipe.model_copy(update={"training": fitted.settings}), event, limit.end - event.closing_seconds)


def _smaller_batch(settings: TrainingSettings, recipe: Recipe) -> int | None:
    """Tokens of a batch, if they are fewer than those of the recipe."""
    return settings.batch_tokens if settings.batch_tokens < recipe.training.batch_tokens else None


def fit_probe(run: NewRun, seconds: float, *, validations: int, batch_seconds: float = 0.0) -> tuple[FittedRun, Speed]:
    """The recipe of a run that trains for some seconds, with this many validations at equal intervals; its speed.

    ``batch_seconds``: the time that the recipe will have if it wins, for which its batch is chosen; 0: the recipe's.
    What the first updates take in addition does not count: kernels are compiled when the speed is measured, and how
    long that took says nothing about the network. There is no deadline.
    """
    limit = TimeLimit.from_now(seconds / 60)
    settings, speed, _ = measured = _measure_run(run, limit, batch_seconds=batch_seconds)
    affordable = PROBE_VALIDATIONS_SHARE * SAFETY * seconds / validations
    sentences = fitting_sentences(speed, affordable, measured.sentences or 0)
    updates = SAFETY * seconds - validations * speed.validation(sentences)
    every = max(min(int(updates / speed.step), settings.steps) // validations, 1)
    steps = every * validations
    changes = {"steps": steps, "validate_every": every, "valid_sentences": sentences}
    changes |= {"warmup": fit_warmup(settings, steps), "save_every": min(settings.save_every, steps)}
    event = Fitted(
        step=0,
        minutes=seconds / 60,
        steps=steps,
        recipe_steps=settings.steps,
        step_seconds=speed.step,
        validations=validations,
        validation_seconds=speed.validation(sentences),
        seconds=steps * speed.step + validations * speed.validation(sentences),
        batch_tokens=_smaller_batch(settings, run.recipe),
    )
    fitted = settings.model_copy(update=changes if measured.validation is not None else {"steps": steps})
    return FittedRun(run.recipe.model_copy(update={"training": fitted}), event, math.inf), speed


def _evaluation(recipe: Recipe, speed: Speed, validation: RecipeValidation | None, limit: TimeLimit) -> _Evaluation:
    """The duration of the evaluation on the test set, and its planned number of items."""
    items = evaluation_size(recipe) if limit.evaluates else 0
    if not items:
        return _Evaluation()
    most = max(EVALUATION_SHARE * 60 * limit.minutes, LOADING_SECONDS) - LOADING_SECONDS
    if validation is None:
        return _Evaluation(LOADING_SECONDS + most)
    each = EVALUATION_SAFETY * (speed.loss / len(validation.encoded) + speed.sentence)
    if items * each <= most:
        return _Evaluation(LOADING_SECONDS + items * each, None, each)
    affordable = max(int(most / each), 1)
    return _Evaluation(LOADING_SECONDS + affordable * each, affordable, each)


def evaluation_size(recipe: Recipe) -> int:
    """The number of items of the test set, or of the validation set in its place."""
    split = "test" if has_corpus(recipe, "test") else "valid"
    if not has_corpus(recipe, split):
        return 0
    return len(GROUPINGS[recipe.evaluation.references](read_corpus(recipe, split)).sources)


class EvaluationPlan(Protocol):
    """The number of test items that time is reserved for (None: all), and the time per item."""

    @property
    def test_items(self) -> int | None: ...
    @property
    def item_seconds(self) -> float: ...


def evaluation_items_within(recipe: Recipe, plan: EvaluationPlan, seconds: float) -> int | None:
    """The number of test items to evaluate in the time that is left at the end; None: all of them.

    At least as many as were planned, for which time was reserved.
    """
    if plan.test_items is None or not plan.item_seconds:
        return None
    affordable = max(int((seconds - LOADING_SECONDS) / plan.item_seconds), plan.test_items, 1)
    return None if affordable >= evaluation_size(recipe) else affordable


def evaluation_reserve(recipe: Recipe, limit: TimeLimit, item_seconds: float) -> tuple[float, int | None]:
    """Seconds to be left for the evaluation at the end, and for how many items of the test set; None: all."""
    items = evaluation_size(recipe) if limit.evaluates else 0
    if not items:
        return 0.0, None
    most = EVALUATION_SHARE * 60 * limit.minutes
    if items * item_seconds <= most:
        return LOADING_SECONDS + items * item_seconds, None
    return LOADING_SECONDS + most, max(int(most / item_seconds), 1)


def _check_corpora(recipe: Recipe, steps: int) -> None:
    """Refuse to leave out a corpus that the recipe trains on only later."""
    for corpus in as_list(recipe.data.train):
        first = getattr(corpus, "first_step", 1)
        if first > steps:
            raise RecipeError(
                f"{option('minutes')}: a corpus of data.train starts at step {first:,}, but {steps:,} steps fit into "
                "the time; give more minutes, or lower its first_step"
            )
