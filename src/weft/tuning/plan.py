"""The plan of a tuning run: how many candidates, how many steps, and their recipes, from measured speeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.recipe import Recipe
from weft.tuning.candidates import Candidate
from weft.tuning.halving import Speed, affordable_steps, expected_seconds, rung_sizes, rung_steps

RESERVE = 0.9
"""The share of the time that is planned for; the rest is for the ensemble and for what takes longer than measured."""
MIN_CANDIDATES = 4
MIN_SHARE = 0.5
"""Of the steps of the recipe: with fewer, less important candidates are left out."""
VALIDATIONS = (8, 16, 24)
"""How often a training that is not stopped is validated; multiples of 8, so that each rung ends with a validation."""


@dataclass(frozen=True)
class Plan:
    """What will be trained."""

    candidates: list[str]
    steps: int
    """Of a training that is not stopped."""
    rungs: list[int]
    """The step that each rung trains to."""
    validations: int
    seconds: float
    """Expected, of all rungs."""


def make_plan(candidates: Sequence[Candidate], speeds: Mapping[str, Speed], *, seconds: float, parallel: int) -> Plan:
    """A plan for those candidates whose speed is known; ``seconds``: what is left of the time.

    As many candidates as allow for `MIN_SHARE` of the steps of the recipe, but at least `MIN_CANDIDATES`.
    """
    measured = [candidate for candidate in candidates if candidate.name in speeds]
    recipe = candidates[0].recipe
    validations = number_of_validations(recipe)
    limit = recipe.training.steps
    while True:
        known = [speeds[candidate.name] for candidate in measured]
        steps = affordable_steps(known, seconds * RESERVE, validations=validations, parallel=parallel, limit=limit)
        if steps >= MIN_SHARE * limit or len(measured) <= MIN_CANDIDATES:
            break
        measured = measured[:-1]
    return Plan(
        candidates=[candidate.name for candidate in measured],
        steps=steps,
        rungs=rung_steps(steps, len(rung_sizes(len(measured)))),
        validations=validations,
        seconds=expected_seconds(known, steps, validations=validations, parallel=parallel),
    )


def number_of_validations(recipe: Recipe) -> int:
    """As often as the recipe validates, as far as the rungs and the time allow."""
    training = recipe.training
    wished = training.steps / training.validate_every if training.validate_every else 0
    return min(VALIDATIONS, key=lambda count: abs(count - wished))


def fitted(recipe: Recipe, steps: int, validations: int) -> Recipe:
    """The recipe for so many steps and validations; what is counted in steps or validations is scaled with them."""
    training = recipe.training
    before = training.steps / training.validate_every if training.validate_every else validations
    changes = {
        "steps": steps,
        "warmup": min(round(training.warmup * min(steps / training.steps, 1.0)), steps),
        "validate_every": steps // validations,
        "patience": _scaled(training.patience, validations / before),
        "decay_patience": _scaled(training.decay_patience, validations / before),
    }
    return recipe.model_copy(update={"training": training.model_copy(update=changes)})


def _scaled(count: int, factor: float) -> int:
    """0 stays 0: never."""
    return max(round(count * factor), 1) if count else 0
