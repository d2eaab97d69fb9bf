"""Cross-entropy with label smoothing, the 1.5-entmax loss, and the coverage loss.

loss_t = −(1 − ε) log p(y_t) − ε/V Σ_v log p(v)      Szegedy et al. 2016, 7; ε = 0 is plain cross-entropy
      or (p − e_y)ᵀz + H(p),  p = entmax15(z),       Peters, Niculae & Martins 2019, eq. 11; training.loss = "entmax15"
         H(p) = (4/3) Σ_v (p_v − p_v^1.5)            the Fenchel–Young loss of p; its gradient is p − e_y
         + λ Σ_j min(α_tj, Σ_{t' < t} α_t'j)         See et al. 2017, eq. 12; λ = training.coverage_loss
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from weft.attention.normalizers import entmax15
from weft.attention.ragged_attention import AttentionRecord, ReturnAttention, alignment_weights
from weft.data.store.token_store import Batch
from weft.errors import TrainingError
from weft.models.interface import HasOutputLayer, HasTargetLogProbabilities, Model, TargetLogProbabilities
from weft.models.layers import Output
from weft.ragged import Ragged
from weft.runtime.replaceable import replaceable
from weft.text.specials import BEGIN
from weft.training.forcing import forced_logits, forced_states

NO_ATTENTION = "training.coverage_loss: this model gives no attention weights with its loss; set it to 0"
IGNORE_INDEX = -1
"""A target without loss and gradient: the padding of a batch of fixed size."""


class Loss(NamedTuple):
    """Sums over the target tokens of a batch."""

    smoothed: Tensor
    """The training objective."""
    negative_log_likelihood: Tensor
    """−Σ log p(y_t), without smoothing and without gradient; of sparse outputs the 1.5-entmax loss, since log p(y_t)
    may be −∞."""


class ForcedPass(NamedTuple):
    """A forward pass under teacher forcing."""

    loss: Loss
    log_probabilities: Callable[[], Tensor] | None
    """Computes log p(v) of all tokens at every target position (N, V), in float32 at least, with gradient; None if the
    model gives only those of the targets."""


@replaceable
def output_loss(output: Output, states_ND: Tensor, targets_N: Tensor, *, smoothing: float) -> Loss:
    """The loss that an output layer is trained by; targets that are `IGNORE_INDEX` do not count."""
    if output.loss == "entmax15":
        return entmax15_loss(output.scores(states_ND), targets_N)
    return cross_entropy(output(states_ND), targets_N, smoothing=smoothing)


def cross_entropy(logits_NV: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Loss:
    """−(1 − ε) log p(y_t) − ε/V Σ_v log p(v), summed over the targets."""
    log_NV = single_precision(logits_NV).log_softmax(-1)
    log_p_N = log_NV.gather(1, targets_N.clamp(min=0)[:, None])[:, 0]
    uniform_N = log_NV.mean(-1) if smoothing else None
    return targets_loss(TargetLogProbabilities(log_p_N, uniform_N), targets_N, smoothing=smoothing)


def targets_loss(targets: TargetLogProbabilities, targets_N: Tensor, *, smoothing: float) -> Loss:
    """Cross-entropy by log p(y_t) and the mean of log p(v); targets that are `IGNORE_INDEX` do not count."""
    ignored_N = targets_N == IGNORE_INDEX
    likelihood = -targets.log_p_N.masked_fill(ignored_N, 0.0).sum()
    if targets.uniform_N is None:
        return Loss(likelihood, likelihood.detach())
    uniform = targets.uniform_N.masked_fill(ignored_N, 0.0).sum()
    return Loss((1 - smoothing) * likelihood - smoothing * uniform, likelihood.detach())


def entmax15_loss(scores_NV: Tensor, targets_N: Tensor) -> Loss:
    """(p − e_y)ᵀz + H(p), summed over the targets; ``scores_NV``: z."""
    scores_NV = single_precision(scores_NV)
    with torch.no_grad():  # p maximizes pᵀz + H(p), so that its own change does not change the loss
        weights_NV = entmax15(scores_NV)
        entropy_N = (weights_NV - weights_NV**1.5).sum(-1) * (4 / 3)
    target_N = scores_NV.gather(1, targets_N.clamp(min=0)[:, None])[:, 0]
    losses_N = (weights_NV * scores_NV).sum(-1) - target_N + entropy_N
    loss = losses_N.masked_fill(targets_N == IGNORE_INDEX, 0.0).sum()
    return Loss(loss, loss.detach())


def single_precision(values: Tensor) -> Tensor:
    """The tensor in float32 at least."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def coverage_loss(weights_BTS: Tensor, real_BT: Tensor) -> Tensor:
    """Σ_t Σ_j min(α_tj, c_tj) with c_t = Σ_{t' < t} α_t': attention to what was attended to before; summed."""
    coverage_BTS = weights_BTS.cumsum(1) - weights_BTS
    return (torch.minimum(weights_BTS, coverage_BTS).sum(-1) * real_BT).sum()


def forced_pass(
    model: Model,
    source: Ragged,
    inputs: Ragged,
    targets_N: Tensor,
    *,
    smoothing: float,
    coverage: float,
) -> ForcedPass:
    """A pass with its loss, in which targets that are `IGNORE_INDEX` do not count. ``coverage``: λ."""
    return_attention: ReturnAttention = "alignment" if coverage else False
    attention: tuple[AttentionRecord, ...]
    if isinstance(model, HasTargetLogProbabilities):
        targets = model.target_log_probabilities(
            source, inputs, targets_N, smoothing=smoothing, return_attention=return_attention
        )
        loss, attention = targets_loss(targets, targets_N, smoothing=smoothing), targets.attention
        log_probabilities = targets.log_probabilities
    elif isinstance(model, HasOutputLayer):
        output, hidden = model.output_layer(), model.hidden_states(source, inputs, return_attention=return_attention)
        loss = output_loss(output, hidden.states.values, targets_N, smoothing=smoothing)
        attention = hidden.attention

        def log_probabilities() -> Tensor:
            return single_precision(output(hidden.states.values)).log_softmax(-1)

    elif coverage:
        raise TrainingError(NO_ATTENTION)
    else:
        logits_NV, attention = model(source, inputs)
        loss = cross_entropy(logits_NV, targets_N, smoothing=smoothing)

        def log_probabilities() -> Tensor:
            return single_precision(logits_NV).log_softmax(-1)

    if not coverage:
        return ForcedPass(loss, log_probabilities)
    weights_BTS = alignment_weights(attention, source.layout)
    assert weights_BTS is not None
    real_BT = inputs.like(targets_N != IGNORE_INDEX).to_padded()
    smoothed = loss.smoothed + coverage * coverage_loss(weights_BTS.float(), real_BT)
    return ForcedPass(loss._replace(smoothed=smoothed), log_probabilities)


def batch_loss(
    model: Model,
    batch: Batch,
    *,
    smoothing: float = 0.0,
    coverage: float = 0.0,
    sampling_probability: float = 0.0,
    begin: int = BEGIN,
) -> Loss:
    """The loss of a batch under teacher forcing, or under scheduled sampling with this probability.

    ``begin``: the first input of the decoder.
    """
    if sampling_probability == 0.0:
        inputs, targets_N = batch.target.shifted(begin), batch.target.values
        return forced_pass(model, batch.source, inputs, targets_N, smoothing=smoothing, coverage=coverage).loss
    if coverage:
        raise TrainingError(NO_ATTENTION)
    if isinstance(model, HasOutputLayer) and model.output_layer().loss != "cross_entropy":
        states_ND = forced_states(model, batch, sampling_probability, begin)
        return output_loss(model.output_layer(), states_ND, batch.target.values, smoothing=smoothing)
    logits_NV = forced_logits(model, batch, sampling_probability, begin)
    return cross_entropy(logits_NV, batch.target.values, smoothing=smoothing)
