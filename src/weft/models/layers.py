"""Layers that all models share: dropout, embeddings, the output layer."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.initialization import initialize
from weft.models.architecture import EmbeddingShape
from weft.ragged import Ragged
from weft.runtime.replaceable import replaceable


@replaceable
def dropout(values: Tensor, probability: float, training: bool) -> Tensor:
    """Each value 0 with this probability, else scaled to keep the mean   Srivastava et al. 2014."""
    return functional.dropout(values, probability) if training and probability else values


@replaceable
def dropout_add(residual: Tensor, values: Tensor, probability: float, training: bool) -> Tensor:
    """``residual`` plus `dropout` of ``values``."""
    return residual + dropout(values, probability, training)


class Embedding(nn.Module):
    """Token ids to vectors, with dropout."""

    columns = 1
    """Number of source columns that it distinguishes."""

    def __init__(self, vocabulary: int, width: int, dropout: float = 0.0, tied: Embedding | None = None) -> None:
        """``vocabulary``: its size; ``tied``: an embedding with which to share the matrix."""
        super().__init__()
        self.dropout = dropout
        if tied is None:
            self.weight_VE = nn.Parameter(torch.empty(vocabulary, width))
            initialize(self)
        else:
            self.weight_VE = tied.weight_VE

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight_VE, std=self.weight_VE.shape[1] ** -0.5)

    def forward(self, ids: Tensor) -> Tensor:
        return dropout(functional.embedding(ids, self.weight_VE), self.dropout, self.training)

    def ragged(self, ids: Ragged) -> Ragged:
        return ids.map(self)

    def shape(self, module: str) -> EmbeddingShape:
        """``module``: its name in the model."""
        return EmbeddingShape(module, *self.weight_VE.shape)


class Output(nn.Module):
    """States to logits over the vocabulary; the matrix may be that of an embedding (Press & Wolf 2017).

    Every output layer computes scores by one linear map; p = softmax(logits), with logits that it derives from them.
    Here they are the same.
    """

    loss: ClassVar[str] = "cross_entropy"
    """The value of training.loss that the layer is trained by."""

    def __init__(self, vocabulary: int, width: int, tied: Embedding | None = None) -> None:
        super().__init__()
        self.width = width
        self.is_tied = tied is not None
        self.weight_VD = nn.Parameter(torch.empty(vocabulary, width)) if tied is None else tied.weight_VE
        self.bias_V = nn.Parameter(torch.empty(vocabulary))
        initialize(self)

    def reset_parameters(self) -> None:
        if not self.is_tied:
            nn.init.normal_(self.weight_VD, std=self.width**-0.5)
        nn.init.zeros_(self.bias_V)

    def forward(self, states_ND: Tensor) -> Tensor:
        return self.logits(self.scores(states_ND))

    def scores(self, states_ND: Tensor) -> Tensor:
        """(N, V) W h + b"""
        return functional.linear(states_ND, self.weight_VD, self.bias_V)

    @staticmethod
    def logits(scores_NV: Tensor) -> Tensor:
        """The logits of scores."""
        return scores_NV
