"""The largest of many, exactly, without sorting them; and the best extensions of hypotheses, which are that.

The k largest of a row lie in the k blocks whose largest values are largest, so only those are looked at: one pass over
the row for the blocks' maxima, and a small selection. Among equal values any may be taken.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 64
CACHED = 2**18
"""So many floats stay in a core's cache between two passes."""
SMALLEST = 1e-30
"""Sums between this and its inverse have lost nothing."""


def best(values_RV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest values of every row and their places, largest first; fewer where the row is shorter."""
    found = best_extensions(values_RV, None, k)
    return found.ratings_BC, found.tokens_BC


class Extensions(NamedTuple):
    """Hypotheses made longer by a token, best first."""

    ratings_BC: Tensor
    parents_BC: Tensor
    """Which of its sentence's hypotheses was extended."""
    tokens_BC: Tensor


def best_extensions(values_RV: Tensor, begun_BK: Tensor | None, k: int) -> Extensions:
    """The ``k`` largest of ``begun_BK[b, h] + values_RV[b · K + h, v]`` over all hypotheses h of a sentence b and all
    tokens v. Without ``begun_BK``: every row by itself."""
    if begun_BK is None:
        begun_BK = values_RV.new_zeros(len(values_RV), 1)
    rows, size = begun_BK.shape
    length = values_RV.shape[1]
    blocks = length // BLOCK
    if blocks * size < 4 * k:
        found = (begun_BK[:, :, None] + values_RV.view(rows, size, length)).flatten(1)
        ratings_BC, places_BC = found.topk(min(k, found.shape[1]))
        return Extensions(ratings_BC, places_BC // length, places_BC % length)
    device = values_RV.device
    largest_RN = values_RV[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK)).amax(-1)
    largest_BN = (largest_RN.view(rows, size, blocks) + begun_BK[:, :, None]).flatten(1)
    chosen_BK = largest_BN.topk(k).indices
    firsts_BK = chosen_BK // blocks * length + chosen_BK % blocks * BLOCK
    places_BP = (firsts_BK[:, :, None] + torch.arange(BLOCK, device=device)).flatten(1)
    if length % BLOCK:  # what is left over at the end of every row
        rest_K1 = torch.arange(size, device=device)[:, None] * length
        rest_KP = rest_K1 + torch.arange(blocks * BLOCK, length, device=device)
        places_BP = torch.cat([places_BP, rest_KP.flatten().expand(rows, -1)], 1)
    values_BP = values_RV.view(rows, -1).gather(1, places_BP) + begun_BK.gather(1, places_BP // length)
    found_BC = values_BP.topk(k)
    places_BC = places_BP.gather(1, found_BC.indices)
    return Extensions(found_BC.values, places_BC // length, places_BC % length)


def log_sums(logits_RV: Tensor) -> Tensor:
    """log Σ exp of every row.

    On a CPU it is taken literally, some rows at a time so that what lies between stays in the cache: half the time of
    a log-softmax. Rows whose sum leaves the range of floats (logits beyond ±69 or so) get their largest taken out.
    """
    if logits_RV.dtype != torch.float32:
        return logits_RV.float().logsumexp(-1)
    if logits_RV.is_cuda:
        return logits_RV.amax(-1) - logits_RV.softmax(-1).amax(-1).log()
    some = max(1, CACHED // max(1, logits_RV.shape[1]))
    exp_SV = torch.empty_like(logits_RV[:some])
    sums = [torch.exp(part_SV, out=exp_SV[: len(part_SV)]).sum(-1) for part_SV in logits_RV.split(some)]
    sums_R = torch.cat(sums)
    found_R = sums_R.log()
    unsafe_R = ~((sums_R > SMALLEST) & (sums_R < 1 / SMALLEST))
    if bool(unsafe_R.any()):
        found_R[unsafe_R] = logits_RV[unsafe_R].logsumexp(-1)
    return found_R
