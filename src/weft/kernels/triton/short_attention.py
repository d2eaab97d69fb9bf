"""Attention on a GPU for rows of unequal length that are short: one program for each row and head.

Flash attention works in tiles of 128 by 128, so rows of 25 tokens waste most of it. Here a row fits into one tile,
whose size is the next power of two; the softmax is made in one go, and the backward pass makes it again instead of
keeping it. Loaded only where there is a GPU. Not for rows longer than `LONGEST`.
"""

# No `from __future__ import annotations` here: PyTorch reads the types of a custom operator as they stand.

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 128
WIDTHS = (16, 32, 64, 128)
"""Widths of a head that the kernels are for."""


@triton.jit
def _weights(  # type: ignore[no-untyped-def]
    queries_TD, keys_SD, query_count, key_count, scale, causal: tl.constexpr, tile_t: tl.constexpr, tile_s: tl.constexpr
):
    """softmax(q·k / √d) over the keys a query may look at; rows without keys have no weights."""
    scores = tl.dot(queries_TD, tl.trans(keys_SD)) * scale
    t = tl.arange(0, tile_t)[:, None]
    s = tl.arange(0, tile_s)[None, :]
    seen = (s < key_count) & (t < query_count)
    if causal:
        seen = seen & (s <= t + key_count - query_count)
    scores = tl.where(seen, scores, float("-inf"))
    top = tl.maximum(tl.max(scores, 1), -1e30)
    powers = tl.exp(scores - top[:, None])
    total = tl.sum(powers, 1)
    return powers / tl.where(total > 0, total, 1.0)[:, None]


@triton.jit
def _load(  # type: ignore[no-untyped-def]
    values, start, count, head, row_stride, head_stride, tile: tl.constexpr, width: tl.constexpr
):
    """The tokens of a row in one head, zeros after its end."""
    places = tl.arange(0, tile)[:, None]
    offsets = (start + places).to(tl.int64) * row_stride + head * head_stride + tl.arange(0, width)[None, :]
    return tl.load(values + offsets, mask=places < count, other=0.0)


@triton.jit
def _store(  # type: ignore[no-untyped-def]
    values, found, start, count, head, row_stride, head_stride, tile: tl.constexpr, width: tl.constexpr
):
    places = tl.arange(0, tile)[:, None]
    offsets = (start + places).to(tl.int64) * row_stride + head * head_stride + tl.arange(0, width)[None, :]
    tl.store(values + offsets, found.to(values.dtype.element_ty), mask=places < count)


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    queries, keys, values, answers, query_starts, key_starts, scale,
    query_row, query_head, key_row, key_head, value_row, value_head, answer_row, answer_head,
    groups: tl.constexpr, causal: tl.constexpr, tile_t: tl.constexpr, tile_s: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """One row and head: Σ_j α_j v_j."""
    row, head = tl.program_id(0), tl.program_id(1)
    query_start, key_start = tl.load(query_starts + row), tl.load(key_starts + row)
    query_count = tl.load(query_starts + row + 1) - query_start
    key_count = tl.load(key_starts + row + 1) - key_start
    if query_count == 0:
        return
    shared = head // groups
    queries_TD = _load(queries, query_start, query_count, head, query_row, query_head, tile_t, width)
    keys_SD = _load(keys, key_start, key_count, shared, key_row, key_head, tile_s, width)
    values_SD = _load(values, key_start, key_count, shared, value_row, value_head, tile_s, width)
    weights_TS = _weights(queries_TD, keys_SD, query_count, key_count, scale, causal, tile_t, tile_s)
    answers_TD = tl.dot(weights_TS.to(values_SD.dtype), values_SD)
    _store(answers, answers_TD, query_start, query_count, head, answer_row, answer_head, tile_t, width)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    queries, keys, values, gradients, of_queries, of_keys, of_values, query_starts, key_starts, scale,
    query_row, query_head, key_row, key_head, value_row, value_head, gradient_row, gradient_head,
    of_query_row, of_query_head, of_key_row, of_key_head,
    groups: tl.constexpr, causal: tl.constexpr, tile_t: tl.constexpr, tile_s: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """One row and one head of keys and values, with all heads of queries that share it."""
    row, shared = tl.program_id(0), tl.program_id(1)
    query_start, key_start = tl.load(query_starts + row), tl.load(key_starts + row)
    query_count = tl.load(query_starts + row + 1) - query_start
    key_count = tl.load(key_starts + row + 1) - key_start
    keys_SD = _load(keys, key_start, key_count, shared, key_row, key_head, tile_s, width)
    values_SD = _load(values, key_start, key_count, shared, value_row, value_head, tile_s, width)
    of_keys_SD = tl.zeros((tile_s, width), tl.float32)
    of_values_SD = tl.zeros((tile_s, width), tl.float32)
    for group in range(groups):
        head = shared * groups + group
        queries_TD = _load(queries, query_start, query_count, head, query_row, query_head, tile_t, width)
        gradients_TD = _load(gradients, query_start, query_count, head, gradient_row, gradient_head, tile_t, width)
        weights_TS = _weights(queries_TD, keys_SD, query_count, key_count, scale, causal, tile_t, tile_s)
        of_values_SD += tl.dot(tl.trans(weights_TS.to(gradients_TD.dtype)), gradients_TD)
        of_weights_TS = tl.dot(gradients_TD, tl.trans(values_SD))
        mean_T = tl.sum(weights_TS * of_weights_TS, 1)
        of_scores_TS = (weights_TS * (of_weights_TS - mean_T[:, None]) * scale).to(keys_SD.dtype)
        of_queries_TD = tl.dot(of_scores_TS, keys_SD)
        _store(of_queries, of_queries_TD, query_start, query_count, head, of_query_row, of_query_head, tile_t, width)
        of_keys_SD += tl.dot(tl.trans(of_scores_TS), queries_TD)
    _store(of_keys, of_keys_SD, key_start, key_count, shared, of_key_row, of_key_head, tile_s, width)
    _store(of_values, of_values_SD, key_start, key_count, shared, of_key_row, of_key_head, tile_s, width)


def _tiles(longest_queries: int, longest_items: int) -> tuple[int, int, int]:
    """Tile sizes, and how many warps work on a tile."""
    sizes = [max(16, triton.next_power_of_2(longest)) for longest in (longest_queries, longest_items)]
    cells = sizes[0] * sizes[1]
    return sizes[0], sizes[1], 2 if cells <= 1024 else 4 if cells <= 4096 else 8


def forward_only(
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_items: int,
    causal: bool,
) -> Tensor:
    """Every query over the items of its row."""
    count, heads, width = queries_NHD.shape
    answers_NHD = queries_NHD.new_empty(count, heads, width)
    tile_t, tile_s, warps = _tiles(longest_queries, longest_items)
    _forward[(len(query_starts) - 1, heads)](
        queries_NHD, keys_NHD, values_NHD, answers_NHD, query_starts, key_starts, 1 / math.sqrt(width),
        queries_NHD.stride(0), queries_NHD.stride(1), keys_NHD.stride(0), keys_NHD.stride(1),
        values_NHD.stride(0), values_NHD.stride(1), answers_NHD.stride(0), answers_NHD.stride(1),
        groups=heads // keys_NHD.shape[1], causal=causal, tile_t=tile_t, tile_s=tile_s, width=width, num_warps=warps,
    )  # fmt: skip
    return answers_NHD


@torch.library.custom_op("weft::short_attention", mutates_args=(), device_types="cuda")
def short_attention(
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_items: int,
    causal: bool,
) -> Tensor:
    """`forward_only` as an operator with a gradient."""
    return forward_only(
        queries_NHD, keys_NHD, values_NHD, query_starts, key_starts, longest_queries, longest_items, causal
    )


@short_attention.register_fake
def _(
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_items: int,
    causal: bool,
) -> Tensor:
    return queries_NHD.new_empty(queries_NHD.shape)


@torch.library.custom_op("weft::short_rows_backward", mutates_args=(), device_types="cuda")
def short_rows_backward(
    gradients_NHD: Tensor,
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_items: int,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    heads, shared, width = queries_NHD.shape[1], keys_NHD.shape[1], queries_NHD.shape[2]
    of_queries_NHD = queries_NHD.new_empty(queries_NHD.shape)
    of_keys_NHD, of_values_NHD = (keys_NHD.new_empty(keys_NHD.shape) for _ in range(2))
    tile_t, tile_s, warps = _tiles(longest_queries, longest_items)
    _backward[(len(query_starts) - 1, shared)](
        queries_NHD, keys_NHD, values_NHD, gradients_NHD, of_queries_NHD, of_keys_NHD, of_values_NHD,
        query_starts, key_starts, 1 / math.sqrt(width),
        queries_NHD.stride(0), queries_NHD.stride(1), keys_NHD.stride(0), keys_NHD.stride(1),
        values_NHD.stride(0), values_NHD.stride(1), gradients_NHD.stride(0), gradients_NHD.stride(1),
        of_queries_NHD.stride(0), of_queries_NHD.stride(1), of_keys_NHD.stride(0), of_keys_NHD.stride(1),
        groups=heads // shared, causal=causal, tile_t=tile_t, tile_s=tile_s, width=width, num_warps=warps,
    )  # fmt: skip
    return of_queries_NHD, of_keys_NHD, of_values_NHD


@short_rows_backward.register_fake
def _(
    gradients_NHD: Tensor,
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_queries: int,
    longest_items: int,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    of_keys_NHD, of_values_NHD = (keys_NHD.new_empty(keys_NHD.shape) for _ in range(2))
    return queries_NHD.new_empty(queries_NHD.shape), of_keys_NHD, of_values_NHD


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    *tensors, ctx.longest_queries, ctx.longest_items, ctx.causal = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx, gradient_NHD):  # type: ignore[no-untyped-def]
    if gradient_NHD.stride(-1) != 1:
        gradient_NHD = gradient_NHD.contiguous()
    found = short_rows_backward(gradient_NHD, *ctx.saved_tensors, ctx.longest_queries, ctx.longest_items, ctx.causal)
    return *found, None, None, None, None, None


short_attention.register_autograd(_gradients, setup_context=_keep)
