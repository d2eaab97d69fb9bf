"""The input of a Transformer stack in training on CUDA: scaled embeddings plus positions, with dropout, in one kernel.

Plain counterpart: `weft.models.transformer.TransformerStack.embed` for sinusoidal positions. Tested in
tests/fast/triton/test_add_positions.py.

    x = dropout(c E[y] + PE(position))      rounded once, to half precision
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.dropout import Dropout, draw_dropout, dropout_options, keep, row_tiles


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    embedded, table, positions, seeds, stream, rows, width, scale, threshold, factor,
    drops: tl.constexpr, tile_r: tl.constexpr, tile_w: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * tile_r + tl.arange(0, tile_r)
    d = tl.arange(0, tile_w)
    valid = (n < rows)[:, None] & (d < width)[None, :]
    index = n.to(tl.int64)[:, None] * width + d[None, :]
    position = tl.load(positions + n, mask=n < rows, other=0)[:, None]
    x = tl.load(embedded + index, mask=valid, other=0.0).to(tl.float32) * scale
    x += tl.load(table + position * width + d[None, :], mask=valid, other=0.0).to(tl.float32)
    if drops:
        x = tl.where(keep(tl.load(seeds), n, threshold, tile_r, tile_w), x * factor, 0.0)
    tl.store(stream + index, x.to(stream.dtype.element_ty), mask=valid)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    d_stream, seeds, d_embedded, rows, width, scale, threshold, factor,
    drops: tl.constexpr, tile_r: tl.constexpr, tile_w: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * tile_r + tl.arange(0, tile_r)
    d = tl.arange(0, tile_w)
    valid = (n < rows)[:, None] & (d < width)[None, :]
    index = n.to(tl.int64)[:, None] * width + d[None, :]
    dx = tl.load(d_stream + index, mask=valid, other=0.0).to(tl.float32) * scale
    if drops:
        dx = tl.where(keep(tl.load(seeds), n, threshold, tile_r, tile_w), dx * factor, 0.0)
    tl.store(d_embedded + index, dx.to(d_embedded.dtype.element_ty), mask=valid)


class _AddPositions(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        embedded_ND: Tensor,
        scale: float,
        table_PD: Tensor,
        positions_N: Tensor,
        dropout: Dropout | None,
        dtype: torch.dtype,
    ) -> Tensor:
        rows, width = embedded_ND.shape
        embedded_ND, table_PD, positions_N = (part.contiguous() for part in (embedded_ND, table_PD, positions_N))
        stream_ND = torch.empty_like(embedded_ND, dtype=dtype)
        tiles = row_tiles(width)
        _forward[(triton.cdiv(rows, tiles["tile_r"]),)](
            embedded_ND, table_PD, positions_N, positions_N if dropout is None else dropout.seed_1, stream_ND,
            rows, width, scale, *dropout_options(dropout), drops=dropout is not None, **tiles,
        )  # fmt: skip
        ctx.scale, ctx.dropout, ctx.dtype = scale, dropout, embedded_ND.dtype
        return stream_ND

    @staticmethod
    def backward(ctx: Any, gradient_ND: Tensor) -> tuple[Tensor | None, ...]:
        rows, width = gradient_ND.shape
        gradient_ND = gradient_ND.contiguous()
        d_embedded_ND = torch.empty_like(gradient_ND, dtype=ctx.dtype)
        tiles = row_tiles(width)
        _backward[(triton.cdiv(rows, tiles["tile_r"]),)](
            gradient_ND, gradient_ND if ctx.dropout is None else ctx.dropout.seed_1, d_embedded_ND,
            rows, width, ctx.scale, *dropout_options(ctx.dropout), drops=ctx.dropout is not None, **tiles,
        )  # fmt: skip
        return d_embedded_ND, None, None, None, None, None


def add_positions(
    embedded_ND: Tensor,
    scale: float,
    table_PD: Tensor,
    positions_N: Tensor,
    *,
    probability: float,
    dtype: torch.dtype,
) -> Tensor:
    """dropout(c e + table[position]) in half precision."""
    dropout = draw_dropout(probability, embedded_ND.device)
    stream_ND: Tensor = _AddPositions.apply(embedded_ND, scale, table_PD, positions_N, dropout, dtype)
    return stream_ND
