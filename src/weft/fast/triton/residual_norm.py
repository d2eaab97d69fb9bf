"""Dropout, residual connection and norm in one kernel, forwards and backwards, for training on CUDA.

Plain counterpart: the plain path of `weft.models.layers.ResidualBlock`. Tested in
tests/fast/triton/test_residual_norm.py.

    s = x + dropout(f)      y = LayerNorm(s) or RMSNorm(s)

Sums are in single precision. The dropout mask is a function of a seed (weft.fast.triton.dropout) and is computed
again in the backward pass instead of stored. The next sub-layer reads y, and its output is added to y: as these are two
outputs here, the backward kernel reads both gradients and adds them, which would take PyTorch a separate pass.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.column_sums import add_partials
from weft.fast.triton.dropout import Dropout, draw_dropout, drop, dropout_options, keep, row_tiles

MAX_WIDTH = 4096
PARTS = 1056
"""Programs of a backward pass, each with its own sums of the gradients of weight and bias."""


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    stream, output, weight, bias, seeds, sums, normalized, means, scales, rows, width, epsilon, threshold, factor,
    adds: tl.constexpr, drops: tl.constexpr, norms: tl.constexpr, is_layer_norm: tl.constexpr,
    tile_r: tl.constexpr, tile_w: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * tile_r + tl.arange(0, tile_r)
    d = tl.arange(0, tile_w)
    valid = (n < rows)[:, None] & (d < width)[None, :]
    index = n.to(tl.int64)[:, None] * width + d[None, :]
    x = tl.load(stream + index, mask=valid, other=0.0).to(tl.float32)
    if adds:
        f = tl.load(output + index, mask=valid, other=0.0).to(tl.float32)
        if drops:
            f = tl.where(keep(tl.load(seeds), n, threshold, tile_r, tile_w), f * factor, 0.0)
        rounded = (x + f).to(sums.dtype.element_ty)
        tl.store(sums + index, rounded, mask=valid)
        x = rounded.to(tl.float32)
    if norms:
        if is_layer_norm:
            mean = tl.sum(x, 1) / width
            tl.store(means + n, mean, mask=n < rows)
            x = tl.where(valid, x - mean[:, None], 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(x * x, 1) / width + epsilon)
        tl.store(scales + n, scale, mask=n < rows)
        y = x * scale[:, None] * tl.load(weight + d, mask=d < width, other=0.0).to(tl.float32)[None, :]
        if is_layer_norm:
            y += tl.load(bias + d, mask=d < width, other=0.0).to(tl.float32)[None, :]
        tl.store(normalized + index, y.to(normalized.dtype.element_ty), mask=valid)


@triton.jit(do_not_specialize=["gradients"])
def _backward(  # type: ignore[no-untyped-def]
    d_first, d_second, sums, means, scales, weight, seeds, d_stream, d_output, partials,
    gradients, rows, width, threshold, factor,
    drops: tl.constexpr, is_layer_norm: tl.constexpr, tile_r: tl.constexpr, tile_w: tl.constexpr,
):  # fmt: skip
    """``d_x`` is the gradient of x; without dropout that of f is that of x. ``gradients``: gradients of y, 1 or 2."""
    part, parts = tl.program_id(0), tl.num_programs(0)
    d = tl.arange(0, tile_w)
    w = tl.load(weight + d, mask=d < width, other=0.0).to(tl.float32)[None, :]
    d_weight = tl.zeros((tile_r, tile_w), tl.float32)
    d_bias = tl.zeros((tile_r, tile_w), tl.float32)
    for first in range(part * tile_r, rows, parts * tile_r):
        n = first + tl.arange(0, tile_r)
        valid = (n < rows)[:, None] & (d < width)[None, :]
        index = n.to(tl.int64)[:, None] * width + d[None, :]
        x = tl.load(sums + index, mask=valid, other=0.0).to(tl.float32)
        dy = tl.load(d_first + index, mask=valid, other=0.0).to(tl.float32)
        dy += tl.load(d_second + index, mask=valid & (gradients == 2), other=0.0).to(tl.float32)
        scale = tl.load(scales + n, mask=n < rows, other=0.0)[:, None]
        if is_layer_norm:
            x = tl.where(valid, x - tl.load(means + n, mask=n < rows, other=0.0)[:, None], 0.0)
            d_bias += dy
        x *= scale
        d_weight += dy * x
        dy *= w
        ds = dy - x * (tl.sum(dy * x, 1) / width)[:, None]
        if is_layer_norm:
            ds -= (tl.sum(dy, 1) / width)[:, None]
        ds *= scale
        tl.store(d_stream + index, ds.to(d_stream.dtype.element_ty), mask=valid)
        if drops:
            df = tl.where(keep(tl.load(seeds), n, threshold, tile_r, tile_w), ds * factor, 0.0)
            tl.store(d_output + index, df.to(d_output.dtype.element_ty), mask=valid)
    tl.store(partials + part * width + d, tl.sum(d_weight, 0), mask=d < width)
    if is_layer_norm:
        tl.store(partials + (parts + part) * width + d, tl.sum(d_bias, 0), mask=d < width)


class Norm(NamedTuple):
    """A norm: LayerNorm or, without a bias, RMSNorm."""

    weight_D: Tensor
    bias_D: Tensor | None
    epsilon: float


class _Saved(NamedTuple):
    """Values for the backward pass of a norm: s, μ and 1 / √(σ² + ε)."""

    sums_ND: Tensor
    means_N: Tensor
    scales_N: Tensor


def forward_pass(
    stream_ND: Tensor, output_ND: Tensor | None, norm: Norm | None, dropout: Dropout | None
) -> tuple[Tensor, _Saved]:
    """y, or s without a norm, and what `backward_pass` needs; ``output_ND``: f, None: nothing is added."""
    rows, width = stream_ND.shape
    stream_ND = stream_ND.contiguous()
    sums_ND = stream_ND if output_ND is None else torch.empty_like(stream_ND)
    normalized_ND = sums_ND if norm is None else torch.empty_like(stream_ND)
    means_N, scales_N = torch.empty((2, rows), dtype=torch.float32, device=stream_ND.device)
    weight_D = stream_ND if norm is None else norm.weight_D
    bias_D = weight_D if norm is None or norm.bias_D is None else norm.bias_D
    tiles = row_tiles(width)
    _forward[(triton.cdiv(rows, tiles["tile_r"]),)](
        stream_ND, stream_ND if output_ND is None else output_ND.contiguous(), weight_D, bias_D,
        stream_ND if dropout is None else dropout.seed_1, sums_ND, normalized_ND, means_N, scales_N, rows, width,
        0.0 if norm is None else norm.epsilon, *dropout_options(dropout), adds=output_ND is not None,
        drops=dropout is not None, norms=norm is not None, is_layer_norm=norm is not None and norm.bias_D is not None,
        **tiles,
    )  # fmt: skip
    return normalized_ND, _Saved(sums_ND, means_N, scales_N)


def backward_pass(
    gradients_ND: Sequence[Tensor], saved: _Saved, norm: Norm, dropout: Dropout | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The gradients of x, f, and the weight and bias of the norm, from one or two gradients of y, which are added."""
    rows, width = saved.sums_ND.shape
    first_ND, second_ND = gradients_ND[0].contiguous(), gradients_ND[-1].contiguous()
    d_stream_ND = torch.empty_like(saved.sums_ND)
    d_output_ND = d_stream_ND if dropout is None else torch.empty_like(saved.sums_ND)
    is_layer_norm = norm.bias_D is not None
    tiles = row_tiles(width)
    parts = min(PARTS, triton.cdiv(rows, tiles["tile_r"]))
    partials_KPD = torch.empty((2 if is_layer_norm else 1, parts, width), dtype=torch.float32, device=first_ND.device)
    _backward[(parts,)](
        first_ND, second_ND, *saved, norm.weight_D, first_ND if dropout is None else dropout.seed_1,
        d_stream_ND, d_output_ND, partials_KPD, len(gradients_ND), rows, width, *dropout_options(dropout),
        drops=dropout is not None, is_layer_norm=is_layer_norm, **tiles,
    )  # fmt: skip
    sums_KD = add_partials(partials_KPD).to(norm.weight_D.dtype)
    return d_stream_ND, d_output_ND, sums_KD[0], sums_KD[1] if is_layer_norm else None


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        stream_ND: Tensor,
        output_ND: Tensor | None,
        weight_D: Tensor,
        bias_D: Tensor | None,
        epsilon: float,
        dropout: Dropout | None,
    ) -> tuple[Tensor, Tensor]:
        normalized_ND, saved = forward_pass(stream_ND, output_ND, Norm(weight_D, bias_D, epsilon), dropout)
        ctx.save_for_backward(*saved, weight_D, bias_D)
        ctx.dropout, ctx.epsilon, ctx.adds = dropout, epsilon, output_ND is not None
        ctx.set_materialize_grads(False)
        return normalized_ND, normalized_ND.detach()

    @staticmethod
    def backward(ctx: Any, *gradients_ND: Tensor | None) -> tuple[Tensor | None, ...]:
        *saved, weight_D, bias_D = ctx.saved_tensors
        norm = Norm(weight_D, bias_D, ctx.epsilon)
        given_ND = [gradient_ND for gradient_ND in gradients_ND if gradient_ND is not None]
        d_stream_ND, d_output_ND, *d_norm = backward_pass(given_ND, _Saved(*saved), norm, ctx.dropout)
        return d_stream_ND, d_output_ND if ctx.adds else None, *d_norm, None, None


class _DropoutAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stream_ND: Tensor, output_ND: Tensor, dropout: Dropout) -> Tensor:
        ctx.dropout = dropout
        return forward_pass(stream_ND, output_ND, None, dropout)[0]

    @staticmethod
    def backward(ctx: Any, gradient_ND: Tensor) -> tuple[Tensor, Tensor, None]:
        return gradient_ND, drop(gradient_ND, ctx.dropout), None


def residual_norm(stream_ND: Tensor, output_ND: Tensor | None, norm: Norm, probability: float) -> tuple[Tensor, Tensor]:
    """norm(x + dropout(f)), twice, for two uses; without f, norm(x)."""
    dropout = None if output_ND is None else draw_dropout(probability, stream_ND.device)
    normalized: tuple[Tensor, Tensor] = _ResidualNorm.apply(stream_ND, output_ND, *norm, dropout)
    return normalized


def dropout_add(stream_ND: Tensor, output_ND: Tensor, probability: float) -> Tensor:
    """x + dropout(f)."""
    dropout = draw_dropout(probability, stream_ND.device)
    if dropout is None:
        return stream_ND + output_ND
    added_ND: Tensor = _DropoutAdd.apply(stream_ND, output_ND, dropout)
    return added_ND
