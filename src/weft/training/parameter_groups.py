"""Which parameters an optimizer trains, and at which share of the learning rate.

training.freeze        parameters whose names match a pattern are not trained
training.layer_decay   layer i of a stack of L layers has the rate η d^(L − i), the embeddings have η d^L with the
                       larger L, and all others η   (per stack, after Clark et al. 2020)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from torch import Tensor, nn

from weft.errors import RecipeError, nearest
from weft.models.interface import Model
from weft.recipe import TrainingSettings

RATE_FACTOR = "rate_factor"
"""The entry of an optimizer's parameter group that its learning rate is multiplied by."""
LAYER = re.compile(r"(.*?)\blayers\.(\d+)\.")
EMBEDDING = re.compile(r"(^|\.)(\w*embedding(_norm)?|positions|input_projection)(\.|$)")

Rate = TypeVar("Rate", float, Tensor)


def freeze(model: Model, patterns: Iterable[str]) -> None:
    """Exclude the parameters with matching names from training; a pattern that no name matches is an error."""
    parameters = dict(model.named_parameters())
    for pattern in patterns:
        matching = [name for name in parameters if fnmatchcase(name, pattern)]
        if not matching:
            known = (
                nearest(pattern, parameters) if "*" not in pattern else f"there are {', '.join(_groups(parameters))}"
            )
            raise RecipeError(f"training.freeze: no weight of this model matches {pattern!r}; {known}")
        for name in matching:
            parameters[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in parameters.values()):
        raise RecipeError("training.freeze: all weights are frozen, so that nothing is left to train")


def _groups(names: Iterable[str]) -> list[str]:
    """The first parts of names, each once, as patterns."""
    return list(dict.fromkeys(f"{name.partition('.')[0]}.*" for name in names))


def parameter_groups(model: Model, settings: TrainingSettings) -> list[dict[str, Any]] | list[nn.Parameter]:
    """What an optimizer is made of: the parameters that are trained, in groups of the same learning rate."""
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if settings.layer_decay == 1.0:
        return list(parameters.values())
    every = [name for name, _ in model.named_parameters()]
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in parameters.items():
        groups.setdefault(settings.layer_decay ** layers_above(name, every), []).append(parameter)
    return [{"params": members, RATE_FACTOR: factor} for factor, members in groups.items()]


def layers_above(name: str, names: Iterable[str]) -> int:
    """How many layers of its stack are above a parameter; embeddings are below the taller stack."""
    heights: dict[str, int] = {}
    for each in names:
        if match := LAYER.match(each):
            heights[match[1]] = max(heights.get(match[1], 0), int(match[2]) + 1)
    if match := LAYER.match(name):
        return heights[match[1]] - 1 - int(match[2])
    return max(heights.values(), default=0) if EMBEDDING.search(name) else 0


def group_rate(group: dict[str, Any], learning_rate: Rate) -> Rate:
    """The learning rate of a parameter group."""
    factor = group.get(RATE_FACTOR, 1.0)
    return learning_rate if factor == 1.0 else learning_rate * factor
