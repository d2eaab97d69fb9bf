"""Connectionist temporal classification: the loss of labels whose positions in the source are not known.

A path π has a label or a blank at every frame; B(π) merges repeated labels, then removes blanks.

    p(y | x) = Σ_{π: B(π) = y} Π_t p_t(π_t)                                   Graves et al. 2006, eq. 2 and 3
    l = blank y_1 blank y_2 … y_L blank
    α_t(s) = (α_{t−1}(s) + α_{t−1}(s−1) + [l_s ≠ blank, l_s ≠ l_{s−2}] α_{t−1}(s−2)) p_t(l_s)          eq. 6 and 7
    p(y | x) = α_T(2L + 1) + α_T(2L)                                                                   eq. 8

Probabilities are logarithms, sums are log-sum-exp. The gradient is that of the recursion, by automatic differentiation.
Labels have an alignment only if there is a frame for each, and one more between two equal neighbors.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from weft.data.store.token_store import Batch
from weft.models.ctc import LEAST
from weft.models.interface import HasCTC, HasOutputLayer
from weft.ragged import Layout, Ragged
from weft.recipe import TrainingSettings
from weft.runtime.replaceable import replaceable
from weft.text.specials import BEGIN
from weft.training.loss import Loss, output_loss


class CTCLoss(NamedTuple):
    """The loss of a batch."""

    total: Tensor
    """−Σ log p(y | x) over the rows that have an alignment."""
    alignable_B: Tensor
    """Whether each row has one: the others have neither loss nor gradient."""


def ctc_loss(logits: Ragged, labels: Ragged, *, blank: int) -> CTCLoss:
    """The loss of labels (N,) given the logits of frames (N, V); ``blank``: an id that no label has."""
    alignable_B = are_alignable(logits.layout, labels)
    log_p = logits.map(lambda values: values.log_softmax(-1, dtype=torch.promote_types(values.dtype, torch.float32)))
    losses_B = label_losses(log_p, labels, blank=blank)
    return CTCLoss(losses_B.masked_fill(~alignable_B, 0.0).sum(), alignable_B)


def are_alignable(frames: Layout, labels: Ragged) -> Tensor:
    """(B,) whether every row has as many frames as labels, and one more for each label that equals the one before."""
    repeated = labels.values[1:] == labels.values[:-1]
    repeated &= labels.layout.row_ids[1:] == labels.layout.row_ids[:-1]
    repeats_B = torch.zeros_like(labels.layout.device_lengths)
    repeats_B = repeats_B.index_add(0, labels.layout.row_ids[1:], repeated.to(repeats_B.dtype))
    return frames.device_lengths >= labels.layout.device_lengths + repeats_B


def without_end(targets: Ragged) -> Ragged:
    """The labels of targets whose last token is the end token, which CTC has none of."""
    lengths = (targets.lengths - 1).clamp(min=0)
    is_label_N = targets.layout.cpu_positions < targets.layout.repeat_per_token(lengths)
    return Ragged(targets.values[is_label_N.to(targets.device)], Layout(lengths, targets.device))


def ctc_training_loss(model: HasCTC, batch: Batch, settings: TrainingSettings, *, begin: int) -> Loss:
    """−log p(y | x), of a decoder and of CTC: (1 − λ) L_attention + λ L_CTC    Watanabe et al. 2017, eq. 14.

    ``begin``: the first input of the decoder.
    """
    logits, decoded = model.ctc_pass(batch.source, batch.target.shifted(begin))
    ctc = ctc_loss(logits, without_end(batch.target), blank=BEGIN).total
    if decoded is None or not isinstance(model, HasOutputLayer):
        return Loss(ctc, ctc.detach())
    targets_N, smoothing = batch.target.values, settings.label_smoothing
    attention = output_loss(model.output_layer(), decoded.states.values, targets_N, smoothing=smoothing)
    return Loss((1 - settings.ctc) * attention.smoothed + settings.ctc * ctc, attention.negative_log_likelihood)


def ctc_log_probability(model: HasCTC, batch: Batch) -> Tensor:
    """Σ log p(y | x) of a batch under CTC alone; `LEAST` for a row that has no alignment."""
    loss = ctc_loss(model.ctc_pass(batch.source, batch.target).logits, without_end(batch.target), blank=BEGIN)
    return (~loss.alignable_B).sum() * LEAST - loss.total


@replaceable
def label_losses(log_p: Ragged, labels: Ragged, *, blank: int) -> Tensor:
    """(B,) −log p(y | x) of each row, from log p_t(v) (N, V). It is not defined for a row without an alignment."""
    log_p_TBV = log_p.to_padded().transpose(0, 1)
    extended_BS = _with_blanks(labels, blank)
    skips_BS = extended_BS != blank
    skips_BS[:, 2:] &= extended_BS[:, 2:] != extended_BS[:, :-2]
    frames_B, labels_B = log_p.layout.device_lengths, labels.layout.device_lengths

    states = torch.arange(extended_BS.shape[1], device=log_p.device)
    alpha_BS = (states == 0).to(log_p_TBV.dtype).log().expand(extended_BS.shape)  # α_0: the first blank, then l_1
    for time, log_p_BV in enumerate(log_p_TBV):
        back_two_BS = _shifted(alpha_BS, 2).masked_fill(~skips_BS, float("-inf"))
        reached_BS = log_sum_exp(torch.stack([alpha_BS, _shifted(alpha_BS, 1), back_two_BS]))
        reached_BS = reached_BS + log_p_BV.gather(1, extended_BS)
        alpha_BS = torch.where((time < frames_B)[:, None], reached_BS, alpha_BS)
    last_B2 = torch.stack([2 * labels_B, 2 * labels_B - 1], 1)
    final_B2 = alpha_BS.gather(1, last_B2.clamp(min=0)).masked_fill(last_B2 < 0, float("-inf"))
    return -log_sum_exp(final_B2.T)


def log_sum_exp(values: Tensor) -> Tensor:
    """log Σ exp over the first axis; −∞ where all are −∞, without a gradient there (that of PyTorch is NaN)."""
    impossible = values.isneginf().all(0)
    return values.masked_fill(impossible, 0.0).logsumexp(0).masked_fill(impossible, float("-inf"))


def _with_blanks(labels: Ragged, blank: int) -> Tensor:
    """(B, 2 · longest + 1) blank y_1 blank y_2 … blank"""
    padded_BL = labels.to_padded()
    extended_BS = padded_BL.new_full((labels.rows, 2 * padded_BL.shape[1] + 1), blank)
    extended_BS[:, 1::2] = padded_BL
    return extended_BS


def _shifted(alpha_BS: Tensor, count: int) -> Tensor:
    """α(s − count), −∞ where s < count."""
    return functional.pad(alpha_BS, (count, 0), value=float("-inf"))[:, : alpha_BS.shape[1]]
