"""log p(y) of given targets under a softmax output layer, a chunk of rows at a time, so that all logits never exist at
once.

Must equal ``log_softmax`` of the output layer's logits at the targets, and its mean over the vocabulary:
tests/kernels/test_chunked_target_log_probabilities.py. Unlike in `weft.kernels.chunked_cross_entropy` every target may
have a gradient of its own, which is known only in the backward pass; so the logits of a chunk are computed again there:

    log p(y) = z_y − log Σ_v exp z_v           u = mean_v log p(v)
    d loss / d z_v = g [v = y] + h / V − (g + h) p(v)         g = d loss / d log p(y),  h = d loss / d u
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from weft.kernels.chunked_cross_entropy import CHUNK_LOGITS


def chunked_target_log_probabilities(
    states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor, *, mean: bool
) -> tuple[Tensor, Tensor | None]:
    """log p(y) of every target, and with ``mean`` the mean of log p(v) over the vocabulary; in float32 at least."""
    function = _TargetLogProbabilities.apply
    log_p_N, mean_N = cast("tuple[Tensor, Tensor]", function(states_ND, weight_VD, bias_V, targets_N, mean))
    return log_p_N, mean_N if mean else None


class _TargetLogProbabilities(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor, mean: bool
    ) -> tuple[Tensor, Tensor]:
        single = torch.promote_types(states_ND.dtype, torch.float32)
        log_p_N, mean_N, log_sum_N = states_ND.new_zeros(3, len(states_ND), dtype=single)
        for rows, logits_CV in _chunks(states_ND, weight_VD, bias_V):
            log_sum_N[rows] = logits_CV.logsumexp(-1)
            log_p_N[rows] = logits_CV.gather(1, targets_N[rows, None])[:, 0] - log_sum_N[rows]
            if mean:
                mean_N[rows] = logits_CV.mean(-1) - log_sum_N[rows]
        ctx.save_for_backward(states_ND, weight_VD, bias_V, targets_N, log_sum_N)
        ctx.mean = mean
        if not mean:
            ctx.mark_non_differentiable(mean_N)
        return log_p_N, mean_N

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor, mean_grad_N: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        states_ND, weight_VD, bias_V, targets_N, log_sum_N = ctx.saved_tensors
        states_grad_ND, weight_grad_VD = torch.empty_like(states_ND), torch.zeros_like(weight_VD)
        bias_grad_V, cast_weight_VD = torch.zeros_like(bias_V), weight_VD.to(states_ND.dtype)
        total_N = grad_N + mean_grad_N if ctx.mean else grad_N
        for rows, logits_CV in _chunks(states_ND, weight_VD, bias_V):
            grad_CV = logits_CV.sub_(log_sum_N[rows, None]).exp_().mul_(-total_N[rows, None])
            if ctx.mean:
                grad_CV += mean_grad_N[rows, None] / len(bias_V)
            grad_CV.scatter_add_(1, targets_N[rows, None], grad_N[rows, None])
            bias_grad_V += grad_CV.sum(0)
            grad_CV = grad_CV.to(states_ND.dtype)
            with torch.autocast(states_ND.device.type, enabled=False):
                torch.mm(grad_CV, cast_weight_VD, out=states_grad_ND[rows])
                weight_grad_VD += torch.mm(grad_CV.t(), states_ND[rows])
        return states_grad_ND, weight_grad_VD, bias_grad_V, None, None


def _chunks(states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Rows of the states and their logits, in float32 at least; each chunk's may be overwritten."""
    device_type = states_ND.device.type
    rows = max(CHUNK_LOGITS[device_type] // len(bias_V), 1)
    cast_weight_VD, cast_bias_V = weight_VD.to(states_ND.dtype), bias_V.to(states_ND.dtype)
    for start in range(0, len(states_ND), rows):
        chunk = slice(start, start + rows)
        with torch.autocast(device_type, enabled=False):
            logits_CV = torch.addmm(cast_bias_V, states_ND[chunk], cast_weight_VD.t())
        yield chunk, logits_CV.to(torch.promote_types(logits_CV.dtype, torch.float32))
