"""A model's weights by name: put into it from a checkpoint, from another run, and averaged."""

from __future__ import annotations

import torch

from weft.errors import CheckpointError
from weft.runs.folder import Tensors


def model_tensors(model: torch.nn.Module) -> Tensors:
    """A model's weights by name; a shared tensor stands once, under its first name."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: torch.nn.Module, tensors: Tensors, *, where: str) -> None:
    """Put weights into a model; they must be just the ones it has."""
    parameters = dict(model.named_parameters())
    for name in [*parameters, *tensors]:
        if name not in tensors or name not in parameters:
            kind = "lacks" if name not in tensors else "has an unknown"
            raise CheckpointError(f"{where}: does not fit its recipe: it {kind} tensor {name!r}")
        if parameters[name].shape != tensors[name].shape:
            raise CheckpointError(
                f"{where}: does not fit its recipe: tensor {name!r} is {tuple(tensors[name].shape)}, "
                f"expected {tuple(parameters[name].shape)}"
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def start_weights(model: torch.nn.Module, tensors: Tensors, *, where: str) -> None:
    """Begin with the weights of another run. Tables of a vocabulary may be longer here: what is new stays fresh."""
    parameters = dict(model.named_parameters())
    for name in [*parameters, *tensors]:
        if name not in tensors or name not in parameters:
            kind = "lacks" if name not in tensors else "has"
            raise CheckpointError(
                f"--from {where}: another model: it {kind} tensor {name!r}; use the [model] of its recipe.toml"
            )
        here, there = parameters[name].shape, tensors[name].shape
        longer = _is_table(name) and here[0] >= there[0] and here[1:] == there[1:]
        if here != there and not longer:
            raise CheckpointError(
                f"--from {where}: another model: tensor {name!r} is {tuple(there)} there and {tuple(here)} here; "
                "use the [model] and the tokenizer of its run"
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter[: len(tensors[name])].copy_(tensors[name])


def _is_table(name: str) -> bool:
    """Whether a tensor has a row for every id of a vocabulary."""
    return name.rpartition(".")[2] in ("weight_VE", "weight_VD", "bias_V")


def mean_of(many: list[Tensors]) -> Tensors:
    """The mean of several checkpoints, tensor by tensor."""
    return {name: torch.stack([tensors[name] for tensors in many]).mean(0) for name in many[0]}
