"""Convolutions over ragged pictures on CUDA: no padding, no masks, and no plan for each new shape.

Pictures are stored end to end, pixel by pixel, as tokens are. A table says which position each tap of the kernel reads
for every position of the result, or that it is outside of the picture, where all is zero:

    y_n = b + Σ_t W_t x_{table(t, n)} (+ residual)

The gradient of x is the same sum over the table of the positions that read x. Plain counterpart:
`weft.models.stems.Convolution`. Tested in tests/fast/triton/test_ragged_convolution.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from weft.fast.triton.column_sums import column_sums

OUTSIDE = -1
"""The index of what lies outside of a picture."""
WEIGHT_PROGRAMS = 1024
"""Programs among which the rows of a weight gradient are divided, if there are enough rows."""
MIN_ROWS = 256
"""Rows of a weight gradient that one program sums at least."""


@triton.jit(do_not_specialize=["positions"])
def _gathered_product(  # type: ignore[no-untyped-def]
    x, table, w, bias, residual, y, positions, outputs,
    taps: tl.constexpr, width: tl.constexpr, has_bias: tl.constexpr, has_residual: tl.constexpr,
    precision: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * rows + tl.arange(0, rows)
    o = tl.program_id(1) * columns + tl.arange(0, columns)
    is_row, is_output = n < positions, o < outputs
    total = tl.zeros((rows, columns), tl.float32)
    for k in range(taps * (width // depth)):
        t = k // (width // depth)
        c = k % (width // depth) * depth + tl.arange(0, depth)
        position = tl.load(table + t * positions + n, mask=is_row, other=-1)
        a = tl.load(x + position[:, None].to(tl.int64) * width + c[None], mask=(position >= 0)[:, None], other=0.0)
        b = tl.load(w + (t * width + c)[:, None] * outputs + o[None], mask=is_output[None], other=0.0)
        total = tl.dot(a, b, total, input_precision=precision)
    if has_bias:
        total += tl.load(bias + o, mask=is_output, other=0.0).to(tl.float32)[None]
    at = n[:, None].to(tl.int64) * outputs + o[None]
    valid = is_row[:, None] & is_output[None]
    if has_residual:
        total += tl.load(residual + at, mask=valid, other=0.0).to(tl.float32)
    tl.store(y + at, total.to(y.dtype.element_ty), mask=valid)


@triton.jit(do_not_specialize=["positions", "split_rows"])
def _weight_gradient(  # type: ignore[no-untyped-def]
    x, table, gradient, partial, positions, split_rows, outputs,
    taps: tl.constexpr, width: tl.constexpr, precision: tl.constexpr,
    rows: tl.constexpr, inputs_tile: tl.constexpr, outputs_tile: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0)
    tiles = tl.cdiv(outputs, outputs_tile)
    c = tl.program_id(1) // tiles * inputs_tile + tl.arange(0, inputs_tile)
    o = tl.program_id(1) % tiles * outputs_tile + tl.arange(0, outputs_tile)
    split = tl.program_id(2)
    total = tl.zeros((inputs_tile, outputs_tile), tl.float32)
    for start in range(0, split_rows, rows):
        n = split * split_rows + start + tl.arange(0, rows)
        is_row = n < positions
        position = tl.load(table + t * positions + n, mask=is_row, other=-1)
        inside = (position >= 0)[:, None] & (c < width)[None]
        a = tl.load(x + position[:, None].to(tl.int64) * width + c[None], mask=inside, other=0.0)
        valid = is_row[:, None] & (o < outputs)[None]
        b = tl.load(gradient + n[:, None].to(tl.int64) * outputs + o[None], mask=valid, other=0.0)
        total = tl.dot(tl.trans(a), b, total, input_precision=precision)
    at = ((split * taps + t) * width + c[:, None]) * outputs + o[None]
    tl.store(partial + at, total, mask=(c < width)[:, None] & (o < outputs)[None])


@triton.jit(do_not_specialize=["positions", "pictures"])
def _neighbors(  # type: ignore[no-untyped-def]
    picture, grid, other, table, positions, pictures, down, across,
    rows: tl.constexpr, columns: tl.constexpr, is_inverse: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * block + tl.arange(0, block)
    valid = n < positions
    b = tl.load(picture + n, mask=valid, other=0)
    width = tl.load(grid + 2 * pictures + b)
    position = n - tl.load(grid + b)
    y, x = position // width, position % width
    start, other_height = tl.load(other + b), tl.load(other + pictures + b)
    other_width = tl.load(other + 2 * pictures + b)
    for t in tl.static_range(rows * columns):
        dy, dx = t // columns - rows // 2, t % columns - columns // 2
        if is_inverse:
            other_y, other_x = y - dy, x - dx
            inside = (other_y >= 0) & (other_x >= 0) & (other_y % down == 0) & (other_x % across == 0)
            other_y, other_x = other_y // down, other_x // across
        else:
            other_y, other_x = y * down + dy, x * across + dx
            inside = (other_y >= 0) & (other_x >= 0)
        inside = inside & (other_y < other_height) & (other_x < other_width)
        tl.store(table + t * positions + n, tl.where(inside, start + other_y * other_width + other_x, -1), mask=valid)


class Grid(NamedTuple):
    """The positions of pictures of these sizes, end to end."""

    starts_3B: Tensor
    """The first position, the height and the width of each picture (int32)."""
    picture_N: Tensor
    """The picture of each position."""

    @property
    def positions(self) -> int:
        return len(self.picture_N)


def neighbors(
    grid: Grid, other: Grid, kernel: tuple[int, int], stride: tuple[int, int], *, is_inverse: bool = False
) -> Tensor:
    """(taps, N) the position of ``other`` that each tap reads for a position of ``grid``, or `OUTSIDE`.

    ``is_inverse``: the position of ``other`` that reads it with this tap, in a convolution from ``grid`` to ``other``.
    """
    table_TN = grid.picture_N.new_empty(kernel[0] * kernel[1], grid.positions, dtype=torch.int32)
    if grid.positions:
        block = 256
        _neighbors[(triton.cdiv(grid.positions, block),)](
            grid.picture_N, grid.starts_3B, other.starts_3B, table_TN,
            grid.positions, grid.starts_3B.shape[1], *stride, *kernel, is_inverse, block,
        )  # fmt: skip
    return table_TN


class Tables(NamedTuple):
    """Which positions the taps of a convolution read."""

    table_TN: Tensor
    inverse_TN: Tensor | None
    """The positions that read each position; None: those that it reads itself, in the opposite order."""


def gathered_product(
    x_NC: Tensor, table_TN: Tensor, weight_TCO: Tensor, bias_O: Tensor | None, residual_NO: Tensor | None
) -> Tensor:
    """b + Σ_t x_{table(t, n)} W_t (+ residual)."""
    taps, positions = table_TN.shape
    width, outputs = weight_TCO.shape[1:]
    y_NO = x_NC.new_empty(positions, outputs)
    if not positions:
        return y_NO
    is_half = x_NC.dtype != torch.float32
    depth = next(size for size in ((64, 32, 16) if is_half else (32, 16)) if width % size == 0)
    columns = min(128, triton.next_power_of_2(outputs))
    _gathered_product[(triton.cdiv(positions, 128), triton.cdiv(outputs, columns))](
        x_NC, table_TN, weight_TCO, bias_O, residual_NO, y_NO, positions, outputs,
        taps=taps, width=width, has_bias=bias_O is not None, has_residual=residual_NO is not None,
        precision=_precision(), rows=128, columns=columns, depth=depth,
        num_warps=8 if columns >= 128 else 4, num_stages=3 if columns >= 128 else 5,
    )  # fmt: skip
    return y_NO


def weight_gradient(x_NC: Tensor, table_TN: Tensor, gradient_NO: Tensor) -> Tensor:
    """(taps, C, O) Σ_n x_{table(t, n)} ⊗ gradient_n, in single precision; always added up in the same order."""
    (taps, positions), width, outputs = table_TN.shape, x_NC.shape[1], gradient_NO.shape[1]
    inputs_tile = min(64, triton.next_power_of_2(width))
    outputs_tile = min(128, triton.next_power_of_2(outputs))
    tiles = triton.cdiv(width, inputs_tile) * triton.cdiv(outputs, outputs_tile)
    splits = max(min(WEIGHT_PROGRAMS // (taps * tiles), positions // MIN_ROWS), 1)
    rows = 64 if x_NC.dtype != torch.float32 else 32
    split_rows = triton.cdiv(triton.cdiv(positions, splits), rows) * rows
    partial_STCO = x_NC.new_empty(splits, taps, width, outputs, dtype=torch.float32)
    _weight_gradient[(taps, tiles, splits)](
        x_NC, table_TN, gradient_NO, partial_STCO, positions, split_rows, outputs,
        taps=taps, width=width, precision=_precision(),
        rows=rows, inputs_tile=inputs_tile, outputs_tile=outputs_tile, num_warps=4, num_stages=3,
    )  # fmt: skip
    return partial_STCO.sum(0)


def _precision() -> str:
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_NC: Tensor, weight: Tensor, bias_O: Tensor, residual_NO: Tensor | None, tables: Tables
    ) -> Tensor:
        """``weight``: (O, C, rows, columns), as `torch.nn.Conv2d` has it."""
        weight_TCO = weight.flatten(2).permute(2, 1, 0).to(x_NC.dtype).contiguous()
        ctx.save_for_backward(x_NC, weight, *tables)
        ctx.has_residual = residual_NO is not None
        return gathered_product(x_NC, tables.table_TN, weight_TCO, bias_O, residual_NO)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_NO: Tensor) -> tuple[Tensor | None, ...]:
        x_NC, weight, table_TN, inverse_TN = ctx.saved_tensors
        gradient_NO = gradient_NO.contiguous()
        x_gradient_NC = None
        if ctx.needs_input_grad[0]:
            weight_TOC = weight.flatten(2).permute(2, 0, 1).to(x_NC.dtype)
            if inverse_TN is None:
                weight_TOC, inverse_TN = weight_TOC.flip(0), table_TN
            x_gradient_NC = gathered_product(gradient_NO, inverse_TN, weight_TOC.contiguous(), None, None)
        weight_TCO = weight_gradient(x_NC, table_TN, gradient_NO)
        return (
            x_gradient_NC,
            weight_TCO.permute(2, 1, 0).reshape(weight.shape).to(weight.dtype),
            column_sums(gradient_NO).to(weight.dtype),
            gradient_NO if ctx.has_residual else None,
            None,
        )


def convolution(
    x_NC: Tensor, weight: Tensor, bias_O: Tensor, tables: Tables, residual_NO: Tensor | None = None
) -> Tensor:
    """The convolution of pictures at the positions of a table, plus the residual."""
    y_NO: Tensor = _Convolution.apply(x_NC.contiguous(), weight, bias_O, residual_NO, tables)
    return y_NO
