"""Attention on CUDA for short rows of unequal length: one program per row and head.

Plain counterpart: the padded path of `weft.attention.ragged_attention.RaggedAttention.attend`. Tested in
tests/fast/layers/test_varlen_attention.py.

Flash attention works in tiles of 128 by 128, most of which rows of 25 tokens would waste. Here a row fits into one
tile, whose size is the next power of two; the softmax needs no second pass over the keys, and the backward pass
recomputes it instead of storing it. As the number of programs determines the time rather than that of tokens, rows of
half the size or less are computed by a separate launch. Not for rows longer than `LONGEST`.
"""

# No `from __future__ import annotations` here: PyTorch evaluates the annotations of a custom operator.

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.layers.adjacent_heads import empty_gradients

LONGEST = 128
MIN_SPLIT_ROWS = 128
"""Batches of fewer rows are computed by one launch."""


@triton.jit
def _weights(  # type: ignore[no-untyped-def]
    queries_TD, keys_SD, query_count, key_count, scale, causal, tile_t: tl.constexpr, tile_s: tl.constexpr
):
    """softmax(q·k / √d) over the keys that a query attends to; zero in rows without keys."""
    scores = tl.dot(queries_TD, tl.trans(keys_SD)) * scale
    t = tl.arange(0, tile_t)[:, None]
    s = tl.arange(0, tile_s)[None, :]
    attended = (s < key_count) & (t < query_count)
    attended = attended & (s <= tl.where(causal != 0, t + key_count - query_count, tile_s))
    scores = tl.where(attended, scores, float("-inf"))
    maximum = tl.maximum(tl.max(scores, 1), -1e30)
    powers = tl.exp(scores - maximum[:, None])
    total = tl.sum(powers, 1)
    return powers / tl.where(total > 0, total, 1.0)[:, None]


@triton.jit
def _load(  # type: ignore[no-untyped-def]
    values, start, count, head, row_stride, head_stride, tile: tl.constexpr, width: tl.constexpr
):
    """The tokens of a row in one head, zeros after its end."""
    positions = tl.arange(0, tile)[:, None]
    offsets = (start + positions).to(tl.int64) * row_stride + head * head_stride + tl.arange(0, width)[None, :]
    return tl.load(values + offsets, mask=positions < count, other=0.0)


@triton.jit
def _store(  # type: ignore[no-untyped-def]
    values, result, start, count, head, row_stride, head_stride, tile: tl.constexpr, width: tl.constexpr
):
    positions = tl.arange(0, tile)[:, None]
    offsets = (start + positions).to(tl.int64) * row_stride + head * head_stride + tl.arange(0, width)[None, :]
    tl.store(values + offsets, result.to(values.dtype.element_ty), mask=positions < count)


@triton.jit(do_not_specialize=["causal"])
def _forward(  # type: ignore[no-untyped-def]
    queries, keys, values, outputs, query_starts, key_starts, scale, causal, over, up_to,
    query_row, query_head, key_row, key_head, value_row, value_head, output_row, output_head,
    groups: tl.constexpr, tile_t: tl.constexpr, tile_s: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """One row and head: Σ_j α_j v_j. ``over``, ``up_to``: the lengths of the rows that this launch computes."""
    row, head = tl.program_id(0), tl.program_id(1)
    query_start, key_start = tl.load(query_starts + row), tl.load(key_starts + row)
    query_count = tl.load(query_starts + row + 1) - query_start
    key_count = tl.load(key_starts + row + 1) - key_start
    longest = tl.maximum(query_count, key_count)
    if (query_count == 0) | (longest <= over) | (longest > up_to):
        return
    kv_head = head // groups
    queries_TD = _load(queries, query_start, query_count, head, query_row, query_head, tile_t, width)
    keys_SD = _load(keys, key_start, key_count, kv_head, key_row, key_head, tile_s, width)
    values_SD = _load(values, key_start, key_count, kv_head, value_row, value_head, tile_s, width)
    weights_TS = _weights(queries_TD, keys_SD, query_count, key_count, scale, causal, tile_t, tile_s)
    outputs_TD = tl.dot(weights_TS.to(values_SD.dtype), values_SD)
    _store(outputs, outputs_TD, query_start, query_count, head, output_row, output_head, tile_t, width)


@triton.jit(do_not_specialize=["causal"])
def _backward(  # type: ignore[no-untyped-def]
    queries, keys, values, gradients, d_queries, d_keys, d_values, query_starts, key_starts,
    scale, causal, over, up_to, kv_heads,
    query_row, query_head, key_row, key_head, value_row, value_head, gradient_row, gradient_head,
    d_query_row, d_query_head, d_key_row, d_key_head,
    groups: tl.constexpr, is_large: tl.constexpr,
    tile_t: tl.constexpr, tile_s: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """One row and one key–value head, with all query heads that share it; ``d_x`` is the gradient of x.

    Programs are ordered by row, then by head, since the heads of a token are adjacent in memory. ``is_large``: whether
    tiles are so large that the gradient of the values is better stored as soon as it is known.
    """
    row, kv_head = tl.program_id(0) // kv_heads, tl.program_id(0) % kv_heads
    query_start, key_start = tl.load(query_starts + row), tl.load(key_starts + row)
    query_count = tl.load(query_starts + row + 1) - query_start
    key_count = tl.load(key_starts + row + 1) - key_start
    longest = tl.maximum(query_count, key_count)
    if (longest <= over) | (longest > up_to):  # also empty rows: as many of a padded batch as not
        return
    keys_SD = _load(keys, key_start, key_count, kv_head, key_row, key_head, tile_s, width)
    values_SD = _load(values, key_start, key_count, kv_head, value_row, value_head, tile_s, width)
    d_keys_SD = tl.zeros((tile_s, width), tl.float32)
    d_values_SD = tl.zeros((tile_s, width), tl.float32)
    for group in range(groups):
        head = kv_head * groups + group
        queries_TD = _load(queries, query_start, query_count, head, query_row, query_head, tile_t, width)
        gradients_TD = _load(gradients, query_start, query_count, head, gradient_row, gradient_head, tile_t, width)
        weights_TS = _weights(queries_TD, keys_SD, query_count, key_count, scale, causal, tile_t, tile_s)
        d_values_SD += tl.dot(tl.trans(weights_TS.to(gradients_TD.dtype)), gradients_TD)
        if is_large and groups == 1:
            _store(d_values, d_values_SD, key_start, key_count, kv_head, d_key_row, d_key_head, tile_s, width)
        d_weights_TS = tl.dot(gradients_TD, tl.trans(values_SD))
        mean_T = tl.sum(weights_TS * d_weights_TS, 1)
        d_scores_TS = (weights_TS * (d_weights_TS - mean_T[:, None]) * scale).to(keys_SD.dtype)
        d_queries_TD = tl.dot(d_scores_TS, keys_SD)
        _store(d_queries, d_queries_TD, query_start, query_count, head, d_query_row, d_query_head, tile_t, width)
        d_keys_SD += tl.dot(tl.trans(d_scores_TS), queries_TD)
    _store(d_keys, d_keys_SD, key_start, key_count, kv_head, d_key_row, d_key_head, tile_s, width)
    if groups > 1 or not is_large:
        _store(d_values, d_values_SD, key_start, key_count, kv_head, d_key_row, d_key_head, tile_s, width)


class _Launch(NamedTuple):
    """The size of a tile, and the lengths of the rows that are computed in it."""

    tile_t: int
    tile_s: int
    over: int
    up_to: int

    @property
    def warps(self) -> int:
        cells = self.tile_t * self.tile_s
        return 2 if cells <= 1024 else 4 if cells <= 4096 else 8


def _launches(rows: int, longest_queries: int, longest_keys: int) -> list[_Launch]:
    """One for all rows, or one for the longer and one for the shorter half of all lengths."""
    tile_t, tile_s = (max(16, triton.next_power_of_2(longest)) for longest in (longest_queries, longest_keys))
    half = max(tile_t, tile_s) // 2
    if rows < MIN_SPLIT_ROWS or half < 16:
        return [_Launch(tile_t, tile_s, 0, 2 * half)]
    return [_Launch(tile_t, tile_s, half, 2 * half), _Launch(min(tile_t, half), min(tile_s, half), 0, half)]


def forward_only(
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_keys: int,
    causal: bool,
) -> Tensor:
    """Every query over the keys of its row."""
    count, heads, width = queries_NHD.shape
    outputs_NHD = queries_NHD.new_empty(count, heads, width)
    rows = len(query_starts) - 1
    for launch in _launches(rows, longest_queries, longest_keys):
        _forward[(rows, heads)](
            queries_NHD, keys_NHD, values_NHD, outputs_NHD, query_starts, key_starts,
            1 / math.sqrt(width), int(causal), launch.over, launch.up_to,
            queries_NHD.stride(0), queries_NHD.stride(1), keys_NHD.stride(0), keys_NHD.stride(1),
            values_NHD.stride(0), values_NHD.stride(1), outputs_NHD.stride(0), outputs_NHD.stride(1),
            groups=heads // keys_NHD.shape[1], tile_t=launch.tile_t, tile_s=launch.tile_s, width=width,
            num_warps=launch.warps,
        )  # fmt: skip
    return outputs_NHD


@torch.library.custom_op("weft::short_attention", mutates_args=(), device_types="cuda")
def short_attention(
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_keys: int,
    causal: bool,
) -> Tensor:
    """`forward_only` with a gradient, as an operator that layers can be compiled with."""
    return forward_only(
        queries_NHD, keys_NHD, values_NHD, query_starts, key_starts, longest_queries, longest_keys, causal
    )


@short_attention.register_fake
def _(queries_NHD: Tensor, *unused: Tensor | int) -> Tensor:
    return queries_NHD.new_empty(queries_NHD.shape)


@torch.library.custom_op("weft::short_attention_backward", mutates_args=(), device_types="cuda")
def short_attention_backward(
    gradients_NHD: Tensor,
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_keys: int,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    gradients = [tensor.new_empty(tensor.shape) for tensor in (queries_NHD, keys_NHD, values_NHD)]
    inputs = (gradients_NHD, queries_NHD, keys_NHD, values_NHD)
    _write_gradients(*inputs, query_starts, key_starts, longest_queries, longest_keys, causal, gradients)
    return gradients[0], gradients[1], gradients[2]


def _write_gradients(
    gradients_NHD: Tensor,
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_keys: int,
    causal: bool,
    results: Sequence[Tensor],
) -> None:
    """Write the gradients of queries, keys and values to ``results``."""
    heads, kv_heads, width = queries_NHD.shape[1], keys_NHD.shape[1], queries_NHD.shape[2]
    d_queries_NHD, d_keys_NHD, d_values_NHD = results
    assert d_keys_NHD.stride() == d_values_NHD.stride()
    rows = len(query_starts) - 1
    for launch in _launches(rows, longest_queries, longest_keys):
        is_large = launch.warps == 8 and width <= 64
        _backward[(rows * kv_heads,)](
            queries_NHD, keys_NHD, values_NHD, gradients_NHD, d_queries_NHD, d_keys_NHD, d_values_NHD,
            query_starts, key_starts, 1 / math.sqrt(width), int(causal), launch.over, launch.up_to, kv_heads,
            queries_NHD.stride(0), queries_NHD.stride(1), keys_NHD.stride(0), keys_NHD.stride(1),
            values_NHD.stride(0), values_NHD.stride(1), gradients_NHD.stride(0), gradients_NHD.stride(1),
            d_queries_NHD.stride(0), d_queries_NHD.stride(1), d_keys_NHD.stride(0), d_keys_NHD.stride(1),
            groups=heads // kv_heads, is_large=is_large, tile_t=launch.tile_t, tile_s=launch.tile_s, width=width,
            num_warps=4 if is_large else launch.warps,
        )  # fmt: skip


@short_attention_backward.register_fake
def _(gradients_NHD: Tensor, *inputs: Tensor | int) -> tuple[Tensor, ...]:
    return tuple(tensor.new_empty(tensor.shape) for tensor in inputs[:3] if isinstance(tensor, Tensor))


def _setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    *tensors, ctx.longest_queries, ctx.longest_keys, ctx.causal = inputs
    ctx.save_for_backward(*tensors)


def _backward_of_operator(ctx, gradient_NHD):  # type: ignore[no-untyped-def]
    if gradient_NHD.stride(-1) != 1:
        gradient_NHD = gradient_NHD.contiguous()
    options = (ctx.longest_queries, ctx.longest_keys, ctx.causal)
    gradients = short_attention_backward(gradient_NHD, *ctx.saved_tensors, *options)
    return *gradients, None, None, None, None, None


short_attention.register_autograd(_backward_of_operator, setup_context=_setup_context)


class _ShortAttention(torch.autograd.Function):
    """Short attention without compilation: gradients of adjacent heads are adjacent."""

    @staticmethod
    def forward(ctx: Any, queries_NHD: Tensor, keys_NHD: Tensor, values_NHD: Tensor, *options: Any) -> Tensor:
        query_starts, key_starts, *ctx.options = options
        ctx.save_for_backward(queries_NHD, keys_NHD, values_NHD, query_starts, key_starts)
        return forward_only(queries_NHD, keys_NHD, values_NHD, *options)

    @staticmethod
    def backward(ctx: Any, gradient_NHD: Tensor) -> tuple[Tensor | None, ...]:
        queries_NHD, keys_NHD, values_NHD, query_starts, key_starts = ctx.saved_tensors
        gradients = empty_gradients(queries_NHD, keys_NHD, values_NHD)
        if gradient_NHD.stride(-1) != 1:
            gradient_NHD = gradient_NHD.contiguous()
        inputs = (gradient_NHD, queries_NHD, keys_NHD, values_NHD)
        longest_queries, longest_keys, causal = ctx.options
        _write_gradients(*inputs, query_starts, key_starts, longest_queries, longest_keys, causal, gradients)
        return *gradients, None, None, None, None, None


def trained_attention(
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_keys: int,
    causal: bool,
) -> Tensor:
    """`forward_only` with a gradient."""
    attend = short_attention if torch.compiler.is_compiling() else _ShortAttention.apply
    outputs_NHD: Tensor = attend(
        queries_NHD, keys_NHD, values_NHD, query_starts, key_starts, longest_queries, longest_keys, causal
    )
    return outputs_NHD
