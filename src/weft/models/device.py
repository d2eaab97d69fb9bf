"""The device that a model is on."""

from __future__ import annotations

import torch

from weft.errors import RecipeError


def choose_device(name: str) -> torch.device:
    """The device of a recipe; ``auto``: CUDA if there is a GPU, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RecipeError(f"training.device: {name!r} is no device; use auto, cpu, cuda or cuda:0") from None
    if device.type not in ("cpu", "cuda"):
        raise RecipeError(f"training.device: {name!r} is not supported; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RecipeError(f"training.device: {name!r} was requested, but this machine has no CUDA; use cpu or auto")
    return device
