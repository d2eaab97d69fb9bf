"""An exponential moving average of the weights, validated and delivered in place of the weights (training.ema).

    a_0 = θ_0        a_t = β_t a_{t−1} + (1 − β_t) θ_t        β_t = min(β, (1 + t) / (10 + t))

θ_t are the weights after update t, β is training.ema. Polyak & Juditsky 1992 average all θ_t equally; the exponential
form, and the smaller β_t of the first updates, which forget θ_0, are those of TensorFlow's ExponentialMovingAverage. An
update that was skipped counts: its weights are those before it. The average is kept in float32, of the weights that are
trained: of adapters if there are any, and never of frozen weights.
"""

from __future__ import annotations

import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn

from weft.errors import CheckpointError
from weft.models.interface import Model
from weft.runs.weights import Tensors, check_shapes, saved_parameters, shapes_of
from weft.training.loss import single_precision

PREFIX = "ema."
"""Prefix of the averages' names in a checkpoint."""


class MovingAverage:
    """The average of the weights of a model in training."""

    def __init__(self, model: Model, decay: float) -> None:
        """``decay``: β."""
        self.decay = decay
        self.trained = {name: weight for name, weight in saved_parameters(model).items() if weight.requires_grad}
        self.averages: Tensors = {
            name: single_precision(weight.detach()).clone() for name, weight in self.trained.items()
        }

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the weights after update ``step``, counted from 1, into account."""
        decay = min(self.decay, (1 + step) / (10 + step))
        get_ema_multi_avg_fn(decay)(list(self.averages.values()), list(self.trained.values()), step)

    def checkpoint_tensors(self) -> Tensors:
        """The averages by their names in a checkpoint."""
        return {f"{PREFIX}{name}": average for name, average in self.averages.items()}

    def restore(self, tensors: Tensors, *, where: str) -> None:
        """The inverse of `checkpoint_tensors`."""
        saved = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}
        if not saved:
            raise CheckpointError(f"{where}: damaged; the moving average of the weights (training.ema) is missing")
        check_shapes(shapes_of(self.averages), shapes_of(saved), where=where)
        for name, average in self.averages.items():
            average.copy_(saved[name])
