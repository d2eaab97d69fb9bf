"""The optimizer of a recipe, the parameters it trains at which learning rate, schedules, and its state in checkpoints.

training.freeze        parameters whose names match a pattern are not trained
training.layer_decay   layer i of a stack of L layers has the rate η d^(L − i), the embeddings have η d^L with the
                       larger L, and all others η   (per stack, after Clark et al. 2020)

A schedule is a factor of the peak learning rate for every step (counted from 1). Each begins with a linear warmup of
``warmup`` steps. `plateau` is constant between the decays that validations cause; the training loop multiplies those
in. To add a schedule: write the function, and add its line to `weft.recipe.choices.SCHEDULES`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from weft.errors import CheckpointError, RecipeError, nearest
from weft.models.interface import Model
from weft.recipe import TrainingSettings
from weft.recipe.choices import SCHEDULES, resolve
from weft.runs.weights import Tensors
from weft.runtime.replaceable import replaceable
from weft.training.distributed import is_sharded, shard_like

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
}
RATE_FACTOR = "rate_factor"
"""The entry of an optimizer's parameter group that its learning rate is multiplied by."""
LAYER = re.compile(r"(.*?)\blayers\.(\d+)\.")
EMBEDDING = re.compile(r"(^|\.)(\w*embedding(_norm)?|positions|input_projection)(\.|$)")

Rate = TypeVar("Rate", float, Tensor)


def make_optimizer(model: Model, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The optimizer of a recipe: fused, and on a GPU capturable in a CUDA graph."""
    learning_rate, weight_decay = settings.learning_rate, settings.weight_decay
    first = next(model.parameters())
    parameters = parameter_groups(model, settings)
    if settings.optimizer == "sgd":
        fused = not is_sharded(first)  # PyTorch has no fused SGD for sharded parameters
        return optimizer_class("sgd")(
            parameters, lr=learning_rate, momentum=settings.momentum, weight_decay=weight_decay, fused=fused
        )
    return optimizer_class(settings.optimizer)(
        parameters,
        lr=learning_rate,
        betas=(settings.beta1, settings.beta2),
        weight_decay=weight_decay,
        fused=True,
        capturable=first.is_cuda,
    )


@replaceable
def optimizer_class(name: str) -> Callable[..., torch.optim.Optimizer]:
    """The class of an optimizer by the value of training.optimizer."""
    return OPTIMIZERS[name]


# Parameters


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
    """The parameters that are trained, in groups of the same learning rate."""
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if settings.layer_decay == 1.0:
        return list(parameters.values())
    every = [name for name, _ in model.named_parameters()]
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in parameters.items():
        groups.setdefault(settings.layer_decay ** layers_above(name, every), []).append(parameter)
    return [{"params": members, RATE_FACTOR: factor} for factor, members in groups.items()]


def layers_above(name: str, names: Iterable[str]) -> int:
    """The number of layers above a parameter in its stack; embeddings are below the taller stack."""
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


# Checkpoints


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """An optimizer's state as tensors named ``PARAMETER.STATE``, sharded if the optimizer's are."""
    return {
        f"{parameter}.{name}": torch.as_tensor(value)
        for parameter, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors, *, where: str) -> None:
    """The inverse of `optimizer_tensors`."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, state_name = name.partition(".")
        known = number.isdigit() and int(number) < len(parameters)
        if not known or (tensor.dim() and tensor.shape != parameters[int(number)].shape):
            raise CheckpointError(f"{where}: does not fit its recipe: optimizer tensor {name!r} {tuple(tensor.shape)}")
        value = shard_like(tensor, like=parameters[int(number)]) if tensor.dim() else tensor
        state.setdefault(int(number), {})[state_name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def rng_tensors() -> Tensors:
    """The states of the random number generators."""
    states = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["random.cuda"] = torch.cuda.get_rng_state()
    return states


def restore_rng(tensors: Tensors, *, where: str) -> None:
    """The inverse of `rng_tensors`."""
    if "random.cpu" not in tensors:
        raise CheckpointError(f"{where}: damaged; the state of the random numbers is missing")
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random.cuda"])


Schedule = Callable[[int], float]


def constant(step: int, *, warmup: int, steps: int) -> float:
    """1 after the warmup."""
    return min(1.0, step / warmup) if warmup else 1.0


def inverse_sqrt(step: int, *, warmup: int, steps: int) -> float:
    """√(warmup / step) after the warmup   Vaswani et al. 2017, 5.3 (there without a separate peak)."""
    warmup = max(warmup, 1)
    return min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, *, warmup: int, steps: int) -> float:
    """(1 + cos π·progress) / 2, from the end of the warmup to the last step   Loshchilov & Hutter 2017."""
    if step <= warmup:
        return step / warmup
    progress = min((step - warmup) / max(steps - warmup, 1), 1.0)
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def make_schedule(settings: TrainingSettings) -> Schedule:
    """The schedule of a recipe."""
    function = resolve(SCHEDULES, settings.schedule)
    return lambda step: function(step, warmup=settings.warmup, steps=settings.steps)
