"""The device that a model is on, and mixed precision there, for which `torch.autocast` asks by the name of a device."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.errors import RecipeError


def choose_device(name: str, *, given: str | None = None) -> torch.device:
    """The device of a recipe; ``auto``: CUDA if there is a GPU, else the CPU.

    ``given``: the option that named it, for messages; by default it is the setting training.device.
    """
    subject = f"training.device: {name!r}" if given is None else f"{given}:"
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RecipeError(f"{subject} is not a device; use auto, cpu, cuda or cuda:0") from None
    if device.type not in ("cpu", "cuda"):
        raise RecipeError(f"{subject} is not supported; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        was_requested = " was requested, but" if given is None else ""
        raise RecipeError(f"{subject}{was_requested} this machine has no CUDA; use cpu or auto")
    return device


def autocast_dtype(values: Tensor) -> torch.dtype:
    """The type in which autocast multiplies such values; without autocast, their own."""
    device_type = values.device.type
    return torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else values.dtype


def without_autocast(values: Tensor) -> torch.autocast:
    """A block in which these values, and others on their device, are multiplied in their own type."""
    return torch.autocast(values.device.type, enabled=False)
