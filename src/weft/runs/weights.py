"""A model's weights by name: loaded from a checkpoint or from another run, and averaged over checkpoints."""

from __future__ import annotations

import torch

from weft.errors import CheckpointError
from weft.runs.tensor_files import Tensors


def model_tensors(model: torch.nn.Module) -> Tensors:
    """A model's weights by name; a tied tensor is listed once, under its first name."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: torch.nn.Module, tensors: Tensors, *, where: str) -> None:
    """Copy weights into a model; names and shapes must be exactly those of its parameters."""
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


def initialize_from(model: torch.nn.Module, tensors: Tensors, *, where: str) -> None:
    """Initialize a model with the weights of another run; new rows of a larger vocabulary stay as they are."""
    parameters = dict(model.named_parameters())
    for name in [*parameters, *tensors]:
        if name not in tensors or name not in parameters:
            kind = "lacks" if name not in tensors else "has"
            raise CheckpointError(
                f"--from {where}: another model: it {kind} tensor {name!r}; use the [model] of its recipe.toml"
            )
        shape, saved = parameters[name].shape, tensors[name].shape
        extended = _is_vocabulary_table(name) and shape[0] >= saved[0] and shape[1:] == saved[1:]
        if shape != saved and not extended:
            raise CheckpointError(
                f"--from {where}: another model: tensor {name!r} is {tuple(saved)} there and {tuple(shape)} here; "
                "use the [model] and the tokenizer of its run"
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter[: len(tensors[name])].copy_(tensors[name])


def _is_vocabulary_table(name: str) -> bool:
    """Whether a tensor has one row per token id."""
    return name.rpartition(".")[2] in ("weight_VE", "weight_VD", "bias_V")


def average(checkpoints: list[Tensors]) -> Tensors:
    """The mean of several checkpoints, tensor by tensor."""
    return {name: torch.stack([tensors[name] for tensors in checkpoints]).mean(0) for name in checkpoints[0]}
