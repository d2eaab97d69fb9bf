"""Layers that all models share: dropout, embeddings, the output layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.ragged import Ragged

_LEVELS = 65_536
"""16 random bits decide on one value."""
_generator: ContextVar[torch.Generator | None] = ContextVar("dropout generator", default=None)


@contextmanager
def dropout_generator(generator: torch.Generator) -> Iterator[None]:
    """Have dropout on a CPU draw from this generator, in the current thread."""
    token = _generator.set(generator)
    try:
        yield
    finally:
        _generator.reset(token)


def dropout(values: Tensor, probability: float, training: bool) -> Tensor:
    """Each value 0 with this probability, else scaled to keep the mean   Srivastava et al. 2014.

    On a CPU drawing random numbers takes most of the time, so four values share 64 bits: the probability is rounded to
    1/65536.
    """
    if not training or probability == 0.0:
        return values
    if values.is_cuda:
        return functional.dropout(values, probability)
    return values * dropout_mask(values.shape, probability, values.dtype)


def dropout_mask(shape: Sequence[int], probability: float, dtype: torch.dtype) -> Tensor:
    """The factors of dropout on a CPU: 0 with this probability, else 1 / (1 − probability)."""
    count = math.prod(shape)
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None, generator=_generator.get())
    bits = bits.view(torch.int16)[:count].view(*shape)
    kept = torch.ge(bits, round(probability * _LEVELS) - _LEVELS // 2, out=torch.empty(shape, dtype=dtype))
    return kept.mul_(1 / (1 - probability))


def dropout_add(residual: Tensor, values: Tensor, probability: float, training: bool) -> Tensor:
    """``residual`` plus ``dropout`` of ``values``, in one pass over memory where that is faster."""
    if not training or probability == 0.0:
        return residual + values
    if residual.is_cuda:
        from weft.kernels import layer_kernels

        if layer_kernels.has_layer_kernels(residual):
            return layer_kernels.dropout_add(residual, values, probability)
        return residual + dropout(values, probability, training)
    return torch.addcmul(residual, values, dropout_mask(values.shape, probability, values.dtype))


class Embedding(nn.Module):
    """Token ids to vectors, with dropout."""

    def __init__(self, vocabulary: int, width: int, dropout: float = 0.0, tied: Embedding | None = None) -> None:
        """``vocabulary``: its size; ``tied``: an embedding with which to share the matrix."""
        super().__init__()
        if tied is None:
            self.weight_VE = nn.Parameter(torch.empty(vocabulary, width).normal_(0.0, width**-0.5))
        else:
            self.weight_VE = tied.weight_VE
        self.dropout = dropout

    def forward(self, ids: Tensor) -> Tensor:
        return dropout(functional.embedding(ids, self.weight_VE), self.dropout, self.training)

    def ragged(self, ids: Ragged) -> Ragged:
        return ids.map(self)


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
        if tied is None:
            self.weight_VD = nn.Parameter(torch.empty(vocabulary, width).normal_(0.0, width**-0.5))
        else:
            self.weight_VD = tied.weight_VE
        self.bias_V = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, states_ND: Tensor) -> Tensor:
        return self.logits(self.scores(states_ND))

    def scores(self, states_ND: Tensor) -> Tensor:
        """(N, V) W h + b"""
        return functional.linear(states_ND, self.weight_VD, self.bias_V)

    @staticmethod
    def logits(scores_NV: Tensor) -> Tensor:
        """The logits of scores."""
        return scores_NV
