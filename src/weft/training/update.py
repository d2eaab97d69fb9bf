"""One update of the weights: the mean loss of the step's batches, gradient clipping, one optimizer step.

`PlainUpdate` works for any model on any device; the others must give the same result: `CudaGraphUpdate` replays the
whole update as a CUDA graph, `ShardedUpdate` distributes weights, gradients and optimizer state over the workers,
`ThreadedUpdate` divides the rows of a batch among the cores of a CPU. An update whose loss or gradient is not finite
leaves the weights unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from weft.data.batching.prefetch import StepBatches
from weft.data.store.token_store import Batch
from weft.models.device import allow_tf32
from weft.models.interface import Model
from weft.recipe import TrainingSettings
from weft.text.specials import BEGIN
from weft.training.distributed import SINGLE_PROCESS, Workers, full_tensor, is_sharded, seed_rng
from weft.training.eager_optimizers import eager_optimizer
from weft.training.loss import Loss, batch_loss
from weft.training.parameter_groups import group_rate, parameter_groups
from weft.training.precision import autocast, resolve_precision

CPU = torch.device("cpu")


@dataclass(frozen=True)
class TrainingContext:
    """What every part of a training run depends on, beside model and data."""

    settings: TrainingSettings
    seed: int = 1
    device: torch.device = CPU
    workers: Workers = SINGLE_PROCESS
    begin: int = BEGIN
    """What the decoder reads first."""


class UpdateStatistics(NamedTuple):
    """The numbers an update reports."""

    loss: float
    """Mean negative log-likelihood of a target token, or mean 1.5-entmax loss."""
    grad_norm: float
    """Before clipping."""

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.grad_norm)


@dataclass(frozen=True)
class UpdateResult:
    """An update that was started; a GPU may still be computing it."""

    statistics: Callable[[], UpdateStatistics]
    """Waits for the update and returns its statistics."""
    deferred: bool = False
    """Whether to start the next update before calling ``statistics``, so that the GPU never waits."""


class PendingUpdate(NamedTuple):
    """An update that was started and has not been reported yet."""

    result: UpdateResult
    batches: StepBatches
    learning_rate: float
    start_time: float
    data_wait: float


class Update(Protocol):
    """Performs the update of one step."""

    def __call__(self, batches: StepBatches, *, learning_rate: float, sampling_probability: float) -> UpdateResult: ...


def make_optimizer(model: Model, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The optimizer of a recipe: fused, and on a GPU capturable in a CUDA graph."""
    learning_rate, weight_decay = settings.learning_rate, settings.weight_decay
    first = next(model.parameters())
    parameters = parameter_groups(model, settings)
    if settings.optimizer == "sgd":
        fused = not is_sharded(first)  # PyTorch has no fused SGD for sharded parameters
        return eager_optimizer(torch.optim.SGD)(
            parameters, lr=learning_rate, momentum=settings.momentum, weight_decay=weight_decay, fused=fused
        )
    optimizer = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return eager_optimizer(optimizer)(
        parameters,
        lr=learning_rate,
        betas=(settings.beta1, settings.beta2),
        weight_decay=weight_decay,
        fused=True,
        capturable=first.is_cuda,
    )


def training_loss(model: Model, batch: Batch, context: TrainingContext, sampling_probability: float) -> Loss:
    """The loss of a batch under the settings of a recipe."""
    settings = context.settings
    return batch_loss(
        model,
        batch,
        smoothing=settings.label_smoothing,
        coverage=settings.coverage_loss,
        sampling_probability=sampling_probability,
        begin=context.begin,
    )


class PlainUpdate:
    """An update of any model on any device."""

    def __init__(self, model: Model, optimizer: torch.optim.Optimizer, context: TrainingContext) -> None:
        self.model = model
        self.optimizer = optimizer
        self.context = context
        self.settings = context.settings
        self.workers = context.workers
        self.precision = resolve_precision(model, context.settings, context.device)

    def __call__(self, batches: StepBatches, *, learning_rate: float, sampling_probability: float) -> UpdateResult:
        with allow_tf32(self.precision == "tf32"):
            statistics = self._update(batches, learning_rate, sampling_probability)
        return UpdateResult(lambda: statistics)

    def _update(self, batches: StepBatches, learning_rate: float, sampling_probability: float) -> UpdateStatistics:
        self.optimizer.zero_grad(set_to_none=True)
        likelihood = torch.zeros((), device=self.context.device)
        for number, batch in zip(batches.numbers, batches.batches, strict=True):
            self._seed_batch(batches.step, number)
            likelihood += self.add_gradients(batch, batches.target_tokens, sampling_probability)
        self.run_missing_batches(batches, sampling_probability)
        self._seed_batch(batches.step, self.settings.accumulate)
        self.reduce(likelihood)
        norm = full_tensor(nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf))
        statistics = UpdateStatistics(*torch.stack([likelihood / batches.target_tokens, norm]).tolist())
        if statistics.is_finite:
            for group in self.optimizer.param_groups:
                group["lr"] = group_rate(group, learning_rate)
            self.optimizer.step()
        return statistics

    def _seed_batch(self, step: int, number: int) -> None:
        """Make the random numbers of a batch independent of the worker that computes it.

        A single batch always belongs to the main process, and continues with the generator as it is.
        """
        if self.settings.accumulate > 1:
            seed_rng(self.context.seed, step, number)

    def add_gradients(self, batch: Batch, target_tokens: int, sampling_probability: float) -> Tensor:
        """Add the gradients of a batch to those of the mean loss over ``target_tokens``; returns −Σ log p(y_t)."""
        loss = self.loss(batch, sampling_probability)
        (loss.smoothed / target_tokens).backward()
        return loss.negative_log_likelihood

    def loss(self, batch: Batch, sampling_probability: float) -> Loss:
        """The loss of a batch in the precision of the run."""
        with autocast(self.precision, self.context.device):
            return self.batch_loss(batch.to(self.context.device), sampling_probability)

    def batch_loss(self, batch: Batch, sampling_probability: float) -> Loss:
        return training_loss(self.model, batch, self.context, sampling_probability)

    def run_missing_batches(self, batches: StepBatches, sampling_probability: float) -> None:
        """For a worker with fewer batches than others: nothing to do, unless the weights are sharded."""

    def reduce(self, likelihood: Tensor) -> None:
        """Sum the gradients and the likelihood over all workers."""
        self.workers.all_reduce_gradients(self.model.parameters(), likelihood)
