"""Attention of one search step on CUDA: one query per row, one program per row and head.

Plain counterparts: the CPU path of `weft.attention.kv_cache.KVCache.step` for `cached_attention`, and
`weft.attention.step_attention.step_attention` for `source_attention`. Held to them by
tests/kernels/triton/test_step_attention.py.

The history of a row need not be stored in one row of the cache. When a beam search drops one hypothesis and continues
another twice, no keys are copied: token t of row r is stored in row ``rows[r, t]``, and a step only rewrites these
indices. Over a source, all rows of a sentence share one row of keys. The softmax is computed online (Milakov and
Gimelshein 2018).
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

HEAD_WIDTHS = (16, 32, 64, 128, 256)
"""Head widths that the kernel supports."""


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    queries, new_keys, new_values, keys, values, rows, length, bias, outputs,
    query_stride, key_row, key_head, key_position, value_row, value_head, value_position, bias_row,
    capacity, rows_per_source, scale,
    groups: tl.constexpr, is_cached: tl.constexpr, updates_rows: tl.constexpr, has_bias: tl.constexpr,
    width: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """``bias``: per head over a cache, per sentence over a source.

    Over a cache, a row's new key and value come first and are stored at position ``length``.
    """
    row, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, width)
    query = tl.load(queries + row * query_stride + head * width + d).to(tl.float32) * scale
    count = capacity
    source = row // rows_per_source
    kv_head = head // groups
    maximum = -1e30
    total = 0.0
    output = tl.zeros([width], tl.float32)
    if is_cached:
        count = tl.load(length).to(tl.int32)
        new_key = tl.load(new_keys + row * query_stride + kv_head * width + d)
        new_value = tl.load(new_values + row * query_stride + kv_head * width + d)
        tl.store(keys + row.to(tl.int64) * key_row + kv_head * key_head + count * key_position + d, new_key)
        tl.store(values + row.to(tl.int64) * value_row + kv_head * value_head + count * value_position + d, new_value)
        maximum = tl.sum(new_key.to(tl.float32) * query, 0)
        if has_bias:
            maximum += tl.load(bias + head * bias_row + count).to(tl.float32)
        total = 1.0
        output = new_value.to(tl.float32)
        if updates_rows:
            tl.store(rows + row * capacity + count, row.to(tl.int64), mask=head == 0)
    for first in range(0, count, tile):
        position = first + tl.arange(0, tile)
        valid = position < count
        if is_cached:
            stored_row = tl.load(rows + row * capacity + position, mask=valid, other=0)
        else:
            stored_row = source + tl.zeros([tile], tl.int32)
        index = stored_row.to(tl.int64) * key_row + kv_head * key_head + position * key_position
        key = tl.load(keys + index[:, None] + d[None, :], mask=valid[:, None], other=0.0).to(tl.float32)
        scores = tl.sum(key * query[None, :], 1)
        if has_bias:
            row_of_bias = head if is_cached else source
            scores += tl.load(bias + row_of_bias * bias_row + position, mask=valid, other=0.0).to(tl.float32)
        scores = tl.where(valid, scores, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, 0))
        powers = tl.exp(scores - new_maximum)
        correction = tl.exp(maximum - new_maximum)
        index = stored_row.to(tl.int64) * value_row + kv_head * value_head + position * value_position
        value = tl.load(values + index[:, None] + d[None, :], mask=valid[:, None], other=0.0).to(tl.float32)
        output = output * correction + tl.sum(value * powers[:, None], 0)
        total = total * correction + tl.sum(powers, 0)
        maximum = new_maximum
    target = outputs + (row * tl.num_programs(1) + head) * width + d
    tl.store(target, (output / total).to(outputs.dtype.element_ty))


def cached_attention(
    projected_RHD: Tensor,
    heads: int,
    keys_RHTD: Tensor,
    values_RHTD: Tensor,
    rows_RT: Tensor,
    length: Tensor,
    bias_HT: Tensor | None,
    *,
    updates_rows: bool,
) -> Tensor:
    """Every row over its history and itself. ``projected_RHD``: queries, keys and values, one head after the other; the
    keys and values are stored in the cache and, if ``updates_rows``, their rows in ``rows_RT``."""
    kv_heads = keys_RHTD.shape[1]
    new_keys, new_values = projected_RHD[:, heads : heads + kv_heads], projected_RHD[:, heads + kv_heads :]
    parts = (projected_RHD[:, :heads], new_keys, new_values, keys_RHTD, values_RHTD)
    return _launch(*parts, rows_RT, length, bias_HT, rows_per_source=1, updates_rows=updates_rows)


def source_attention(queries_RHD: Tensor, keys_BHSD: Tensor, values_BHSD: Tensor, mask_BS: Tensor) -> Tensor:
    """Every row over the source of its sentence; ``mask_BS``: additive, −∞ at padding."""
    rows_per_source = len(queries_RHD) // len(keys_BHSD)
    unused = queries_RHD
    parts = (queries_RHD, unused, unused, keys_BHSD, values_BHSD)
    return _launch(*parts, None, None, mask_BS, rows_per_source=rows_per_source)


def _launch(
    queries_RHD: Tensor,
    new_keys: Tensor,
    new_values: Tensor,
    keys: Tensor,
    values: Tensor,
    rows_RT: Tensor | None,
    length: Tensor | None,
    bias: Tensor | None,
    *,
    rows_per_source: int,
    updates_rows: bool = False,
) -> Tensor:
    rows, heads, width = queries_RHD.shape
    assert queries_RHD.stride(2) == keys.stride(3) == values.stride(3) == 1 and queries_RHD.stride(1) == width
    outputs_RHD = torch.empty((rows, heads, width), dtype=queries_RHD.dtype, device=queries_RHD.device)
    capacity = keys.shape[2]
    _attend[(rows, heads)](
        queries_RHD, new_keys, new_values, keys, values,
        keys if rows_RT is None else rows_RT, keys if length is None else length, keys if bias is None else bias,
        outputs_RHD, queries_RHD.stride(0), *keys.stride()[:3], *values.stride()[:3],
        0 if bias is None else bias.stride(0), capacity, rows_per_source, 1.0 / math.sqrt(width),
        groups=heads // keys.shape[1], is_cached=rows_RT is not None, updates_rows=updates_rows,
        has_bias=bias is not None, width=width, tile=32 if capacity > 16 else 16, num_warps=2,
    )  # fmt: skip
    return outputs_RHD
