"""Small pieces that every model shares."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.ragged import Ragged


class Embedding(nn.Module):
    """Ids to vectors, with dropout."""

    def __init__(self, size: int, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.weight_VE = nn.Parameter(torch.empty(size, width).normal_(0.0, width**-0.5))
        self.dropout = dropout

    def forward(self, ids: Tensor) -> Tensor:
        return functional.dropout(functional.embedding(ids, self.weight_VE), self.dropout, self.training)

    def ragged(self, ids: Ragged) -> Ragged:
        return ids.map(self)


class Output(nn.Module):
    """States to logits over the vocabulary; its matrix may be an embedding's (Press & Wolf 2017)."""

    def __init__(self, size: int, width: int, tied: Embedding | None = None) -> None:
        super().__init__()
        if tied is None:
            self.weight_VD = nn.Parameter(torch.empty(size, width).normal_(0.0, width**-0.5))
        else:
            self.weight_VD = tied.weight_VE
        self.bias_V = nn.Parameter(torch.zeros(size))

    def forward(self, states_ND: Tensor) -> Tensor:
        return functional.linear(states_ND, self.weight_VD, self.bias_V)
