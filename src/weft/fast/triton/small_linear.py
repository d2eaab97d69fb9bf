"""Linear maps of few rows on CUDA, together with what stands before and after them in a Transformer layer.

    y = r + act(W norm(x) + b)        each of norm, act and r is optional

Plain counterpart: `plain_small_linear` below, which is PyTorch's functions one after the other. Tested in
tests/fast/triton/test_small_linear.py. With one sentence, a step of a search is limited by the number of kernels and
by memory latency, not by computation: three kernels are fused into one here, and weights are prefetched while the
preceding kernel still runs (`weft.fast.triton.dependent_launch`). One program computes some columns
of all rows; the norm of the rows, which is cheap, is computed by each.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.nn import functional

from weft.fast.triton.dependent_launch import launch_options, wait_for_inputs

MAX_ROWS = 16
"""Rows up to which these kernels are used."""
COLUMNS = 16
"""Columns of one program, if there are several rows."""
PROGRAMS = 128
"""About as many as a GPU has multiprocessors: a single row is divided among that many programs."""
MAX_TILE = 16_384
"""Weights of one program, for a single row."""


@triton.jit
def _small_linear(  # type: ignore[no-untyped-def]
    x, weight, bias, norm_weight, norm_bias, residual, y,
    rows, width, columns, x_stride, epsilon,
    norm: tl.constexpr, relu: tl.constexpr, has_bias: tl.constexpr, has_residual: tl.constexpr,
    row_tile: tl.constexpr, column_tile: tl.constexpr, tile: tl.constexpr, overlaps: tl.constexpr,
):  # fmt: skip
    """``norm``: 0 none, 1 LayerNorm, 2 RMSNorm."""
    m = tl.arange(0, row_tile)
    n = tl.program_id(0) * column_tile + tl.arange(0, column_tile)
    d = tl.arange(0, tile)
    row_valid, column_valid = m < rows, n < columns
    first_weights = tl.load(
        weight + n[None, :] * width + d[:, None], mask=(d < width)[:, None] & column_valid[None, :], other=0.0
    )
    wait_for_inputs(overlaps)
    first_valid = row_valid[:, None] & (d < width)[None, :]
    first_values = tl.load(x + m[:, None] * x_stride + d[None, :], mask=first_valid, other=0.0)
    mean = tl.zeros([row_tile], tl.float32)
    scale = tl.zeros([row_tile], tl.float32)
    if norm > 0:
        if norm == 1:
            total = tl.sum(first_values.to(tl.float32), 1)
            for first in range(tile, width, tile):
                valid = row_valid[:, None] & (first + d < width)[None, :]
                values = tl.load(x + m[:, None] * x_stride + (first + d)[None, :], mask=valid, other=0.0)
                total += tl.sum(values.to(tl.float32), 1)
            mean = total / width
        centered = tl.where(first_valid, first_values.to(tl.float32) - mean[:, None], 0.0)
        square = tl.sum(centered * centered, 1)
        for first in range(tile, width, tile):
            valid = row_valid[:, None] & (first + d < width)[None, :]
            values = tl.load(x + m[:, None] * x_stride + (first + d)[None, :], mask=valid, other=0.0).to(tl.float32)
            values = tl.where(valid, values - mean[:, None], 0.0)
            square += tl.sum(values * values, 1)
        scale = 1.0 / tl.sqrt(square / width + epsilon)
        first_values = _normalized(first_values, mean, scale, norm_weight, norm_bias, d, width, norm)
    sums = tl.dot(first_values, first_weights)
    for first in range(tile, width, tile):
        inside = first + d < width
        valid = row_valid[:, None] & inside[None, :]
        values = tl.load(x + m[:, None] * x_stride + (first + d)[None, :], mask=valid, other=0.0)
        if norm > 0:
            values = _normalized(values, mean, scale, norm_weight, norm_bias, first + d, width, norm)
        weights = tl.load(
            weight + n[None, :] * width + (first + d)[:, None],
            mask=inside[:, None] & column_valid[None, :],
            other=0.0,
        )
        sums += tl.dot(values, weights)
    if has_bias:
        sums += tl.load(bias + n, mask=column_valid, other=0.0).to(tl.float32)[None, :]
    if relu:
        sums = tl.maximum(sums, 0.0)
    stored = row_valid[:, None] & column_valid[None, :]
    if has_residual:
        added = tl.load(residual + m[:, None] * columns + n[None, :], mask=stored, other=0.0).to(tl.float32)
        sums = added + sums.to(y.dtype.element_ty).to(tl.float32)
    tl.store(y + m[:, None] * columns + n[None, :], sums.to(y.dtype.element_ty), mask=stored)


@triton.jit
def _normalized(values, mean, scale, norm_weight, norm_bias, d, width, norm: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows with known mean and scale; ``d``: the columns they are."""
    inside = d < width
    factors = tl.load(norm_weight + d, mask=inside, other=0.0).to(tl.float32)
    normalized = (values.to(tl.float32) - mean[:, None]) * scale[:, None] * factors[None, :]
    if norm == 1:
        normalized += tl.load(norm_bias + d, mask=inside, other=0.0).to(tl.float32)[None, :]
    return tl.where(inside[None, :], normalized, 0.0).to(values.dtype)


@triton.jit
def _one_row(  # type: ignore[no-untyped-def]
    x, weight, bias, norm_weight, norm_bias, residual, y,
    width, columns, epsilon,
    norm: tl.constexpr, relu: tl.constexpr, has_bias: tl.constexpr, has_residual: tl.constexpr,
    column_tile: tl.constexpr, tile: tl.constexpr, overlaps: tl.constexpr,
):  # fmt: skip
    """The kernel for one row, whose whole width is one tile. Sums stay within a warp: nothing waits for other warps."""
    n = tl.program_id(0) * column_tile + tl.arange(0, column_tile)[:, None]
    d = tl.arange(0, tile)[None, :]
    inside, column_valid = d < width, n < columns
    weights = tl.load(weight + n * width + d, mask=inside & column_valid, other=0.0)
    factors = tl.zeros([1, 1], tl.float32)
    shifts = tl.zeros([1, 1], tl.float32)
    sums = tl.zeros([1, 1], tl.float32)
    if norm > 0:
        factors = tl.load(norm_weight + d, mask=inside, other=0.0).to(tl.float32)
    if norm == 1:
        shifts = tl.load(norm_bias + d, mask=inside, other=0.0).to(tl.float32)
    if has_bias:
        sums = tl.load(bias + n, mask=column_valid, other=0.0).to(tl.float32)
    wait_for_inputs(overlaps)
    values = tl.load(x + d, mask=inside, other=0.0)
    added = sums
    if has_residual:
        added = tl.load(residual + n, mask=column_valid, other=0.0).to(tl.float32)
    if norm > 0:
        normalized = values.to(tl.float32)
        if norm == 1:
            normalized = tl.where(inside, normalized - tl.sum(normalized, 1, keep_dims=True) / width, 0.0)
        square = tl.sum(normalized * normalized, 1, keep_dims=True)
        normalized = normalized * (1.0 / tl.sqrt(square / width + epsilon)) * factors
        if norm == 1:
            normalized += shifts
        values = tl.where(inside, normalized, 0.0).to(values.dtype)
    sums = sums + tl.sum(weights.to(tl.float32) * values.to(tl.float32), 1, keep_dims=True)
    if relu:
        sums = tl.maximum(sums, 0.0)
    if has_residual:
        sums = added + sums.to(y.dtype.element_ty).to(tl.float32)
    tl.store(y + n, sums.to(y.dtype.element_ty), mask=column_valid)


def small_linear(
    x_RD: Tensor,
    linear: nn.Linear,
    *,
    norm: nn.Module | None = None,
    relu: bool = False,
    residual_RE: Tensor | None = None,
) -> Tensor:
    """A linear map of at most `MAX_ROWS` rows, in bf16 or fp16."""
    rows, width = x_RD.shape
    weight_ED, bias_E = linear.weight, linear.bias
    columns = len(weight_ED)
    assert rows <= MAX_ROWS and x_RD.stride(1) == 1 and weight_ED.is_contiguous() and weight_ED.dtype == x_RD.dtype
    assert norm is None or isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    y_RE = torch.empty((rows, columns), dtype=x_RD.dtype, device=x_RD.device)
    norm_bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
    tensors = (
        x_RD, weight_ED, weight_ED if bias_E is None else bias_E,
        weight_ED if norm is None else norm.weight, weight_ED if norm_bias is None else norm_bias,
        x_RD if residual_RE is None else residual_RE, y_RE,
    )  # fmt: skip
    epsilon = 0.0 if norm is None else norm.eps or 0.0
    options = {
        "norm": 0 if norm is None else 1 if norm_bias is not None else 2, "relu": relu, "has_bias": bias_E is not None,
        "has_residual": residual_RE is not None, **launch_options(x_RD.device),
    }  # fmt: skip
    tile = max(16, triton.next_power_of_2(width))
    column_tile = min(16, max(4, triton.next_power_of_2(triton.cdiv(columns, PROGRAMS))))
    if rows == 1 and column_tile * tile <= MAX_TILE:
        _one_row[(triton.cdiv(columns, column_tile),)](
            *tensors, width, columns, epsilon, column_tile=column_tile, tile=tile, num_warps=4, **options
        )
        return y_RE
    _small_linear[(triton.cdiv(columns, COLUMNS),)](
        *tensors, rows, width, columns, x_RD.stride(0), epsilon,
        row_tile=MAX_ROWS, column_tile=COLUMNS, tile=min(512, tile), num_warps=4, num_stages=2, **options,
    )  # fmt: skip
    return y_RE


def plain_small_linear(
    x_RD: Tensor,
    linear: nn.Linear,
    *,
    norm: nn.Module | None = None,
    relu: bool = False,
    residual_RE: Tensor | None = None,
) -> Tensor:
    """The plain PyTorch version, for tests."""
    y_RE = linear(x_RD if norm is None else norm(x_RD))
    y_RE = functional.relu(y_RE) if relu else y_RE
    return y_RE if residual_RE is None else residual_RE + y_RE
