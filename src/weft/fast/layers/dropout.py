"""Dropout on a CPU, where drawing random numbers takes most of its time: four values share 64 random bits.

Equal to `weft.models.layers.dropped` and `add_dropped` with other masks, and with the probability rounded to 1/65536;
tests/fast/layers/test_dropout.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_LEVELS = 65_536
"""16 random bits decide on one value."""
_generator: ContextVar[torch.Generator | None] = ContextVar("dropout generator", default=None)


@contextmanager
def dropout_generator(generator: torch.Generator) -> Iterator[None]:
    """Have dropout draw from this generator, in the current thread."""
    token = _generator.set(generator)
    try:
        yield
    finally:
        _generator.reset(token)


def is_on_cpu(values: Tensor, probability: float) -> bool:
    return values.device.type == "cpu"


def dropped(values: Tensor, probability: float) -> Tensor:
    return values * dropout_mask(values.shape, probability, values.dtype)


def adds_on_cpu(residual: Tensor, values: Tensor, probability: float) -> bool:
    return values.device.type == "cpu"


def add_dropped(residual: Tensor, values: Tensor, probability: float) -> Tensor:
    """Add the dropped-out values in one pass over memory."""
    return torch.addcmul(residual, values, dropout_mask(values.shape, probability, values.dtype))


def dropout_mask(shape: Sequence[int], probability: float, dtype: torch.dtype) -> Tensor:
    """The factors: 0 with this probability, else 1 / (1 − probability)."""
    count = math.prod(shape)
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None, generator=_generator.get())
    bits = bits.view(torch.int16)[:count].view(*shape)
    kept = torch.ge(bits, round(probability * _LEVELS) - _LEVELS // 2, out=torch.empty(shape, dtype=dtype))
    return kept.mul_(1 / (1 - probability))
