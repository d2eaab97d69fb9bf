"""Cross-entropy with label smoothing.

loss_t = −(1 − ε) log p(y_t) − ε/V Σ_v log p(v)      Szegedy et al. 2016, 7; ε = 0 is plain cross-entropy
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Loss(NamedTuple):
    """Sums over the tokens of a batch."""

    smoothed: Tensor
    """What is minimised."""
    negative_log_likelihood: Tensor
    """−Σ log p(y_t), without smoothing and without gradient: what perplexity is made of."""


class _CrossEntropy(torch.autograd.Function):
    """Both sums in two passes over the logits, and the gradient in three more, in place."""

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, targets_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        if logits_NV.dtype in (torch.float16, torch.bfloat16):
            logits_NV = logits_NV.float()
        normaliser_N = logits_NV.logsumexp(-1)
        likelihood_N = normaliser_N - logits_NV.gather(1, targets_N[:, None])[:, 0]
        total = likelihood_N.sum()
        smoothed = total
        if smoothing:
            uniform = normaliser_N.sum() - logits_NV.mean(-1).sum()
            smoothed = (1 - smoothing) * total + smoothing * uniform
        ctx.save_for_backward(logits_NV, targets_N, normaliser_N)
        ctx.smoothing = smoothing
        ctx.mark_non_differentiable(total)
        return smoothed.clone(), total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, unused: Tensor) -> tuple[Tensor, None, None]:
        logits_NV, targets_N, normaliser_N = ctx.saved_tensors
        smoothing = ctx.smoothing
        grad_NV = torch.sub(logits_NV, normaliser_N[:, None]).exp_()
        if smoothing:
            grad_NV.sub_(smoothing / logits_NV.shape[-1])
        ones_N1 = grad_NV.new_full((len(targets_N), 1), smoothing - 1)
        grad_NV.scatter_add_(1, targets_N[:, None], ones_N1)
        return grad_NV.mul_(gradient), None, None


def cross_entropy(logits_NV: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Loss:
    """The loss of every target token, summed."""
    return Loss(*_CrossEntropy.apply(logits_NV, targets_N, smoothing))
