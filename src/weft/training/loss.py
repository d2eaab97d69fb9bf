"""Cross-entropy with label smoothing.

loss_t = −(1 − ε) log p(y_t) − ε/V Σ_v log p(v)      Szegedy et al. 2016, 7; ε = 0 is plain cross-entropy
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.data.store.token_store import Batch
from weft.kernels.chunked_cross_entropy import chunked_cross_entropy
from weft.models.interface import HasOutputLayer, Model
from weft.models.layers import Output
from weft.text.specials import BEGIN
from weft.training.forcing import forced_logits


class Loss(NamedTuple):
    """Sums over the target tokens of a batch."""

    smoothed: Tensor
    """The training objective."""
    negative_log_likelihood: Tensor
    """−Σ log p(y_t), without smoothing and without gradient; perplexity is computed from it."""


def cross_entropy(logits_NV: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Loss:
    """The loss of every target token, summed."""
    if logits_NV.dtype in (torch.float16, torch.bfloat16):
        logits_NV = logits_NV.float()
    log_NV = logits_NV.log_softmax(-1)
    likelihood = -log_NV.gather(1, targets_N[:, None]).sum()
    smoothed = (1 - smoothing) * likelihood - smoothing * log_NV.mean(-1).sum() if smoothing else likelihood
    return Loss(smoothed, likelihood.detach())


def output_cross_entropy(output: Output, states_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Loss:
    """``cross_entropy(output(states_ND), targets_N)``, in chunks."""
    return Loss(*chunked_cross_entropy(states_ND, output.weight_VD, output.bias_V, targets_N, smoothing=smoothing))


def batch_loss(model: Model, batch: Batch, *, smoothing: float = 0.0, sampling_probability: float = 0.0) -> Loss:
    """The loss of a batch under teacher forcing, or under scheduled sampling with this probability."""
    if sampling_probability == 0.0 and isinstance(model, HasOutputLayer):
        states = model.hidden_states(batch.source, batch.target.shifted(BEGIN)).states
        return output_cross_entropy(model.output, states.values, batch.target.values, smoothing=smoothing)
    logits_NV = forced_logits(model, batch, sampling_probability)
    return cross_entropy(logits_NV, batch.target.values, smoothing=smoothing)
