"""Cross-entropy with label smoothing.

loss_t = −(1 − ε) log p(y_t) − ε/V Σ_v log p(v)      Szegedy et al. 2016, 7; ε = 0 is plain cross-entropy
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.data.store.token_store import Batch
from weft.models.interface import HasOutputLayer, Model
from weft.models.layers import Output
from weft.training.forcing import forced_logits


class Loss(NamedTuple):
    """Sums over the tokens of a batch."""

    smoothed: Tensor
    """What is minimized."""
    negative_log_likelihood: Tensor
    """−Σ log p(y_t), without smoothing and without gradient: what perplexity is made of."""


def cross_entropy(logits_NV: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Loss:
    """The loss of every target token, summed."""
    if logits_NV.dtype in (torch.float16, torch.bfloat16):
        logits_NV = logits_NV.float()
    log_NV = logits_NV.log_softmax(-1)
    likelihood = -log_NV.gather(1, targets_N[:, None]).sum()
    smoothed = (1 - smoothing) * likelihood - smoothing * log_NV.mean(-1).sum() if smoothing else likelihood
    return Loss(smoothed, likelihood.detach())


CHUNK = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Logits that exist at a time."""


NOTHING = -1
"""A target that is none: it has no loss and no gradient. Only batches that are filled up to a fixed size have it."""


class _OutputCrossEntropy(torch.autograd.Function):
    """Logits, loss and gradients, chunk by chunk: all in the forward pass; the backward only scales."""

    @staticmethod
    def forward(
        ctx: Any, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary, kind = len(bias_V), states_ND.device.type
        rows = max(CHUNK[kind] // vocabulary, 1)
        states_grad_ND, weight_grad_VD = torch.empty_like(states_ND), torch.zeros_like(weight_VD)
        bias_grad_V = torch.zeros_like(bias_V)
        used_VD, used_bias_V = weight_VD.to(states_ND.dtype), bias_V.to(states_ND.dtype)
        likelihood = bias_V.new_zeros(())
        uniform = bias_V.new_zeros(())
        buffer_CV = states_ND.new_empty(min(rows, len(states_ND)), vocabulary)
        with torch.autocast(kind, enabled=False):
            for start in range(0, len(states_ND), rows):
                states_CD, targets_C = states_ND[start : start + rows], targets_N[start : start + rows]
                grad_CV = torch.addmm(used_bias_V, states_CD, used_VD.t(), out=buffer_CV[: len(states_CD)])
                likely, even = _losses_and_gradient(grad_CV, targets_C, smoothing)
                likelihood += likely
                uniform += even
                torch.mm(grad_CV, used_VD, out=states_grad_ND[start : start + rows])
                if used_VD.dtype == weight_VD.dtype:
                    weight_grad_VD.addmm_(grad_CV.t(), states_CD)
                else:
                    weight_grad_VD += torch.mm(grad_CV.t(), states_CD)
                bias_grad_V += grad_CV.sum(0)
        ctx.save_for_backward(states_grad_ND, weight_grad_VD, bias_grad_V)
        ctx.mark_non_differentiable(likelihood)
        return (1 - smoothing) * likelihood + smoothing * uniform, likelihood

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, unused: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        states_grad_ND, weight_grad_VD, bias_grad_V = ctx.saved_tensors
        return states_grad_ND * gradient, weight_grad_VD * gradient, bias_grad_V * gradient, None, None


def _losses_and_gradient(logits_CV: Tensor, targets_C: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Σ −log p(y) and Σ −mean log p(v) over the rows; ``logits_CV`` becomes the gradient of the smoothed loss.

    d loss / d logits = p − (1 − ε) [v = y] − ε/V
    """
    if logits_CV.is_cuda:
        from weft.kernels.triton.cross_entropy import losses_and_gradient

        return losses_and_gradient(logits_CV, targets_C, smoothing)
    targets_C1 = targets_C[:, None]
    half = logits_CV.dtype in (torch.float16, torch.bfloat16)
    wide_CV = logits_CV.float() if half else logits_CV  # sums are made in single precision at least
    most_C = wide_CV.amax(-1)
    of_targets_C1 = wide_CV.gather(1, targets_C1)
    mean_C = wide_CV.mean(-1) if smoothing else None
    grad_CV = torch.softmax(wide_CV, -1, out=wide_CV)
    total_C = most_C - grad_CV.amax(-1).log()  # log Σ exp(logits): the greatest p is exp(greatest) / Σ exp
    likelihood = (total_C - of_targets_C1[:, 0]).sum()
    uniform = torch.zeros_like(likelihood)
    if mean_C is not None:
        uniform = (total_C - mean_C).sum()
        grad_CV -= smoothing / logits_CV.shape[1]
    grad_CV.scatter_add_(1, targets_C1, grad_CV.new_full(targets_C1.shape, smoothing - 1))
    if half:
        logits_CV.copy_(grad_CV)
    return likelihood, uniform


def output_cross_entropy(output: Output, states_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Loss:
    """The loss of every target token, summed, from the states that the output layer would make logits of."""
    return Loss(*_OutputCrossEntropy.apply(states_ND, output.weight_VD, output.bias_V, targets_N, smoothing))


def batch_loss(model: Model, batch: Batch, *, begin: int, own: float = 0.0, smoothing: float = 0.0) -> Loss:
    """The loss of a batch, the decoder reading its own predictions with probability ``own``."""
    if own == 0.0 and isinstance(model, HasOutputLayer):
        states = model.hidden_states(batch.source, batch.target.shifted(begin)).states
        return output_cross_entropy(model.output, states.values, batch.target.values, smoothing=smoothing)
    logits_NV = forced_logits(model, batch.source, batch.target, begin=begin, own=own)
    return cross_entropy(logits_NV, batch.target.values, smoothing=smoothing)
