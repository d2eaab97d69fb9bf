"""The k largest of every row, exactly, without sorting the row."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64


def best(values_RV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest values of every row and their places, largest first; fewer where the row is shorter.

    The k largest lie in the k blocks whose largest values are largest, so only those are looked at: one pass over the
    row for the blocks' maxima, and a small selection. Among equal values any may be taken.
    """
    rows, length = values_RV.shape
    blocks = length // BLOCK
    if blocks < 4 * k:
        return values_RV.topk(min(k, length))
    whole_RNB = values_RV[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    chosen_RK = whole_RNB.amax(-1).topk(k).indices
    places_RC = (chosen_RK[:, :, None] * BLOCK + torch.arange(BLOCK, device=values_RV.device)).flatten(1)
    if length % BLOCK:
        rest = torch.arange(blocks * BLOCK, length, device=values_RV.device)
        places_RC = torch.cat([places_RC, rest.expand(rows, -1)], 1)
    found = values_RV.gather(1, places_RC).topk(k)
    return found.values, places_RC.gather(1, found.indices)
