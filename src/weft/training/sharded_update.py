"""Training a model that does not fit: weights, gradients and optimizer state divided over the workers.

FSDP2 (``torch.distributed.fsdp.fully_shard``): every weight is cut into as many parts as there are workers; before a
layer is used its parts are gathered, afterwards they are let go again, and a gradient is summed and divided in one go.
The layers of a Transformer come and go one by one. Everything else (embeddings, output, a recurrence) is one group that
stays from the beginning of a forward pass to the end of its backward pass.

What FSDP watches is one module's forward. A model is asked for other things (`states`, `step`, its output's matrix), so
the module here is the loss itself: all that is asked of the model happens inside its forward.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from weft.data.batching.batches import BatchSource
from weft.data.batching.prefetch import StepBatches
from weft.data.store.token_store import Batch
from weft.models import AnyModel
from weft.models.transformer import TransformerLayer
from weft.recipe import TrainingSettings
from weft.training.distributed import Workers
from weft.training.loss import Loss, batch_loss
from weft.training.update import PlainUpdate


class Losses(nn.Module):
    """The loss of a batch, as a module."""

    def __init__(self, model: AnyModel, *, begin: int, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.begin = begin
        self.smoothing = smoothing

    def forward(self, batch: Batch, own: float) -> Loss:
        return batch_loss(self.model, batch, begin=self.begin, own=own, smoothing=self.smoothing)


def shard(model: AnyModel, settings: TrainingSettings, *, begin: int, device: torch.device, workers: Workers) -> Losses:
    """Divide a model's weights over the workers, in place; what is returned makes losses with them.

    Layers are groups of their own where they are only called as a whole: reading its own predictions, a decoder is
    called step by step, and then all weights are one group.
    """
    losses = Losses(model, begin=begin, smoothing=settings.label_smoothing)
    mesh = init_device_mesh(device.type, (workers.world_size,))
    parts: list[nn.Module] = []
    if settings.forcing == "teacher":
        parts = [part for part in model.modules() if isinstance(part, TransformerLayer)]
    for part in [*parts, losses]:
        fully_shard(part, mesh=mesh)
        assert isinstance(part, FSDPModule)
        part.set_gradient_divide_factor(1.0)  # gradients are divided by the tokens of all workers already
        part.set_force_sum_reduction_for_comms(True)
    return losses


def spare_batch(data: BatchSource, settings: TrainingSettings, *, seed: int) -> Batch:
    """One pair of the data, for a worker that has to take part in a round but has no batch left."""
    [planned] = data.batches(settings.batch_tokens, seed=seed).take(1, 1)
    batch = planned.make()
    return Batch(*(side.select(torch.zeros(1, dtype=torch.int64)) for side in batch))


class ShardedUpdate(PlainUpdate):
    """An update of divided weights: all workers go through the layers together, batch by batch.

    So all have to have the same number of batches: one that has fewer takes a spare one, whose loss counts for nothing.
    """

    def __init__(
        self,
        model: AnyModel,
        optimizer: torch.optim.Optimizer,
        settings: TrainingSettings,
        *,
        losses: Losses,
        spare: Batch,
        begin: int,
        device: torch.device,
        precision: str,
        workers: Workers,
        seed: int,
    ) -> None:
        super().__init__(
            model,
            optimizer,
            settings,
            begin=begin,
            device=device,
            precision=precision,
            workers=workers,
            seed=seed,
        )
        self.losses = losses
        self.spare = spare

    def loss_of(self, batch: Batch, own: float) -> Loss:
        found: Loss = self.losses(batch, own)
        return found

    def fill_up(self, drawn: StepBatches, own: float) -> None:
        rounds = -(-self.settings.accumulate // self.workers.world_size)
        for _ in range(rounds - len(drawn.batches)):
            loss = self.compute(self.spare, own)
            (loss.smoothed * 0.0).backward()

    def add_up(self, measured: torch.Tensor) -> None:
        self.workers.all_reduce(measured)
