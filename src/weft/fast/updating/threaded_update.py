"""Updates on a few CPU cores, each of which computes the gradients of a share of the rows.

Many operations are too small to be divided among cores, above all those of a recurrence, and between two of them the
cores wait for each other. So every core gets a share of each batch and runs its forward and backward pass on one
thread; the gradients of the shares are summed in order, which keeps an update deterministic. The result equals that of
`PlainUpdate` up to rounding; tests/fast/updating/test_threaded_update.py. Where oneDNN multiplies faster than MKL, it
does (`weft.fast.cpu.products`).

Dropout masks are drawn by one generator for each share, seeded by the generator of the process, whose state a
checkpoint has. So they depend on the number of cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from functools import cached_property

import torch
from torch import Tensor

from weft.attention.multihead import MultiHeadAttention
from weft.data.batching.batches import StepBatches
from weft.data.store.token_store import Batch, CorpusSize
from weft.fast.cpu.products import gains_by_onednn
from weft.fast.layers.dropout import dropout_generator
from weft.models.architecture import architecture_of
from weft.models.interface import Model
from weft.runtime.switches import onednn_products, single_core_threads
from weft.training.update import PlainUpdate, TrainingContext, UpdateResult

MAX_SHARES = 4
"""The largest number of shares; with more cores, operations are divided among them as usual."""
MIN_SHARE_PRODUCTS = 1 << 32
"""Parameters times target tokens of a share: with less, Python takes too much of the time, and cores wait for it."""

Gradients = Sequence[Tensor | None]


def can_divide(
    model: Model, optimizer: torch.optim.Optimizer, context: TrainingContext, corpus_size: CorpusSize
) -> bool:
    """Whether a model is trained in shares: if all its random numbers are drawn by `weft.models.layers.dropout`.

    On other numbers of cores there is one share, for the sake of faster products.
    """
    alone = context.device.type == "cpu" and context.workers.world_size == 1
    if not alone or not (1 < torch.get_num_threads() <= MAX_SHARES or gains_by_onednn(model)):
        return False
    described = architecture_of(model)
    if described.kind != "seq2seq" or not described.is_plain or context.settings.forcing != "teacher":
        return False
    return not any(module.dropout for module in model.modules() if isinstance(module, MultiHeadAttention))


class ThreadedUpdate(PlainUpdate):
    """An update of which every core computes a share."""

    def __init__(
        self, model: Model, optimizer: torch.optim.Optimizer, context: TrainingContext, corpus_size: CorpusSize
    ) -> None:
        super().__init__(model, optimizer, context)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.size = sum(parameter.numel() for parameter in self.parameters)
        cores = torch.get_num_threads()
        self.cores = cores if cores <= MAX_SHARES else 1
        self.by_onednn = self.precision == "fp32" and gains_by_onednn(model)

    def __call__(self, batches: StepBatches, *, learning_rate: float, sampling_probability: float) -> UpdateResult:
        with onednn_products() if self.by_onednn else nullcontext():
            return super().__call__(batches, learning_rate=learning_rate, sampling_probability=sampling_probability)

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        return single_core_threads(self.cores, "weft-update")

    def add_gradients(self, batch: Batch, target_tokens: int, sampling_probability: float) -> Tensor:
        shares = min(self.cores, batch.target.rows, self.size * batch.target.layout.total // MIN_SHARE_PRODUCTS)
        if shares < 2 or sampling_probability:
            return super().add_gradients(batch, target_tokens, sampling_probability)
        parts = batch.divided(shares)
        seeds = torch.empty(shares, dtype=torch.int64).random_().tolist()
        running = [
            self.pool.submit(self._share, part, target_tokens, seed) for part, seed in zip(parts, seeds, strict=True)
        ]
        wait(running)
        gradients, likelihoods = zip(*(future.result() for future in running), strict=True)
        self._add(gradients)
        return torch.stack(likelihoods).sum()

    def _share(self, batch: Batch, target_tokens: int, seed: int) -> tuple[Gradients, Tensor]:
        """The gradients of one share and its −Σ log p(y_t), in a thread of the pool."""
        with dropout_generator(torch.Generator().manual_seed(seed)):
            loss = self.loss(batch, 0.0)
            objective = loss.smoothed / target_tokens
            gradients = torch.autograd.grad(objective, self.parameters, allow_unused=True)
        return gradients, loss.negative_log_likelihood

    def _add(self, shares: Sequence[Gradients]) -> None:
        """Add the gradients of all shares to those of the parameters."""
        for parameter, *gradients in zip(self.parameters, *shares, strict=True):
            terms = [term for term in (parameter.grad, *gradients) if term is not None]
            if not terms:
                continue
            total = terms[0] + terms[1] if len(terms) > 1 else terms[0]  # not in place: terms may share their memory
            for term in terms[2:]:
                total += term
            parameter.grad = total
