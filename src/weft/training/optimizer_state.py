"""The state of the optimizer and of the random number generators as named tensors, for checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.errors import CheckpointError
from weft.runs.weights import Tensors
from weft.training.distributed import full_tensor, shard_like


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """An optimizer's state as tensors named ``PARAMETER.STATE``; if it is sharded, every worker must call this."""
    return {
        f"{parameter}.{name}": full_tensor(torch.as_tensor(value))
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
