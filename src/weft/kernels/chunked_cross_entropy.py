"""Output layer and cross-entropy in one, a chunk of rows at a time, so that all logits never exist at once.

Must equal `weft.training.loss.cross_entropy` of the output layer's logits: tests/kernels/test_chunked_cross_entropy.py.
Gradients are computed in the forward pass, while a chunk's logits are there; the backward pass only scales them:

    d loss / d logits = p − (1 − ε) [v = y] − ε/V
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

CHUNK_LOGITS = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Logits that exist at a time, in single precision."""

ROW_ALIGNMENT = 16
"""On a CPU the rows of a chunk begin at multiples of this many numbers, beyond the last logit of the row before.

Where rows begin anywhere, as they do if the size of the vocabulary is odd, the product that computes the logits takes
half as long again (AVX2: 54 instead of 82 GFLOP/s for 526 × 256 by 256 × 7969).
"""
MIN_PADDED_VOCABULARY = 256
"""Below, padding gains nothing."""

IGNORE_INDEX = -1
"""A target without loss and gradient (on a GPU only): the padding of a batch of fixed size."""


def chunked_cross_entropy(
    states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor, *, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The smoothed loss, and the negative log-likelihood without gradient; both summed over the targets."""
    return cast("tuple[Tensor, Tensor]", _ChunkedCrossEntropy.apply(states_ND, weight_VD, bias_V, targets_N, smoothing))


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary, device_type = len(bias_V), states_ND.device.type
        rows = max(CHUNK_LOGITS[device_type] // vocabulary, 1)
        if states_ND.is_cuda and states_ND.dtype != torch.float32:
            rows *= 2  # in as much memory
        states_grad_ND, weight_grad_VD = torch.empty_like(states_ND), torch.zeros_like(weight_VD)
        bias_grad_V = torch.zeros_like(bias_V)
        cast_weight_VD, cast_bias_V = weight_VD.to(states_ND.dtype), bias_V.to(states_ND.dtype)
        likelihood = bias_V.new_zeros(())
        uniform = bias_V.new_zeros(())
        buffer_CP = states_ND.new_empty(min(rows, len(states_ND)), padded_width(vocabulary, device_type))
        with torch.autocast(device_type, enabled=False):
            for start in range(0, len(states_ND), rows):
                states_CD, targets_C = states_ND[start : start + rows], targets_N[start : start + rows]
                padded_CP = buffer_CP[: len(states_CD)]
                grad_CV = padded_CP[:, :vocabulary]
                torch.addmm(cast_bias_V, states_CD, cast_weight_VD.t(), out=grad_CV)
                chunk_likelihood, chunk_uniform = _losses_and_gradient(padded_CP, vocabulary, targets_C, smoothing)
                likelihood += chunk_likelihood
                uniform += chunk_uniform
                torch.mm(grad_CV, cast_weight_VD, out=states_grad_ND[start : start + rows])
                if cast_weight_VD.dtype == weight_VD.dtype:
                    weight_grad_VD.addmm_(grad_CV.t(), states_CD)
                elif states_ND.is_cuda:  # added by the product, and not rounded before
                    torch.addmm(weight_grad_VD, grad_CV.t(), states_CD, weight_VD.dtype, out=weight_grad_VD)
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


def padded_width(vocabulary: int, device_type: str) -> int:
    """The width of a row of logits with its padding."""
    if device_type != "cpu" or vocabulary < MIN_PADDED_VOCABULARY:
        return vocabulary
    return (vocabulary // ROW_ALIGNMENT + 1) * ROW_ALIGNMENT


def _losses_and_gradient(
    padded_CP: Tensor, vocabulary: int, targets_C: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Σ −log p(y) and Σ −mean log p(v) over the rows; the logits, which come first, are overwritten with the gradient.

    What follows the logits in ``padded_CP`` means nothing.
    """
    if padded_CP.is_cuda:
        from weft.kernels.triton.cross_entropy import losses_and_gradient

        return losses_and_gradient(padded_CP, targets_C, smoothing)
    targets_C1 = targets_C[:, None]
    is_half = padded_CP.dtype in (torch.float16, torch.bfloat16)
    padded_CP[:, vocabulary:] = float("-inf")  # p = 0
    grad_CP = padded_CP.float() if is_half else padded_CP  # sums in single precision at least
    max_C = grad_CP.amax(-1)
    target_logits_C1 = grad_CP.gather(1, targets_C1)
    mean_C = grad_CP[:, :vocabulary].mean(-1) if smoothing else None
    torch.softmax(grad_CP, -1, out=grad_CP)
    log_sum_C = max_C - grad_CP.amax(-1).log()  # log Σ exp(logits): the largest p is exp(max) / Σ exp
    likelihood = (log_sum_C - target_logits_C1[:, 0]).sum()
    uniform = torch.zeros_like(likelihood)
    if mean_C is not None:
        uniform = (log_sum_C - mean_C).sum()
        grad_CP -= smoothing / vocabulary
    grad_CP.scatter_add_(1, targets_C1, grad_CP.new_full(targets_C1.shape, smoothing - 1))
    if is_half:
        padded_CP.copy_(grad_CP)
    return likelihood, uniform
