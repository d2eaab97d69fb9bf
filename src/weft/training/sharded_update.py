"""Training a model that does not fit on one GPU: weights, gradients and optimizer state sharded over the workers.

FSDP2 (``torch.distributed.fsdp.fully_shard``): every weight is split into as many shards as there are workers; before a
layer runs its shards are gathered, afterwards they are freed again, and gradients are reduce-scattered. Each layer of a
Transformer is a separate group. Everything else (embeddings, output layer, a recurrence) is one group that stays
gathered from the beginning of a forward pass to the end of its backward pass.

FSDP hooks the forward of one module, but training also calls `hidden_states`, `step` and the output layer's weights. So
the sharded module is the loss itself (`LossModule`), whose forward makes all these calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from weft.data.batching.batches import BatchSource, StepBatches
from weft.data.store.token_store import Batch
from weft.models.interface import Model
from weft.models.transformer import transformer_layers
from weft.training.distributed import full_tensor
from weft.training.loss import Loss
from weft.training.optimizer import make_optimizer, optimizer_tensors, restore_optimizer
from weft.training.update import PlainUpdate, TrainingContext, training_loss

if TYPE_CHECKING:
    from weft.training.trainer import Trainer


class LossModule(nn.Module):
    """The loss of a batch, as a module."""

    def __init__(self, model: Model, context: TrainingContext) -> None:
        super().__init__()
        self.model = model
        self.context = context

    def forward(self, batch: Batch, sampling_probability: float) -> Loss:
        return training_loss(self.model, batch, self.context, sampling_probability)


def shard(model: Model, context: TrainingContext) -> LossModule:
    """Shard a model's weights over the workers, in place; the module returned computes losses with them.

    Layers are separate groups if they are only called as a whole. Under scheduled sampling a decoder is called step
    by step, and then all weights are one group.
    """
    loss_module = LossModule(model, context)
    mesh = init_device_mesh(context.device.type, (context.workers.world_size,))
    layers = transformer_layers(model) if context.settings.forcing == "teacher" else []
    for module in [*layers, loss_module]:
        fully_shard(module, mesh=mesh)
        assert isinstance(module, FSDPModule)
        module.set_gradient_divide_factor(1.0)  # the loss is already divided by the tokens of all workers
        module.set_force_sum_reduction_for_comms(True)
    return loss_module


def shard_training(trainer: Trainer) -> None:
    """Shard the weights and the optimizer state of a run over the workers. Until then they stay off the GPU."""
    state = optimizer_tensors(trainer.optimizer)
    if trainer.workers.is_main and trainer.validator:
        trainer.validator.copy_model()
    loss_module = shard(trainer.model, trainer.context)
    optimizer = make_optimizer(trainer.model, trainer.settings)
    restore_optimizer(optimizer, state, where=str(trainer.folder.path))
    spare = spare_batch(trainer.data, trainer.context)
    trainer.optimizer = optimizer
    trainer.update = ShardedUpdate(loss_module, optimizer, trainer.context, spare=spare)


def spare_batch(data: BatchSource, context: TrainingContext) -> Batch:
    """One pair of the data, for a worker that has no batch left in a round."""
    [lazy] = data.batches(context.settings.batch_tokens, seed=context.seed).take(1, 1)
    return Batch(*(side.select(torch.zeros(1, dtype=torch.int64)) for side in lazy.make()))


class ShardedUpdate(PlainUpdate):
    """An update of sharded weights: all workers go through the layers together, batch by batch.

    So all need the same number of batches: a worker with fewer runs a spare one, whose loss is multiplied by zero. For
    the same reason no worker can divide a batch on its own.
    """

    can_divide = False

    def __init__(
        self,
        loss_module: LossModule,
        optimizer: torch.optim.Optimizer,
        context: TrainingContext,
        *,
        spare: Batch,
    ) -> None:
        super().__init__(loss_module.model, optimizer, context)
        self.loss_module = loss_module
        self.spare = spare

    def batch_loss(self, batch: Batch, sampling_probability: float) -> Loss:
        loss: Loss = self.loss_module(batch, sampling_probability)
        return loss

    def run_missing_batches(self, batches: StepBatches, sampling_probability: float) -> None:
        rounds = -(-self.settings.accumulate // self.workers.world_size)
        for _ in range(rounds - len(batches.batches)):
            loss = self.loss(self.spare, sampling_probability)
            (loss.smoothed * 0.0).backward()

    def clip_gradients(self) -> Tensor:
        return full_tensor(super().clip_gradients())

    def reduce(self, likelihood: Tensor) -> None:
        """FSDP has summed the gradients."""
        self.workers.all_reduce(likelihood)
