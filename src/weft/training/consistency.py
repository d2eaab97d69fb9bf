"""R-Drop: two passes with different dropout masks, whose distributions are to agree (training.consistency).

    L_t = ½ (loss_t + loss'_t) + α/4 (KL(p_t ‖ p'_t) + KL(p'_t ‖ p_t))         Liang et al. 2021, eq. 2 and 3

p and p' are the distributions over the next token in the two passes, loss and loss' their losses (`weft.training.loss`:
with label smoothing and coverage). L_t is summed over the target tokens and divided by their number, as the loss alone
is. It is half of the paper's L = loss + loss' + α · ½ (KL + KL'), so that a published α (5 for translation) keeps its
meaning, and learning rates and the gradient norm those of a single pass. Both passes get gradients. α = 0 is not this
loss with one term less, but a single pass.

A distribution is whatever a model gives: a softmax, one mixed with copies, or the sum over all hard alignments. 1.5-
entmax has none that fits, since KL is infinite where one of two probabilities is zero.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weft.errors import TrainingError
from weft.models.interface import Model
from weft.ragged import Ragged
from weft.recipe import TrainingSettings
from weft.training.loss import IGNORE_INDEX, Loss, forced_pass


def consistency_loss(
    model: Model, source: Ragged, inputs: Ragged, targets_N: Tensor, settings: TrainingSettings
) -> Loss:
    """Σ_t L_t; targets that are `IGNORE_INDEX` do not count. The negative log-likelihood is the mean of both passes."""
    smoothing, coverage = settings.label_smoothing, settings.coverage_loss
    losses, distributions = [], []
    for _ in range(2):
        loss, log_probabilities = forced_pass(model, source, inputs, targets_N, smoothing=smoothing, coverage=coverage)
        if log_probabilities is None:
            raise TrainingError("training.consistency: this model gives no distribution with its loss; set it to 0")
        losses.append(loss)
        distributions.append(log_probabilities())
    divergence_N = symmetric_divergence(*distributions).masked_fill(targets_N == IGNORE_INDEX, 0.0)
    first, second = losses
    return Loss(
        (first.smoothed + second.smoothed) / 2 + settings.consistency / 4 * divergence_N.sum(),
        (first.negative_log_likelihood + second.negative_log_likelihood) / 2,
    )


def symmetric_divergence(log_p_NV: Tensor, log_q_NV: Tensor) -> Tensor:
    """(N,) KL(p ‖ q) + KL(q ‖ p) = Σ_v (p_v − q_v) (log p_v − log q_v), from logarithms of probabilities.

    A probability counts as at least the smallest positive number: that of a source token which can only be copied may
    be zero in one pass, or in both.
    """
    smallest = math.log(torch.finfo(log_p_NV.dtype).tiny)
    log_p_NV, log_q_NV = log_p_NV.clamp(min=smallest), log_q_NV.clamp(min=smallest)
    return ((log_p_NV.exp() - log_q_NV.exp()) * (log_p_NV - log_q_NV)).sum(-1)
