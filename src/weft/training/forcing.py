"""The decoder's inputs during training (``training.forcing``).

teacher     the reference token y_{t−1}; all positions in one pass
scheduled   scheduled sampling: the model's own last prediction with probability ε_i, which grows linearly over the
            run to ``training.sampling``, else the reference token      Bengio et al. 2015
free        always the model's own last prediction
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from weft.data.store.token_store import Batch
from weft.models.interface import HasOutputLayer, Model
from weft.recipe import TrainingSettings
from weft.text.specials import BEGIN
from weft.tree import first


def sampling_probability(settings: TrainingSettings, step: int) -> float:
    """The probability with which the decoder reads its own prediction at this step of the run."""
    if settings.forcing == "free":
        return 1.0
    if settings.forcing == "scheduled":
        return settings.sampling * min(step / max(settings.steps, 1), 1.0)
    return 0.0


def forced_logits(model: Model, batch: Batch, sampling_probability: float = 0.0, begin: int = BEGIN) -> Tensor:
    """Logits (N, V) for every target token; the decoder reads its own predictions with the given probability.

    ``begin``: the first input of the decoder.
    """
    inputs = batch.target.shifted(begin)
    if sampling_probability == 0.0:
        return model(batch.source, inputs).logits_NV
    order = batch.target.layout.time_major
    memory = model.encode(batch.source.select(order.sorted_rows))
    state = model.start(memory)
    rows = batch.target.rows
    logits: list[Tensor] = []
    for reference_B in inputs.values[order.indices].split(order.batch_sizes):
        if len(reference_B) < rows:
            rows = len(reference_B)
            state, memory = first((state, memory), rows)
        tokens_B = reference_B
        if logits:
            predicted_B = logits[-1][:rows].detach().argmax(-1)
            sampled_B = torch.rand(rows, device=reference_B.device) < sampling_probability
            tokens_B = torch.where(sampled_B, predicted_B, reference_B)
        logits_BV, state, _ = model.step(tokens_B, state, memory)
        logits.append(logits_BV)
    return order.unsort(torch.cat(logits))


def forced_states(model: Model, batch: Batch, sampling_probability: float, begin: int = BEGIN) -> Tensor:
    """Inputs of the output layer at every target token (N, D), under scheduled sampling with this probability.

    For a loss that cannot be computed from logits, because they are −∞ for tokens without probability.
    """
    assert isinstance(model, HasOutputLayer)
    states: list[Tensor] = []

    def record(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        states.append(inputs[0])

    handle = model.output_layer().register_forward_pre_hook(record)
    try:
        forced_logits(model, batch, sampling_probability, begin)
    finally:
        handle.remove()
    return batch.target.layout.time_major.unsort(torch.cat(states))
