"""The plan of a tuning run: how many candidates, how many steps, and their recipes, from measured speeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.apps.tuning.candidates import Candidate
from weft.errors import RecipeError, option
from weft.pairs.halving import CandidateCost, affordable_steps, expected_seconds, rung_sizes, rung_steps
from weft.pairs.time_limit.budget import fit_warmup
from weft.recipe import Recipe

RESERVE = 0.9
"""The share of the time that is planned for; the rest is for the ensemble and for what takes longer than measured."""
MIN_CANDIDATES = 4
MIN_SHARE = 0.5
"""A share of the steps of the recipe: with fewer, less important candidates are left out."""
MIN_INTERVAL = 10
"""Steps between two validations; a plan with fewer would compare chance."""
VALIDATION_SHARE = 0.25
"""The share of the time for validations; if they would take longer, fewer sentences are translated."""
MIN_SENTENCES = 100
"""The smallest number of sentences that a validation is reduced to."""
VALIDATIONS = (8, 16, 24)
"""Possible numbers of validations of a full training; multiples of 8, so that each rung ends with a validation."""


@dataclass(frozen=True)
class TuningPlan:
    """The candidates to train, with the steps and validations of each rung."""

    candidates: list[str]
    steps: int
    """Steps of a candidate that is trained to the end."""
    rungs: list[int]
    """The step that each rung trains to."""
    validations: int
    valid_sentences: int
    """Sentences translated in each validation."""
    seconds: float
    """Expected time of all rungs."""


def make_plan(
    candidates: Sequence[Candidate], speeds: Mapping[str, CandidateCost], *, seconds: float, parallel: int
) -> TuningPlan:
    """A plan for the candidates whose speed is known; ``seconds``: the time that is left.

    As many candidates as allow for `MIN_SHARE` of the steps of the recipe, but at least `MIN_CANDIDATES`; fewer
    validations than the recipe has where they would follow each other too closely.
    """
    recipe = candidates[0].recipe
    wished, limit = number_of_validations(recipe), recipe.training.steps
    for validations in sorted((count for count in VALIDATIONS if count <= wished), reverse=True):
        measured = [candidate for candidate in candidates if candidate.name in speeds]
        sentences = _sentences(recipe, list(speeds.values()), validations, seconds=seconds, parallel=parallel)
        shorter = sentences / recipe.training.valid_sentences
        while True:
            known = [speeds[candidate.name] for candidate in measured]
            known = [speed._replace(validation=speed.validation * shorter) for speed in known]
            steps = affordable_steps(known, seconds * RESERVE, validations=validations, parallel=parallel, limit=limit)
            if steps >= MIN_SHARE * limit or len(measured) <= MIN_CANDIDATES:
                break
            measured = measured[:-1]
        least = min(MIN_INTERVAL, max(limit // validations, 1)) * validations
        if steps >= least:
            break
    else:
        needed = expected_seconds(known, least, validations=validations, parallel=parallel) / RESERVE - seconds
        raise RecipeError(
            f"{option('minutes')}: {max(seconds, 0.0):.0f} s are left after measuring the speed, time for {steps} "
            f"steps of each candidate; give at least {math.ceil(needed / 60)} min more"
        )
    return TuningPlan(
        candidates=[candidate.name for candidate in measured],
        steps=steps,
        rungs=rung_steps(steps, len(rung_sizes(len(measured)))),
        validations=validations,
        valid_sentences=sentences,
        seconds=expected_seconds(known, steps, validations=validations, parallel=parallel),
    )


def _sentences(
    recipe: Recipe, speeds: Sequence[CandidateCost], validations: int, *, seconds: float, parallel: int
) -> int:
    """The number of sentences that each validation translates."""
    sentences = recipe.training.valid_sentences
    share = validation_share(speeds, validations, seconds=seconds, parallel=parallel)
    return min(sentences, max(round(sentences * share), MIN_SENTENCES)) if share < 1.0 else sentences


def number_of_validations(recipe: Recipe) -> int:
    """The number of validations of a candidate: that of the recipe, within the limits of rungs and time."""
    training = recipe.training
    wished = training.steps / training.validate_every if training.validate_every else 0
    return min(VALIDATIONS, key=lambda count: abs(count - wished))


def validation_share(speeds: Sequence[CandidateCost], validations: int, *, seconds: float, parallel: int) -> float:
    """The fraction of the sentences with which validations take at most `VALIDATION_SHARE` of the time."""
    rungs = zip(rung_sizes(len(speeds)), rung_steps(validations, len(rung_sizes(len(speeds)))), strict=True)
    count, reached = 0, 0
    for size, until in rungs:
        count, reached = count + size * (until - reached), until
    needed = count * sum(speed.validation for speed in speeds) / len(speeds) / parallel
    return min(VALIDATION_SHARE * max(seconds, 0.0) / needed, 1.0) if needed else 1.0


def fitted(recipe: Recipe, plan: TuningPlan) -> Recipe:
    """The recipe with the steps and validations of a plan; settings that count in these units are scaled too."""
    training, steps, validations = recipe.training, plan.steps, plan.validations
    before = training.steps / training.validate_every if training.validate_every else validations
    changes = {
        "steps": steps,
        "warmup": fit_warmup(training, steps),
        "validate_every": steps // validations,
        "valid_sentences": min(training.valid_sentences, plan.valid_sentences),
        "patience": _scaled(training.patience, validations / before),
        "decay_patience": _scaled(training.decay_patience, validations / before),
    }
    return recipe.model_copy(update={"training": training.model_copy(update=changes)})


def _scaled(count: int, factor: float) -> int:
    """A scaled count, at least 1; 0 stays 0 (never)."""
    return max(round(count * factor), 1) if count else 0
