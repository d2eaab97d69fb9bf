"""Fitting a recipe to a time limit: the speed is measured, and the settings of [training] are reduced to what fits."""

from __future__ import annotations

from weft.data.preparation import has_corpus, read_corpus
from weft.errors import RecipeError, option
from weft.evaluation.pairs import GROUPINGS
from weft.pairs.time_limit.budget import EVALUATION_SHARE, Speed, TimeLimit, fit_settings
from weft.pairs.time_limit.speed import Measured, measure
from weft.recipe import Recipe
from weft.recipe.corpus import as_list
from weft.training.events import Fitted
from weft.training.train import FittedRun, NewRun
from weft.training.update import TrainingContext, decide_compilation
from weft.training.validation import RecipeValidation

MEASURED_SHARE = 0.02
"""The fraction of the time for which updates are measured."""
MEASURED_SECONDS = (0.5, 8.0)
"""Bounds of the time for which updates are measured, in seconds."""
EVALUATION_SAFETY = 1.3
LOADING_SECONDS = 2.0
"""Loading the finished run."""


def fit_run(run: NewRun, limit: TimeLimit) -> FittedRun:
    """The recipe of a run with settings that fit into the limit."""
    recipe, model, prepared, validation_pairs, device, teacher = run
    settings = decide_compilation(recipe.training, model, device, limit.remaining())
    recipe = recipe.model_copy(update={"training": settings})
    validation = None if validation_pairs is None else RecipeValidation(recipe, validation_pairs, prepared, device)
    shortest, longest = MEASURED_SECONDS
    seconds = min(max(MEASURED_SHARE * 60 * limit.minutes, shortest), longest)
    context = TrainingContext(settings, recipe.seed, device, teacher=teacher)
    measured = Measured(model, prepared.data, context, validation)
    translates = recipe.source_role != "none" and (settings.metric != "loss" or limit.evaluates)
    speed = measure(measured, seconds=seconds, translates=translates)
    sentences = None if validation is None else validation.searched
    evaluation, test_items = _evaluation(recipe, speed, validation, limit)
    fitted = fit_settings(settings, speed, limit.remaining() - evaluation, sentences)
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
        closing_seconds=fitted.closing_seconds + evaluation,
        test_items=test_items,
    )
    return FittedRun(recipe.model_copy(update={"training": fitted.settings}), event, limit.end - event.closing_seconds)


def _evaluation(
    recipe: Recipe, speed: Speed, validation: RecipeValidation | None, limit: TimeLimit
) -> tuple[float, int | None]:
    """Seconds for an evaluation on the test set, and how many items of it; None: all."""
    if not limit.evaluates:
        return 0.0, None
    split = "test" if has_corpus(recipe, "test") else "valid"
    if not has_corpus(recipe, split):
        return 0.0, None
    items = len(GROUPINGS[recipe.evaluation.references](read_corpus(recipe, split)).sources)
    most = max(EVALUATION_SHARE * 60 * limit.minutes, LOADING_SECONDS) - LOADING_SECONDS
    if validation is None:
        return LOADING_SECONDS + most, None
    each = EVALUATION_SAFETY * (speed.loss / len(validation.encoded) + speed.sentence)
    if items * each <= most:
        return LOADING_SECONDS + items * each, None
    affordable = max(int(most / each), 1)
    return LOADING_SECONDS + affordable * each, affordable


def _check_corpora(recipe: Recipe, steps: int) -> None:
    """Refuse to leave out a corpus that the recipe trains on only later."""
    for corpus in as_list(recipe.data.train):
        first = getattr(corpus, "first_step", 1)
        if first > steps:
            raise RecipeError(
                f"{option('minutes')}: a corpus of data.train starts at step {first:,}, but {steps:,} steps fit into "
                "the time; give more minutes, or lower its first_step"
            )
