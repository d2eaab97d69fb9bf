"""Normalizers: from the scores of an attention to its weights, which are not negative and sum to one.

    softmax(z)_i   = exp(z_i) / Σ_j exp(z_j)               every weight is positive
    sparsemax(z)   = argmin_p ‖p − z‖²                      Martins & Astudillo 2016, section 2
                   = [z − τ]₊
    entmax15(z)    = argmax_p pᵀz + H_1.5(p)                Peters, Niculae & Martins 2019, section 3
                   = [z/2 − τ]₊²

over the probability simplex, with H_1.5(p) = (4/3) Σ_j (p_j − p_j^1.5), the Tsallis entropy of order 1.5. The
threshold τ makes the weights sum to one; it is found exactly, by sorting. Small scores get a weight of exactly zero,
and a score of −∞ (a masked position) always does.

All work on the last axis. To add one: write the function and add its line to NORMALIZERS in weft/recipe/choices.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from weft.recipe.choices import NORMALIZERS, resolve

Normalizer = Callable[[Tensor], Tensor]


def softmax(scores: Tensor) -> Tensor:
    return torch.softmax(scores, -1)


def sparsemax(scores: Tensor) -> Tensor:
    """The projection of the scores onto the probability simplex."""
    return _Sparsemax.apply(scores)


def entmax15(scores: Tensor) -> Tensor:
    """1.5-entmax: between softmax, whose order is 1, and sparsemax, whose order is 2."""
    return _Entmax15.apply(scores)


def make_normalizer(name: str) -> Normalizer:
    """The normalizer of this name."""
    return resolve(NORMALIZERS, name)


class _Sparsemax(torch.autograd.Function):
    """Sparsemax with its gradient in closed form: g − mean of g over the support, on the support."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        shifted = _shifted(scores, scale=1.0)
        ordered, _ = shifted.sort(-1, descending=True)
        counts = _counts(ordered)
        sums = ordered.cumsum(-1)
        size = (1 + counts * ordered > sums).sum(-1, keepdim=True)  # of the support
        threshold = (sums.gather(-1, size - 1) - 1) / size
        weights = (shifted - threshold).clamp(min=0).to(scores.dtype)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        [weights] = ctx.saved_tensors
        support = weights > 0
        mean = (gradient * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return (gradient - mean) * support


class _Entmax15(torch.autograd.Function):
    """1.5-entmax with its gradient in closed form: s ⊙ (g − (sᵀg / Σ s)), s = √p."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        shifted = _shifted(scores, scale=0.5)
        ordered, _ = shifted.sort(-1, descending=True)
        counts = _counts(ordered)
        mean = ordered.cumsum(-1) / counts
        variance = counts * (ordered.square().cumsum(-1) / counts - mean.square())
        thresholds = mean - ((1 - variance) / counts).clamp(min=0).sqrt()
        size = (thresholds <= ordered).sum(-1, keepdim=True)  # of the support
        threshold = thresholds.gather(-1, size - 1)
        weights = (shifted - threshold).clamp(min=0).square().to(scores.dtype)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        [weights] = ctx.saved_tensors
        roots = weights.sqrt()
        mean = (gradient * roots).sum(-1, keepdim=True) / roots.sum(-1, keepdim=True)
        return (gradient - mean) * roots


def _shifted(scores: Tensor, *, scale: float) -> Tensor:
    """The scores, scaled, less the largest of their row, in at least single precision.

    The threshold is never below −1, so scores below that all have a weight of zero; they are raised to −2, which keeps
    −∞ out of the sums and changes nothing.
    """
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32)) * scale
    return (wide - wide.amax(-1, keepdim=True)).clamp(min=-2)


def _counts(ordered: Tensor) -> Tensor:
    """1, 2, 3, … along the last axis."""
    return torch.arange(1, ordered.shape[-1] + 1, device=ordered.device, dtype=ordered.dtype)
