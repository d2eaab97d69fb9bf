"""The k best extensions of hypotheses, and the k largest values of rows. Among equal values any may be taken.

The plain functions: one pass over all scores each. `weft.fast.searching.top_k` reads them less often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from weft.runtime.replaceable import replaceable
from weft.search.constraints import LogitsConstraint, apply_constraints
from weft.search.state import SearchState


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


@replaceable
def top_k_extensions(scores_RV: Tensor, totals_BK: Tensor, k: int) -> Extensions:
    """The ``k`` largest of ``totals_BK[b, h] + scores_RV[b · K + h, v]`` over all hypotheses h of a sentence b and all
    tokens v."""
    sentences, size = totals_BK.shape
    vocabulary = scores_RV.shape[1]
    sums_BX = (totals_BK[:, :, None] + scores_RV.view(sentences, size, vocabulary)).flatten(1)
    scores_BC, indices_BC = sums_BX.topk(min(k, sums_BX.shape[1]))
    return Extensions(scores_BC, indices_BC // vocabulary, indices_BC % vocabulary)


@replaceable
def top_k_constrained(
    logits_RV: Tensor,
    totals_BK: Tensor,
    k: int,
    state: SearchState,
    constraints: Sequence[LogitsConstraint],
    end: int,
) -> Extensions:
    """`top_k_extensions` of the log-probabilities under constraints, all of which only forbid.

    log p(v) = logit_v − log Σ exp(logits): the sum is subtracted from the totals, not from every logit. The logits are
    overwritten.
    """
    totals_BK = totals_BK - log_sum_exp(logits_RV).view_as(totals_BK)
    scores_RV = apply_constraints(logits_RV, state, constraints, end, in_place=True)
    if k == totals_BK.shape[1] == 1:
        tokens_B1 = first_largest(scores_RV)
        return Extensions(totals_BK + scores_RV.gather(1, tokens_B1), torch.zeros_like(tokens_B1), tokens_B1)
    return top_k_extensions(scores_RV, totals_BK, k)


@replaceable
def first_largest(values_RV: Tensor) -> Tensor:
    """(R, 1) the index of the largest value of every row, of equals the first."""
    return values_RV.argmax(-1, keepdim=True)


@replaceable
def log_sum_exp(values_RV: Tensor) -> Tensor:
    """log Σ exp of every row, in single precision."""
    return values_RV.float().logsumexp(-1)
