"""What the decoder reads while it is trained.

teacher     the true y_{t−1}, whole targets at once
scheduled   at every step the model's own last prediction with probability ε_i, which grows linearly over the
            run to ``sampling`` (Bengio et al. 2015), else the true one
free        always its own last prediction
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.models.interface import Model
from weft.ragged import Ragged
from weft.tree import first


def own_share(forcing: str, *, sampling: float, step: int, steps: int) -> float:
    """The probability with which a step reads the model's own prediction."""
    if forcing == "free":
        return 1.0
    return sampling * min(step / max(steps, 1), 1.0) if forcing == "scheduled" else 0.0


def forced_logits(model: Model, source: Ragged, target: Ragged, *, begin: int, own: float = 0.0) -> Tensor:
    """Logits (N, V) for every target token, the decoder reading its own predictions with probability ``own``."""
    inputs = target.shifted(begin)
    if own == 0.0:
        return model(source, inputs).logits_NV
    order = target.layout.time_major
    memory = model.encode(source.select(order.sorted_rows))
    state = model.start(memory)
    rows = target.rows
    logits: list[Tensor] = []
    for true_B in inputs.values[order.indices].split(order.batch_sizes):
        if len(true_B) < rows:
            rows = len(true_B)
            state, memory = first((state, memory), rows)
        tokens_B = true_B
        if logits:
            said_B = logits[-1][:rows].detach().argmax(-1)
            tokens_B = torch.where(torch.rand(rows, device=true_B.device) < own, said_B, true_B)
        logits_BV, state, _ = model.step(tokens_B, state, memory)
        logits.append(logits_BV)
    return order.unsort(torch.cat(logits))
