"""Output layer and 1.5-entmax loss in one, a chunk of rows at a time, so that all scores never exist at once.

Must equal `weft.training.loss.entmax15_loss` of the output layer's scores: tests/kernels/test_chunked_entmax_loss.py.
Gradients are computed in the forward pass, while a chunk's scores are there; the backward pass only scales them:

    d loss / d scores = p − [v = y],    p = [z/2 − τ]₊²

The threshold τ is found without sorting. With s = z/2 − max z/2 and r(τ) = ‖[s − τ]₊‖₂, it is the root of r(τ) = 1
between −1 and 0. r is convex and falls, so Newton's method from −1 approaches the root from below and never passes it:

    τ ← τ + (r − 1) r / Σ [s − τ]₊

It is exact after one step where all scores are equal or one is far above the others, and after `ITERATIONS` to rounding
for every distribution that was tried. There is always the same number of them: nothing waits for a GPU, so that an
update can be captured in a CUDA graph, and a row does not depend on the others.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK_SCORES = {"cpu": 1 << 20, "cuda": 1 << 25}
"""Scores that exist at a time."""
ITERATIONS = 9


def chunked_entmax_loss(states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor) -> Tensor:
    """The loss, summed over the targets; those below 0 do not count."""
    loss: Tensor = _ChunkedEntmaxLoss.apply(states_ND, weight_VD, bias_V, targets_N)
    return loss


class _ChunkedEntmaxLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor) -> Tensor:
        device_type = states_ND.device.type
        rows = max(CHUNK_SCORES[device_type] // len(bias_V), 1)
        states_grad_ND, weight_grad_VD = torch.empty_like(states_ND), torch.zeros_like(weight_VD)
        bias_grad_V, loss = torch.zeros_like(bias_V), bias_V.new_zeros(())
        cast_weight_VD, cast_bias_V = weight_VD.to(states_ND.dtype), bias_V.to(states_ND.dtype)
        with torch.autocast(device_type, enabled=False):
            for start in range(0, len(states_ND), rows):
                states_CD, targets_C = states_ND[start : start + rows], targets_N[start : start + rows]
                scores_CV = torch.addmm(cast_bias_V, states_CD, cast_weight_VD.t())
                chunk_loss, grad_CV = _loss_and_gradient(scores_CV, targets_C)
                loss += chunk_loss
                torch.mm(grad_CV, cast_weight_VD, out=states_grad_ND[start : start + rows])
                weight_grad_VD += torch.mm(grad_CV.t(), states_CD)
                bias_grad_V += grad_CV.sum(0)
        ctx.save_for_backward(states_grad_ND, weight_grad_VD, bias_grad_V)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        states_grad_ND, weight_grad_VD, bias_grad_V = ctx.saved_tensors
        return states_grad_ND * gradient, weight_grad_VD * gradient, bias_grad_V * gradient, None


def _loss_and_gradient(scores_CV: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor]:
    """Σ (p − e_y)ᵀz + H(p) over the rows, and p − e_y in the precision of the scores."""
    is_half = scores_CV.dtype in (torch.float16, torch.bfloat16)
    single_CV = scores_CV.float() if is_half else scores_CV  # sums in single precision at least
    counts_C1 = (targets_C >= 0)[:, None].to(single_CV.dtype)
    targets_C1 = targets_C.clamp(min=0)[:, None]
    shifted_CV = (single_CV - single_CV.amax(-1, keepdim=True)) * 0.5
    roots_CV = _roots(shifted_CV)
    grad_CV = roots_CV.square()
    # Σ p z + (4/3) Σ (p − p^1.5) = Σ p (z + 4/3 (1 − √p)), less z_y; z and z_y less the largest score
    losses_C1 = (grad_CV * (2 * shifted_CV + (1 - roots_CV) * (4 / 3))).sum(-1, keepdim=True)
    losses_C1 -= 2 * shifted_CV.gather(1, targets_C1)
    grad_CV.scatter_add_(1, targets_C1, -torch.ones_like(counts_C1)).mul_(counts_C1)
    return (losses_C1 * counts_C1).sum(), grad_CV.to(scores_CV.dtype)


def _roots(shifted_CV: Tensor) -> Tensor:
    """√p = [s − τ]₊ of halved scores whose largest is 0."""
    threshold_C1 = torch.full_like(shifted_CV[:, :1], -1.0)
    above_CV = torch.empty_like(shifted_CV)
    for _ in range(ITERATIONS):
        torch.sub(shifted_CV, threshold_C1, out=above_CV).clamp_(min=0)
        norm_C1 = torch.linalg.vector_norm(above_CV, dim=-1, keepdim=True)
        threshold_C1 += (norm_C1 - 1) * norm_C1 / above_CV.sum(-1, keepdim=True)
    return torch.sub(shifted_CV, threshold_C1, out=above_CV).clamp_(min=0)
