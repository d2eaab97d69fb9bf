"""Attention of one search step on CUDA: one query per row. One program per row and head or, over a source that several
rows share, per sentence and head.

Plain counterparts: the CPU path of `weft.fast.steps.kv_cache.KVCache.step` for `cached_attention`, and
`weft.attention.multihead.step_attention` for `source_attention`. Tested in
tests/fast/triton/test_step_attention.py.

The history of a row need not be stored in one row of the cache. When a beam search drops one hypothesis and continues
another twice, no keys are copied: token t of row r is stored in row ``rows[r, t]``, and a step only rewrites these
indices. Over a source, all rows of a sentence share one row of keys. A prefix language model attends to both together.
The softmax is computed online (Milakov and Gimelshein 2018).
"""

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.dependent_launch import launch_options, wait_for_inputs

HEAD_WIDTHS = (16, 32, 64, 128, 256)
"""Head widths that the kernels support."""
MAX_ROWS_PER_SOURCE = 16
"""Rows of a sentence that one program can search."""
FEW_ROWS = 16
"""Rows up to which a step is a chain of short kernels, whose launches are worth overlapping."""


@triton.jit
def _add_tile(query, keys, values, bias, valid, maximum, total, output):  # type: ignore[no-untyped-def]
    """The online softmax, one tile further. ``keys``, ``values``: pointers (tile, width); ``bias``: (tile,)."""
    key = tl.load(keys, mask=valid[:, None], other=0.0)
    value = tl.load(values, mask=valid[:, None], other=0.0)  # both before either is needed
    scores = tl.where(valid, tl.sum(key.to(tl.float32) * query[None, :], 1) + bias, float("-inf"))
    new_maximum = tl.maximum(maximum, tl.max(scores, 0))
    powers = tl.exp(scores - new_maximum)
    correction = tl.exp(maximum - new_maximum)
    output = output * correction + tl.sum(value.to(tl.float32) * powers[:, None], 0)
    return new_maximum, total * correction + tl.sum(powers, 0), output


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    queries, new_keys, new_values, keys, values, rows, length, bias, outputs,
    query_stride, key_row, key_head, key_position, value_row, value_head, value_position, bias_head, capacity,
    source_keys, source_values, source_bias,
    source_key_row, source_key_head, source_key_position, source_value_row, source_value_head, source_value_position,
    source_bias_row, source_bias_head, source_length, rows_per_source, scale,
    groups: tl.constexpr, is_cached: tl.constexpr, updates_rows: tl.constexpr, has_bias: tl.constexpr,
    has_source: tl.constexpr, width: tl.constexpr, tile: tl.constexpr, source_tile: tl.constexpr,
    overlaps: tl.constexpr,
):  # fmt: skip
    """``bias``: per head over a cache; ``source_bias``: per sentence, and per head unless its stride is 0.

    Over a cache, a row's new key and value come first and are stored at position ``length``. Indices of stored rows are
    loaded one tile ahead, the first of them before the length is known.
    """
    row, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, width)
    wait_for_inputs(overlaps)
    query = tl.load(queries + row * query_stride + head * width + d).to(tl.float32) * scale
    kv_head = head // groups
    maximum = -1e30
    total = 0.0
    output = tl.zeros([width], tl.float32)
    if is_cached:
        ahead = tl.arange(0, tile)
        stored_row = tl.load(rows + row * capacity + ahead, mask=ahead < capacity, other=0).to(tl.int64)
        count = tl.load(length).to(tl.int32)
        new_key = tl.load(new_keys + row * query_stride + kv_head * width + d)
        new_value = tl.load(new_values + row * query_stride + kv_head * width + d)
        tl.store(keys + row.to(tl.int64) * key_row + kv_head * key_head + count * key_position + d, new_key)
        tl.store(values + row.to(tl.int64) * value_row + kv_head * value_head + count * value_position + d, new_value)
        maximum = tl.sum(new_key.to(tl.float32) * query, 0)
        if has_bias:
            maximum += tl.load(bias + head * bias_head + count).to(tl.float32)
        total = 1.0
        output = new_value.to(tl.float32)
        if updates_rows:
            tl.store(rows + row * capacity + count, row.to(tl.int64), mask=head == 0)
        for first in range(0, count, tile):
            position = first + tl.arange(0, tile)
            valid = position < count
            key = keys + (stored_row * key_row + kv_head * key_head + position * key_position)[:, None] + d[None, :]
            index = stored_row * value_row + kv_head * value_head + position * value_position
            value = values + index[:, None] + d[None, :]
            ahead = position + tile
            stored_row = tl.load(rows + row * capacity + ahead, mask=ahead < capacity, other=0).to(tl.int64)
            added = tl.zeros([tile], tl.float32)
            if has_bias:
                added += tl.load(bias + head * bias_head + position, mask=valid, other=0.0).to(tl.float32)
            maximum, total, output = _add_tile(query, key, value, added, valid, maximum, total, output)
    if has_source:
        source = (row // rows_per_source).to(tl.int64)
        source_keys += source * source_key_row + kv_head * source_key_head
        source_values += source * source_value_row + kv_head * source_value_head
        source_bias += source * source_bias_row + head * source_bias_head
        for first in range(0, source_length, source_tile):
            position = first + tl.arange(0, source_tile)
            valid = position < source_length
            key = source_keys + (position * source_key_position)[:, None] + d[None, :]
            value = source_values + (position * source_value_position)[:, None] + d[None, :]
            added = tl.load(source_bias + position, mask=valid, other=0.0).to(tl.float32)
            maximum, total, output = _add_tile(query, key, value, added, valid, maximum, total, output)
    target = outputs + (row * tl.num_programs(1) + head) * width + d
    tl.store(target, (output / total).to(outputs.dtype.element_ty))


@triton.jit
def _attend_to_source(  # type: ignore[no-untyped-def]
    queries, keys, values, bias, outputs,
    query_stride, key_row, key_head, key_position, value_row, value_head, value_position, bias_row, bias_head,
    length, rows_per_source, scale,
    groups: tl.constexpr, width: tl.constexpr, row_tile: tl.constexpr, tile: tl.constexpr, overlaps: tl.constexpr,
):  # fmt: skip
    """All rows of one sentence, for which keys and values are loaded once."""
    source, head = tl.program_id(0), tl.program_id(1)
    m, d = tl.arange(0, row_tile), tl.arange(0, width)
    row_valid = m < rows_per_source
    row = source * rows_per_source + m
    first_key = keys + source.to(tl.int64) * key_row + (head // groups) * key_head
    first_value = values + source.to(tl.int64) * value_row + (head // groups) * value_head
    first_bias = bias + source * bias_row + head * bias_head
    wait_for_inputs(overlaps)
    query = tl.load(
        queries + row[:, None] * query_stride + head * width + d[None, :], mask=row_valid[:, None], other=0.0
    )
    maximum = tl.full([row_tile], -1e30, tl.float32)
    total = tl.zeros([row_tile], tl.float32)
    output = tl.zeros([row_tile, width], tl.float32)
    for first in range(0, length, tile):
        position = first + tl.arange(0, tile)
        valid = position < length
        key = tl.load(first_key + position[:, None] * key_position + d[None, :], mask=valid[:, None], other=0.0)
        value = tl.load(first_value + position[:, None] * value_position + d[None, :], mask=valid[:, None], other=0.0)
        mask = tl.load(first_bias + position, mask=valid, other=float("-inf")).to(tl.float32)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale + mask[None, :]
        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        powers = tl.exp(scores - new_maximum[:, None])
        correction = tl.exp(maximum - new_maximum)
        # In two parts, so that weights are not rounded to the precision of the values.
        rounded = powers.to(value.dtype)
        rest = (powers - rounded.to(tl.float32)).to(value.dtype)
        output = output * correction[:, None] + tl.dot(rounded, value, input_precision="ieee")
        output += tl.dot(rest, value, input_precision="ieee")
        total = total * correction + tl.sum(powers, 1)
        maximum = new_maximum
    target = outputs + (row * tl.num_programs(1) + head)[:, None] * width + d[None, :]
    tl.store(target, (output / total[:, None]).to(outputs.dtype.element_ty), mask=row_valid[:, None])


class Source(NamedTuple):
    """Keys and values of sources, and what is added to the scores."""

    keys_BHSD: Tensor
    values_BHSD: Tensor
    bias: Tensor | None
    """(B, H, 1, S), or (B, 1, 1, S) for all heads; −∞ at padding."""


class Cache(NamedTuple):
    """The tensors of a `weft.fast.steps.kv_cache.KVCache` that the kernel writes and reads."""

    keys_RHTD: Tensor
    values_RHTD: Tensor
    rows_RT: Tensor
    length: Tensor
    bias_HT: Tensor | None


def cached_attention(
    projected_RHD: Tensor, heads: int, cache: Cache, *, updates_rows: bool, source: Source | None = None
) -> Tensor:
    """Every row over its history and itself and, if given, the source of its sentence before them.

    ``projected_RHD``: queries, keys and values, one head after the other; the keys and values are stored in the cache
    and, if ``updates_rows``, their rows in ``rows_RT``.
    """
    return _launch(projected_RHD, heads, cache, source, updates_rows=updates_rows)


def source_attention(queries_RHD: Tensor, source: Source) -> Tensor:
    """Every row over the source of its sentence."""
    keys, values, bias = source
    heads, width = queries_RHD.shape[1:]
    rows_per_source = len(queries_RHD) // len(keys)
    if not 1 < rows_per_source <= MAX_ROWS_PER_SOURCE:
        return _launch(queries_RHD, heads, None, source)
    assert queries_RHD.stride(2) == keys.stride(3) == values.stride(3) == 1 and queries_RHD.stride(1) == width
    outputs_RHD = torch.empty(queries_RHD.shape, dtype=queries_RHD.dtype, device=queries_RHD.device)
    length = keys.shape[2]
    tile = 32 if length <= 32 or width > 64 else 64
    _attend_to_source[(len(keys), heads)](
        queries_RHD, keys, values, bias, outputs_RHD, queries_RHD.stride(0),
        *keys.stride()[:3], *values.stride()[:3], *_bias_strides(bias), length, rows_per_source,
        1.0 / math.sqrt(width), groups=heads // keys.shape[1], width=width, row_tile=MAX_ROWS_PER_SOURCE,
        tile=tile, num_warps=max(1, tile * width // 2048), **_launch_options(queries_RHD),
    )  # fmt: skip
    return outputs_RHD


def _bias_strides(bias: Tensor | None) -> tuple[int, int]:
    """Strides of the sentence and of the head."""
    assert bias is not None and bias.stride(3) == 1
    return bias.stride(0), bias.stride(1) if bias.shape[1] > 1 else 0


def _launch_options(queries_RHD: Tensor) -> dict[str, Any]:
    return launch_options(queries_RHD.device) if len(queries_RHD) <= FEW_ROWS else {"overlaps": False}


def _launch(
    projected_RHD: Tensor, heads: int, cache: Cache | None, source: Source | None, *, updates_rows: bool = False
) -> Tensor:
    rows, _, width = projected_RHD.shape
    device = projected_RHD.device
    stored = source if cache is None else cache
    assert stored is not None
    kv_heads = stored[0].shape[1]
    for part in (*(cache or ())[:2], *(source or ())[:2]):
        assert part.stride(3) == 1
    assert projected_RHD.stride(2) == 1 and projected_RHD.stride(1) == width
    outputs_RHD = torch.empty((rows, heads, width), dtype=projected_RHD.dtype, device=device)
    unused = projected_RHD
    new_keys, new_values = projected_RHD[:, heads : heads + kv_heads], projected_RHD[:, heads + kv_heads :]
    keys, values, rows_RT, length, bias = cache or (unused, unused, unused, unused, None)
    capacity = 0 if cache is None else keys.shape[2]
    strides = (0,) * 6 if cache is None else (*keys.stride()[:3], *values.stride()[:3])
    source_keys, source_values, source_bias = source or (unused, unused, unused)
    assert source_bias is not None
    source_strides: tuple[int, ...] = (0,) * 8
    source_length, rows_per_source = 0, 1
    if source is not None:
        source_length, rows_per_source = source_keys.shape[2], rows // len(source_keys)
        source_strides = (*source_keys.stride()[:3], *source_values.stride()[:3], *_bias_strides(source_bias))
    _attend[(rows, heads)](
        projected_RHD, new_keys, new_values, keys, values, rows_RT, length, unused if bias is None else bias,
        outputs_RHD, projected_RHD.stride(0), *strides, 0 if bias is None else bias.stride(0), capacity,
        source_keys, source_values, source_bias, *source_strides, source_length, rows_per_source,
        1.0 / math.sqrt(width), groups=heads // kv_heads, is_cached=cache is not None, updates_rows=updates_rows,
        has_bias=bias is not None, has_source=source is not None, width=width, tile=32 if capacity > 16 else 16,
        source_tile=32 if source_length > 16 else 16, num_warps=2, **_launch_options(projected_RHD),
    )  # fmt: skip
    return outputs_RHD
