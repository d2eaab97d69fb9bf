"""Weights in half precision, all of them converted by one kernel instead of one each.

Plain counterpart: `torch.Tensor.to`. Tested in tests/fast/layers/test_half_weights.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from weft.fast.torch_private import foreach_copy_

_copies: ContextVar[dict[int, Tensor] | None] = ContextVar("weights in half precision", default=None)


@contextmanager
def half_weights(weights: Sequence[Tensor], dtype: torch.dtype) -> Iterator[None]:
    """Convert the weights now, for every `to_half` inside. They must not change in the meantime."""
    copies = [torch.empty_like(weight, dtype=dtype, requires_grad=False) for weight in weights]
    if copies:
        with torch.no_grad():
            foreach_copy_(copies, weights)
    token = _copies.set({id(weight): copy for weight, copy in zip(weights, copies, strict=True)})
    try:
        yield
    finally:
        _copies.reset(token)


def to_half(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """``weight.to(dtype)``, without a gradient where the weight was converted by `half_weights`."""
    copies = _copies.get()
    copy = None if copies is None else copies.get(id(weight))
    return weight.to(dtype) if copy is None or copy.dtype != dtype else copy
