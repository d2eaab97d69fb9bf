"""Layers that all models share: dropout, embeddings, output layers, residual connections with their norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.initialization import initialize
from weft.attention.normalizers import entmax15
from weft.models.architecture import EmbeddingShape
from weft.ragged import Ragged
from weft.recipe import TransformerSettings
from weft.runtime.replaceable import replaceable


def dropout(values: Tensor, probability: float, training: bool) -> Tensor:
    """Each value 0 with this probability, else scaled to keep the mean   Srivastava et al. 2014."""
    return dropped(values, probability) if training and probability else values


def dropout_add(residual: Tensor, values: Tensor, probability: float, training: bool) -> Tensor:
    """``residual`` plus `dropout` of ``values``."""
    return add_dropped(residual, values, probability) if training and probability else residual + values


@replaceable
def dropped(values: Tensor, probability: float) -> Tensor:
    """`dropout` in training."""
    return functional.dropout(values, probability)


@replaceable
def add_dropped(residual: Tensor, values: Tensor, probability: float) -> Tensor:
    """`dropout_add` in training."""
    return residual + dropped(values, probability)


class Embedding(nn.Module):
    """Token ids to vectors, with dropout."""

    columns = 1
    """Number of source columns that it distinguishes."""

    def __init__(self, vocabulary: int, width: int, dropout: float = 0.0, tied: Embedding | None = None) -> None:
        """``vocabulary``: the size of the vocabulary; ``tied``: an embedding with which to share the matrix."""
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
        """``module``: the name of the module in the model."""
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


class Entmax15Output(Output):
    """An output layer that gives most tokens a probability of exactly zero.

        p = entmax15(W h + b)        Peters, Niculae & Martins 2019; Peters & Martins 2019 on inflection

    Its logits are log p, −∞ where p = 0: softmax(log p) = p, so that a search reads them like any others. It is trained
    by the Fenchel–Young loss of 1.5-entmax (`weft.training.loss.entmax15_loss`), whose gradient also reaches a target
    of probability zero; cross-entropy would be infinite there.
    """

    loss = "entmax15"

    @staticmethod
    def logits(scores_NV: Tensor) -> Tensor:
        """log entmax15(scores), in at least single precision."""
        return log_entmax15(scores_NV)


def log_entmax15(scores_NV: Tensor) -> Tensor:
    """log p, −∞ where p = 0; a token without probability has no gradient."""
    weights_NV = entmax15(scores_NV.to(torch.promote_types(scores_NV.dtype, torch.float32)))
    zero_NV = weights_NV == 0
    return weights_NV.masked_fill(zero_NV, 1.0).log().masked_fill(zero_NV, -torch.inf)


NORMS: dict[str, Callable[[int, float], nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


class ResidualBlock(nn.Module):
    """The residual connection around a sub-layer, with its dropout and norm."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.norm = make_norm(settings)
        self.pre_norm = settings.norm_placement == "pre"
        self.dropout = settings.residual_dropout or 0.0

    def input(self, stream_ND: Tensor) -> Tensor:
        """The input of the sub-layer."""
        return normalize(self.norm, stream_ND) if self.pre_norm else stream_ND

    def add(self, stream_ND: Tensor, output_ND: Tensor) -> Tensor:
        """The stream after the output of the sub-layer was added."""
        added_ND = dropout_add(stream_ND, output_ND, self.dropout, self.training)
        return added_ND if self.pre_norm else normalize(self.norm, added_ND)


def make_norm(settings: TransformerSettings) -> nn.Module:
    """A norm of the states of a stack."""
    return NORMS[settings.norm](settings.hidden, settings.norm_epsilon)


@replaceable
def normalize(norm: nn.Module, stream_ND: Tensor) -> Tensor:
    """A norm whose result keeps the type of the stream, also where norms are computed in full precision."""
    normalized_ND: Tensor = norm(stream_ND)
    return normalized_ND.to(stream_ND.dtype)
