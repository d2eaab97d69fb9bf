"""One update of the weights: the loss of a few batches, gradients clipped, one step of the optimiser.

An update whose loss or gradient is not finite leaves the weights as they were. What was measured is asked for
later (`Pending.result`): on a GPU the next update is on its way by then, and nothing waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from weft.data.store import Batch
from weft.models import AnyModel
from weft.settings import TrainingSettings
from weft.training.loss import batch_loss


@dataclass(frozen=True)
class Measured:
    """What an update finds out."""

    fetch: Callable[[], tuple[float, float]]
    """The loss of a target token and the gradient's norm; waits until they are known."""
    later: bool = False
    """Whether it pays to ask only after the next update was started."""


class Update(Protocol):
    """Makes the update of one step."""

    def __call__(self, batches: list[Batch], *, rate: float, own: float) -> Measured:
        """``own``: the share of the model's own predictions that the decoder reads."""


def precision_of(model: AnyModel, settings: TrainingSettings, device: torch.device) -> str:
    """fp32, tf32 or bf16; auto: bf16 for Transformers on a GPU, tf32 for the others there."""
    if settings.precision != "auto":
        return settings.precision
    if device.type != "cuda":
        return "fp32"
    from weft.models.recurrent import RecurrentStack

    return "tf32" if any(isinstance(part, RecurrentStack) for part in model.modules()) else "bf16"


def in_precision(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which losses are computed."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


@contextmanager
def tensor_float(allowed: bool) -> Iterator[None]:
    """Whether a GPU may round the factors of fp32 products to TF32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


class PlainUpdate:
    """Any model on any device, one kernel after the other."""

    def __init__(
        self,
        model: AnyModel,
        optimiser: torch.optim.Optimizer,
        settings: TrainingSettings,
        *,
        begin: int,
        device: torch.device,
        precision: str,
    ) -> None:
        self.model = model
        self.optimiser = optimiser
        self.settings = settings
        self.begin = begin
        self.device = device
        self.precision = precision

    def __call__(self, batches: list[Batch], *, rate: float, own: float) -> Measured:
        with tensor_float(self.precision == "tf32"):
            return self._update(batches, rate, own)

    def _update(self, batches: list[Batch], rate: float, own: float) -> Measured:
        self.optimiser.zero_grad(set_to_none=True)
        target_tokens = sum(batch.target.layout.total for batch in batches)
        likelihood = torch.zeros((), device=self.device)
        for batch in batches:
            with in_precision(self.precision, self.device):
                loss = batch_loss(
                    self.model,
                    batch.to(self.device),
                    begin=self.begin,
                    own=own,
                    smoothing=self.settings.label_smoothing,
                )
            (loss.smoothed / target_tokens).backward()
            likelihood += loss.negative_log_likelihood
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf)
        found, size = torch.stack([likelihood / target_tokens, norm]).tolist()
        if math.isfinite(found) and math.isfinite(size):
            for group in self.optimiser.param_groups:
                group["lr"] = rate
            self.optimiser.step()
        return Measured(lambda: (found, size))


def read_later(measured: Tensor) -> Callable[[], tuple[float, float]]:
    """A copy of two numbers on their way from the GPU; asking waits for them, and only for them."""
    there = torch.empty(2, pin_memory=True)
    there.copy_(measured, non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()

    def fetch() -> tuple[float, float]:
        arrived.synchronize()
        loss, norm = there.tolist()
        return loss, norm

    return fetch
