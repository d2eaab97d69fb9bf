"""One update of the weights: the mean loss of the step's batches, gradient clipping, one optimizer step.

`PlainUpdate` works for any model on any device. `make_update` gives it, or a faster one with the same result:
`weft.fast.updating` replays the whole update as a CUDA graph, or divides the rows of a batch among the cores of a CPU.
`weft.training.sharded_update` distributes weights, gradients and optimizer state over several processes. An update
whose loss or gradient is not finite leaves the weights unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from weft.data.batching.batches import StepBatches
from weft.data.batching.word_dropout import SPECIAL_IDS
from weft.data.store.token_store import Batch, CorpusSize
from weft.models.interface import HasCTC, Model
from weft.models.recurrent import has_recurrence
from weft.recipe import TrainingSettings
from weft.runtime.devices import DividedWork, release_memory
from weft.runtime.replaceable import replaceable
from weft.runtime.switches import allow_tf32
from weft.text.specials import BEGIN
from weft.training.consistency import consistency_loss
from weft.training.ctc import ctc_training_loss
from weft.training.distillation import distillation_loss
from weft.training.distributed import SINGLE_PROCESS, Workers, seed_rng
from weft.training.loss import Loss, batch_loss
from weft.training.optimizer import Rate, group_rate

CPU = torch.device("cpu")


@dataclass(frozen=True)
class TrainingContext:
    """Settings, device and workers of a training run, which every part of it depends on."""

    settings: TrainingSettings
    seed: int = 1
    device: torch.device = CPU
    workers: Workers = SINGLE_PROCESS
    begin: int = BEGIN
    """The token that the decoder reads first."""
    protected_ids: frozenset[int] = SPECIAL_IDS
    """Source ids that word dropout never replaces."""
    teacher: Model | None = None
    """The frozen model whose distributions training.distillation weighs."""


class UpdateStatistics(NamedTuple):
    """The numbers an update reports."""

    loss: float
    """Mean negative log-likelihood of a target token, or mean 1.5-entmax loss."""
    grad_norm: float
    """Gradient norm before clipping."""

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


def resolve_precision(model: Model, settings: TrainingSettings, device: torch.device) -> str:
    """The precision of a run; ``auto``: fp32 on a CPU; on a GPU, tf32 for recurrent models, else bf16."""
    if settings.precision != "auto":
        return settings.precision
    if device.type != "cuda":
        return "fp32"
    return "tf32" if has_recurrence(model) else "bf16"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context for forward passes and losses: automatic mixed precision if ``precision`` is bf16."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def training_loss(model: Model, batch: Batch, context: TrainingContext, sampling_probability: float) -> Loss:
    """The loss of a batch under the settings of a recipe."""
    settings = context.settings
    if isinstance(model, HasCTC):
        return ctc_training_loss(model, batch, settings, begin=context.begin)
    if settings.consistency:
        inputs = batch.target.shifted(context.begin)
        return consistency_loss(model, batch.source, inputs, batch.target.values, settings)
    if context.teacher is not None and settings.distillation:
        return distillation_loss(
            model,
            context.teacher,
            batch,
            weight=settings.distillation,
            smoothing=settings.label_smoothing,
            begin=context.begin,
        )
    return batch_loss(
        model,
        batch,
        smoothing=settings.label_smoothing,
        coverage=settings.coverage_loss,
        sampling_probability=sampling_probability,
        begin=context.begin,
    )


class PlainUpdate:
    """An update of any model on any device.

    If memory is not enough for a batch, its parts follow each other: their losses are divided by the tokens of all
    batches, so the sum of their gradients is the gradient of the whole batch.
    """

    can_divide = True
    """Whether this process may compute a batch in parts."""

    def __init__(self, model: Model, optimizer: torch.optim.Optimizer, context: TrainingContext) -> None:
        self.model = model
        self.optimizer = optimizer
        self.context = context
        self.settings = context.settings
        self.workers = context.workers
        self.precision = resolve_precision(model, context.settings, context.device)
        self.divided = DividedWork("training", self.release)

    def release(self) -> None:
        """Give memory back that the next attempt can use."""
        self.optimizer.zero_grad(set_to_none=True)
        release_memory()

    def __call__(self, batches: StepBatches, *, learning_rate: float, sampling_probability: float) -> UpdateResult:
        on_gpu = self.context.device.type == "cuda"
        with allow_tf32(self.precision == "tf32") if on_gpu else nullcontext():
            statistics = self._update(batches, learning_rate, sampling_probability)
        return UpdateResult(lambda: statistics)

    def _update(self, batches: StepBatches, learning_rate: float, sampling_probability: float) -> UpdateStatistics:
        most = max((batch.target.rows for batch in batches.batches), default=1) if self.can_divide else 1
        likelihood = self.divided.run(lambda parts: self._gradients(batches, sampling_probability, parts), most=most)
        self.run_missing_batches(batches, sampling_probability)
        self._seed_batch(batches.step, self.settings.accumulate)
        self.reduce(likelihood)
        norm = self.clip_gradients()
        statistics = UpdateStatistics(*torch.stack([likelihood / batches.target_tokens, norm]).tolist())
        if statistics.is_finite:
            self.set_learning_rate(learning_rate)
            self.optimizer.step()
        return statistics

    def _gradients(self, batches: StepBatches, sampling_probability: float, parts: int) -> Tensor:
        """Compute the gradients of the mean loss of all batches, each in ``parts`` parts; returns −Σ log p(y_t)."""
        self.optimizer.zero_grad(set_to_none=True)  # also what an attempt has left that ran out of memory
        likelihood = torch.zeros((), device=self.context.device)
        for number, batch in zip(batches.numbers, batches.batches, strict=True):
            self._seed_batch(batches.step, number)
            for part in [batch] if parts == 1 else batch.divided(parts):
                likelihood += self.add_gradients(part, batches.target_tokens, sampling_probability)
        return likelihood

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

    def clip_gradients(self) -> Tensor:
        """Scale the gradients down to a norm of at most training.clip; returns the norm before."""
        return nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf)

    def set_learning_rate(self, learning_rate: Rate) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group_rate(group, learning_rate)

    def loss(self, batch: Batch, sampling_probability: float) -> Loss:
        """The loss of a batch in the precision of the run."""
        with autocast(self.precision, self.context.device):
            return self.batch_loss(batch.to(self.context.device), sampling_probability)

    def batch_loss(self, batch: Batch, sampling_probability: float) -> Loss:
        return training_loss(self.model, batch, self.context, sampling_probability)

    def run_missing_batches(self, batches: StepBatches, sampling_probability: float) -> None:
        """Join the updates of other workers that have more batches; nothing to do, unless the weights are sharded."""

    def reduce(self, likelihood: Tensor) -> None:
        """Sum the gradients and the likelihood over all workers."""
        if self.workers.world_size > 1:
            self.workers.all_reduce_gradients(self.model.parameters(), likelihood)


@replaceable
def make_update(
    model: Model, optimizer: torch.optim.Optimizer, context: TrainingContext, corpus_size: CorpusSize
) -> Update:
    """The update of a run whose weights are not sharded. ``corpus_size``: bounds the shapes of its batches."""
    return PlainUpdate(model, optimizer, context)


@replaceable
def decide_compilation(
    settings: TrainingSettings, model: Model, device: torch.device, seconds: float
) -> TrainingSettings:
    """The settings of a run of at most ``seconds`` with training.compile decided; a plain update compiles nothing."""
    return settings
