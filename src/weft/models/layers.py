"""Small pieces that every model shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.ragged import Ragged


def dropout(values: Tensor, share: float, training: bool) -> Tensor:
    """Each value 0 with probability ``share``, else scaled to keep the mean   Srivastava et al. 2014.

    On a CPU drawing random numbers is what takes time, so four values share 64 bits: the share is rounded to 1/65536.
    """
    if not training or share == 0.0:
        return values
    if values.is_cuda:
        return functional.dropout(values, share)
    return values * dropout_factors(values.shape, share, values.dtype)


def dropout_factors(shape: Sequence[int], share: float, dtype: torch.dtype) -> Tensor:
    """What dropout multiplies by on a CPU: 0 with probability ``share``, else 1 / (1 − share)."""
    count = math.prod(shape)
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = bits.view(torch.int16)[:count].view(*shape) >= round(share * 65536) - 32768
    return kept.to(dtype).mul_(1 / (1 - share))


def add_dropped(values: Tensor, added: Tensor, share: float, training: bool) -> Tensor:
    """``values`` plus ``dropout`` of what is ``added``, in one pass over memory where that matters."""
    if not training or share == 0.0 or values.is_cuda:
        return values + dropout(added, share, training)
    return torch.addcmul(values, added, dropout_factors(added.shape, share, added.dtype))


class Embedding(nn.Module):
    """Ids to vectors, with dropout."""

    def __init__(self, size: int, width: int, dropout: float = 0.0, tied: Embedding | None = None) -> None:
        """``tied``: the table is that of another embedding."""
        super().__init__()
        if tied is None:
            self.weight_VE = nn.Parameter(torch.empty(size, width).normal_(0.0, width**-0.5))
        else:
            self.weight_VE = tied.weight_VE
        self.dropout = dropout

    def forward(self, ids: Tensor) -> Tensor:
        return dropout(functional.embedding(ids, self.weight_VE), self.dropout, self.training)

    def ragged(self, ids: Ragged) -> Ragged:
        return ids.map(self)


class Output(nn.Module):
    """States to logits over the vocabulary; its matrix may be an embedding's (Press & Wolf 2017)."""

    def __init__(self, size: int, width: int, tied: Embedding | None = None) -> None:
        super().__init__()
        self.width = width
        if tied is None:
            self.weight_VD = nn.Parameter(torch.empty(size, width).normal_(0.0, width**-0.5))
        else:
            self.weight_VD = tied.weight_VE
        self.bias_V = nn.Parameter(torch.zeros(size))

    def forward(self, states_ND: Tensor) -> Tensor:
        return functional.linear(states_ND, self.weight_VD, self.bias_V)
