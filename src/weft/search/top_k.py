"""The k largest of many values, exactly, without sorting them; and the k best extensions of hypotheses.

The k largest of a row lie in the k blocks with the largest maxima, so only those are read again: one pass over the row
for the maxima of its blocks, and a small selection. Among equal values any may be taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from weft.search.constraints import LogitsConstraint, apply_constraints
from weft.search.state import SearchState

BLOCK = 64
CACHE_FLOATS = 2**18
"""So many floats stay in a core's cache between two passes."""
SAFE_LOG_SUM = 69.0
"""Sums between e to this power and its inverse are within the range of floats, and have lost no precision."""


class Extensions(NamedTuple):
    """Hypotheses extended by one token, best first."""

    scores_BC: Tensor
    parents_BC: Tensor
    """Which of its sentence's hypotheses was extended."""
    tokens_BC: Tensor


def top_k(values_RV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest values of every row and their indices, largest first; fewer where the row is shorter."""
    largest = top_k_extensions(values_RV, values_RV.new_zeros(len(values_RV), 1), k)
    return largest.scores_BC, largest.tokens_BC


def top_k_extensions(scores_RV: Tensor, totals_BK: Tensor, k: int) -> Extensions:
    """The ``k`` largest of ``totals_BK[b, h] + scores_RV[b · K + h, v]`` over all hypotheses h of a sentence b and all
    tokens v."""
    sentences, size = totals_BK.shape
    length = scores_RV.shape[1]
    blocks = length // BLOCK
    if blocks * size < 4 * k:
        sums_BX = (totals_BK[:, :, None] + scores_RV.view(sentences, size, length)).flatten(1)
        scores_BC, indices_BC = sums_BX.topk(min(k, sums_BX.shape[1]))
        return Extensions(scores_BC, indices_BC // length, indices_BC % length)
    device = scores_RV.device
    maxima_RN = scores_RV[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK)).amax(-1)
    maxima_BN = (maxima_RN.view(sentences, size, blocks) + totals_BK[:, :, None]).flatten(1)
    blocks_BK = maxima_BN.topk(k).indices
    starts_BK = blocks_BK // blocks * length + blocks_BK % blocks * BLOCK
    indices_BP = (starts_BK[:, :, None] + torch.arange(BLOCK, device=device)).flatten(1)
    if length % BLOCK:  # what is left over at the end of every row
        rest_K1 = torch.arange(size, device=device)[:, None] * length
        rest_KP = rest_K1 + torch.arange(blocks * BLOCK, length, device=device)
        indices_BP = torch.cat([indices_BP, rest_KP.flatten().expand(sentences, -1)], 1)
    sums_BP = scores_RV.view(sentences, -1).gather(1, indices_BP) + totals_BK.gather(1, indices_BP // length)
    best_BC = sums_BP.topk(k)
    indices_BC = indices_BP.gather(1, best_BC.indices)
    return Extensions(best_BC.values, indices_BC // length, indices_BC % length)


def top_k_constrained(
    logits_RV: Tensor,
    totals_BK: Tensor,
    k: int,
    state: SearchState,
    constraints: Sequence[LogitsConstraint],
    end: int,
) -> Extensions:
    """`top_k_extensions` of the log-probabilities under constraints, all of which only forbid.

    The log-probabilities of all other tokens are never computed. The logits are overwritten. On a GPU the kernel
    `weft.kernels.triton.top_k` does the same.
    """
    if logits_RV.is_cuda:
        from weft.search.fused_steps import allows_fusion, best_tokens

        if allows_fusion(logits_RV, state, constraints, k):
            return _best_of_rows(totals_BK, *best_tokens(logits_RV, k, state, constraints, end))
    totals_BK = totals_BK - log_sum_exp(logits_RV).view_as(totals_BK)
    scores_RV = apply_constraints(logits_RV, state, constraints, end, in_place=True)
    if k == totals_BK.shape[1] == 1:
        tokens_B1 = first_largest(scores_RV)
        return Extensions(totals_BK + scores_RV.gather(1, tokens_B1), torch.zeros_like(tokens_B1), tokens_B1)
    return top_k_extensions(scores_RV, totals_BK, k)


def first_largest(values_RV: Tensor) -> Tensor:
    """(R, 1) the index of the largest value of every row, of equals the first."""
    if values_RV.device.type != "cpu" or values_RV.dtype != torch.float32:
        return values_RV.argmax(-1, keepdim=True)
    return torch.from_numpy(values_RV.detach().numpy().argmax(-1, keepdims=True))  # a tenth of the time of `argmax`


def _best_of_rows(totals_BK: Tensor, log_probs_RC: Tensor, tokens_RC: Tensor) -> Extensions:
    """The best extensions of each sentence among those of its hypotheses."""
    k = tokens_RC.shape[1]
    sentences, size = totals_BK.shape
    if size == 1:
        return Extensions(totals_BK + log_probs_RC, torch.zeros_like(tokens_RC), tokens_RC)
    sums_BX = (totals_BK.reshape(-1, 1) + log_probs_RC).view(sentences, -1)
    scores_BC, indices_BC = sums_BX.topk(k)
    return Extensions(scores_BC, indices_BC // k, tokens_RC.view(sentences, -1).gather(1, indices_BC))


def log_sum_exp(logits_RV: Tensor) -> Tensor:
    """log Σ exp of every row.

    On a CPU it is computed literally, some rows at a time so that intermediate values stay in the cache: half the time
    of a log-softmax. Rows whose sum leaves the range of floats (logits beyond ±69 or so) have their maximum subtracted.
    """
    if logits_RV.dtype != torch.float32:
        return logits_RV.float().logsumexp(-1)
    if logits_RV.is_cuda:
        return logits_RV.amax(-1) - logits_RV.softmax(-1).amax(-1).log()
    rows, chunk = len(logits_RV), max(1, CACHE_FLOATS // max(1, logits_RV.shape[1]))
    if rows <= chunk:
        log_sums_R = torch.exp(logits_RV).sum(-1).log_()
    else:
        exp_CV = torch.empty_like(logits_RV[:chunk])
        sums = [torch.exp(chunk_CV, out=exp_CV[: len(chunk_CV)]).sum(-1) for chunk_CV in logits_RV.split(chunk)]
        log_sums_R = torch.cat(sums).log_()
    if rows and not float(log_sums_R.abs().max()) < SAFE_LOG_SUM:  # also if it is not a number
        unsafe_R = ~(log_sums_R.abs() < SAFE_LOG_SUM)
        log_sums_R[unsafe_R] = logits_RV[unsafe_R].logsumexp(-1)
    return log_sums_R
