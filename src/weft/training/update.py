"""One update of the weights: the loss of a few batches, gradients clipped, one step of the optimizer.

Several workers share the batches out and add their gradients up (distributed.py). An update whose loss or gradient is
not finite leaves the weights as they were. What was measured is asked for later (`Measured.fetch`): on a GPU the next
update is on its way by then, and nothing waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from weft.data.batching.prefetch import StepBatches
from weft.data.store.token_store import Batch
from weft.models import AnyModel
from weft.recipe import TrainingSettings
from weft.training.distributed import SINGLE_PROCESS, Workers, full_tensor, is_sharded, seed_rng
from weft.training.loss import Loss, batch_loss


@dataclass(frozen=True)
class Measured:
    """What an update finds out."""

    fetch: Callable[[], tuple[float, float]]
    """The loss of a target token and the gradient's norm; waits until they are known."""
    later: bool = False
    """Whether it pays to ask only after the next update was started."""


class Update(Protocol):
    """Makes the update of one step."""

    def __call__(self, drawn: StepBatches, *, rate: float, own: float) -> Measured:
        """``own``: the share of the model's own predictions that the decoder reads."""


def make_optimizer(model: torch.nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The optimizer of a recipe, in one kernel, and on a GPU fit to be recorded."""
    rate, decay = settings.learning_rate, settings.weight_decay
    first = next(model.parameters())
    if settings.optimizer == "sgd":
        fused = not is_sharded(first)  # PyTorch has no such kernel for divided weights
        return torch.optim.SGD(model.parameters(), lr=rate, momentum=settings.momentum, weight_decay=decay, fused=fused)
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    betas = (settings.beta1, settings.beta2)
    return kind(model.parameters(), lr=rate, betas=betas, weight_decay=decay, fused=True, capturable=first.is_cuda)


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
        optimizer: torch.optim.Optimizer,
        settings: TrainingSettings,
        *,
        begin: int,
        device: torch.device,
        precision: str,
        workers: Workers = SINGLE_PROCESS,
        seed: int = 0,
    ) -> None:
        """``seed``: of what is drawn, where an update has several batches."""
        self.model = model
        self.optimizer = optimizer
        self.settings = settings
        self.begin = begin
        self.device = device
        self.precision = precision
        self.workers = workers
        self.seed = seed

    def __call__(self, drawn: StepBatches, *, rate: float, own: float) -> Measured:
        with tensor_float(self.precision == "tf32"):
            return self._update(drawn, rate, own)

    def _update(self, drawn: StepBatches, rate: float, own: float) -> Measured:
        self.optimizer.zero_grad(set_to_none=True)
        likelihood = torch.zeros((), device=self.device)
        for number, batch in zip(drawn.numbers, drawn.batches, strict=True):
            self._seed(drawn.step, number)
            loss = self.compute(batch, own)
            (loss.smoothed / drawn.target_tokens).backward()
            likelihood += loss.negative_log_likelihood
        self.fill_up(drawn, own)
        self._seed(drawn.step, self.settings.accumulate)
        self.add_up(likelihood)
        norm = full_tensor(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf))
        found, size = torch.stack([likelihood / drawn.target_tokens, norm]).tolist()
        if math.isfinite(found) and math.isfinite(size):
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        return Measured(lambda: (found, size))

    def _seed(self, step: int, number: int) -> None:
        """Draws of a batch must not depend on who makes it. A single batch is always the first worker's, and goes on
        with the generator as it is."""
        if self.settings.accumulate > 1:
            seed_rng(self.seed, step, number)

    def compute(self, batch: Batch, own: float) -> Loss:
        """The loss of a batch in the precision of the run."""
        with in_precision(self.precision, self.device):
            return self.loss_of(batch.to(self.device), own)

    def loss_of(self, batch: Batch, own: float) -> Loss:
        return batch_loss(self.model, batch, begin=self.begin, own=own, smoothing=self.settings.label_smoothing)

    def fill_up(self, drawn: StepBatches, own: float) -> None:
        """What a worker does that has fewer batches than others: nothing."""

    def add_up(self, measured: Tensor) -> None:
        """Add to gradients and to what was measured those of the other workers."""
        self.workers.all_reduce_gradients(self.model.parameters(), measured)


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
