"""Queries, keys and values that one product computes, and their gradients, side by side in one tensor.

Equal to `torch.Tensor.split` along the heads; tests/fast/layers/test_adjacent_heads.py.

Autograd would join the gradients of the parts by copying them. Where the backward pass of attention has written them
side by side (`empty_gradients`), they are joined already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def split_heads(packed_NHD: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """``packed_NHD.split(sizes, -2)``; gradients that are adjacent are not copied."""
    if packed_NHD.dim() == 3 and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        parts: tuple[Tensor, ...] = _SplitHeads.apply(packed_NHD, tuple(sizes))
        return parts
    return tuple(packed_NHD.split(list(sizes), -2))


class _SplitHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed_NHD: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
        return tuple(packed_NHD.split(list(sizes), 1))

    @staticmethod
    def backward(ctx: Any, *gradients_NHD: Tensor) -> tuple[Tensor, None]:
        if not are_adjacent(gradients_NHD):
            return torch.cat(gradients_NHD, 1), None
        count, heads, width = _packed_shape(gradients_NHD)
        first = gradients_NHD[0]
        return first.as_strided((count, heads, width), (heads * width, width, 1), first.storage_offset()), None


def are_adjacent(parts_NHD: Sequence[Tensor]) -> bool:
    """Whether the parts are consecutive heads of one contiguous tensor (N, H, D), in this order."""
    _, heads, width = _packed_shape(parts_NHD)
    first = parts_NHD[0]
    offset = first.storage_offset()
    for part in parts_NHD:
        if part.stride() != (heads * width, width, 1) or part.storage_offset() != offset:
            return False
        if part.untyped_storage().data_ptr() != first.untyped_storage().data_ptr():
            return False
        offset += part.shape[1] * width
    return True


def empty_gradients(queries_NHD: Tensor, keys_NHD: Tensor, values_NHD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Uninitialized gradients of the three, adjacent where they are."""
    parts = (queries_NHD, keys_NHD, values_NHD)
    if are_adjacent(parts):
        of_queries, of_keys, of_values = _empty_parts(parts)
    else:
        of_queries = queries_NHD.new_empty(queries_NHD.shape)
        of_keys, of_values = _empty_parts(parts[1:])
    return of_queries, of_keys, of_values


def _empty_parts(parts_NHD: Sequence[Tensor]) -> tuple[Tensor, ...]:
    packed_NHD = parts_NHD[0].new_empty(_packed_shape(parts_NHD))
    return packed_NHD.split([part.shape[1] for part in parts_NHD], 1)


def _packed_shape(parts_NHD: Sequence[Tensor]) -> tuple[int, int, int]:
    count, _, width = parts_NHD[0].shape
    return count, sum(part.shape[1] for part in parts_NHD), width
