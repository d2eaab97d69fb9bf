"""max(0, LayerNorm(x)) of many short rows, in one kernel forwards and one backwards, on CUDA.

The rows are read again backwards, and their means computed again: nothing but x is kept. Plain counterpart:
``norm(x).relu()``, as in `weft.models.stems.ResidualConvolutions`. Tested in tests/fast/triton/test_norm_relu.py.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from weft.fast.triton.column_sums import add_partials

TILE = 4096
"""Values that a program holds at a time."""
PROGRAMS = 1056
"""Programs of the backward kernel: eight for each multiprocessor of an H100 or H200."""


@triton.jit
def _normalized(x, n, d, is_value, width, epsilon):  # type: ignore[no-untyped-def]
    values = tl.load(x + n[:, None].to(tl.int64) * width + d[None], mask=is_value, other=0.0).to(tl.float32)
    centered = tl.where(is_value, values - (tl.sum(values, 1) / width)[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centered * centered, 1) / width + epsilon)
    return centered * scale[:, None], scale


@triton.jit(do_not_specialize=["count"])
def _forward(x, weight, bias, y, count, width, epsilon, rows: tl.constexpr, tile: tl.constexpr):  # type: ignore[no-untyped-def]
    n, d = tl.program_id(0) * rows + tl.arange(0, rows), tl.arange(0, tile)
    is_value = (n < count)[:, None] & (d < width)[None]
    normalized, _ = _normalized(x, n, d, is_value, width, epsilon)
    w = tl.load(weight + d, mask=d < width, other=0.0).to(tl.float32)
    b = tl.load(bias + d, mask=d < width, other=0.0).to(tl.float32)
    values = tl.maximum(normalized * w[None] + b[None], 0.0)
    tl.store(y + n[:, None].to(tl.int64) * width + d[None], values.to(y.dtype.element_ty), mask=is_value)


@triton.jit(do_not_specialize=["count"])
def _backward(  # type: ignore[no-untyped-def]
    x, weight, bias, gradient, x_gradient, partial, count, width, epsilon, rows: tl.constexpr, tile: tl.constexpr
):
    d = tl.arange(0, tile)
    w = tl.load(weight + d, mask=d < width, other=0.0).to(tl.float32)
    b = tl.load(bias + d, mask=d < width, other=0.0).to(tl.float32)
    weight_sum, bias_sum = tl.zeros((tile,), tl.float32), tl.zeros((tile,), tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(count, rows), tl.num_programs(0)):
        n = block * rows + tl.arange(0, rows)
        is_value = (n < count)[:, None] & (d < width)[None]
        normalized, scale = _normalized(x, n, d, is_value, width, epsilon)
        at = n[:, None].to(tl.int64) * width + d[None]
        g = tl.load(gradient + at, mask=is_value, other=0.0).to(tl.float32)
        g = tl.where(normalized * w[None] + b[None] > 0, g, 0.0)
        weight_sum += tl.sum(g * normalized, 0)
        bias_sum += tl.sum(g, 0)
        g = g * w[None]
        mean = tl.sum(g, 1) / width
        slope = tl.sum(g * normalized, 1) / width
        g = (g - mean[:, None] - normalized * slope[:, None]) * scale[:, None]
        tl.store(x_gradient + at, g.to(x_gradient.dtype.element_ty), mask=is_value)
    at = tl.program_id(0) * width + d
    tl.store(partial + at, weight_sum, mask=d < width)
    tl.store(partial + tl.num_programs(0) * width + at, bias_sum, mask=d < width)


class _NormReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, weight_D: Tensor, bias_D: Tensor, epsilon: float) -> Tensor:
        ctx.save_for_backward(x_ND, weight_D, bias_D)
        ctx.epsilon = epsilon
        (count, width), y_ND = x_ND.shape, torch.empty_like(x_ND)
        if count:
            rows, tile = _block(width)
            _forward[(triton.cdiv(count, rows),)](x_ND, weight_D, bias_D, y_ND, count, width, epsilon, rows, tile)
        return y_ND

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_ND: Tensor) -> tuple[Tensor | None, ...]:
        x_ND, weight_D, bias_D = ctx.saved_tensors
        (count, width), x_gradient_ND = x_ND.shape, torch.empty_like(x_ND)
        rows, tile = _block(width)
        programs = max(min(PROGRAMS, triton.cdiv(count, rows)), 1)
        partial_2PD = x_ND.new_empty(2, programs, width, dtype=torch.float32)
        gradient_ND = gradient_ND.contiguous()
        _backward[(programs,)](
            x_ND, weight_D, bias_D, gradient_ND, x_gradient_ND, partial_2PD, count, width, ctx.epsilon, rows, tile
        )
        weight_gradient_D, bias_gradient_D = add_partials(partial_2PD).to(weight_D.dtype)
        return x_gradient_ND, weight_gradient_D, bias_gradient_D, None


def _block(width: int) -> tuple[int, int]:
    """Rows of a program, and the power of two that is no less than the width."""
    tile = triton.next_power_of_2(width)
    return max(TILE // tile, 1), tile


def norm_relu(x_ND: Tensor, weight_D: Tensor, bias_D: Tensor, epsilon: float) -> Tensor:
    """max(0, LayerNorm(x))"""
    y_ND: Tensor = _NormReLU.apply(x_ND.contiguous(), weight_D, bias_D, epsilon)
    return y_ND
