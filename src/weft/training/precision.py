"""The floating-point precision of a training run (``training.precision``): fp32, tf32 or bf16."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from weft.models.interface import Model
from weft.models.recurrent import RecurrentStack
from weft.recipe import TrainingSettings


def is_recurrent(model: Model) -> bool:
    """Whether a model has recurrent layers."""
    return any(isinstance(module, RecurrentStack | nn.RNNBase) for module in model.modules())


def resolve_precision(model: Model, settings: TrainingSettings, device: torch.device) -> str:
    """The precision that is used; ``auto``: fp32 on a CPU; on a GPU, tf32 for recurrent models, else bf16."""
    if settings.precision != "auto":
        return settings.precision
    if device.type != "cuda":
        return "fp32"
    return "tf32" if is_recurrent(model) else "bf16"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context for forward passes and losses: automatic mixed precision if ``precision`` is bf16."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()
