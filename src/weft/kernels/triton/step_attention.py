"""Attention of one step of a search on a GPU: one query a row, one program for each row and head.

A row's past need not lie together. When a beam search drops one hypothesis and goes on twice with another, nothing is
copied: item t of row r lies in row ``table[r, t]`` of what was kept, and a step only rewrites the table. Over a source,
all rows of a sentence look at one row of the memory. The softmax is made as the items pass by (Milakov and Gimelshein
2018). Loaded only where there is a GPU.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDTHS = (16, 32, 64, 128, 256)
"""Widths of a head that the kernel is for."""


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    queries,
    own_keys,
    own_values,
    keys,
    values,
    table,
    time,
    bias,
    answers,
    query_stride,
    key_row,
    key_head,
    key_item,
    value_row,
    value_head,
    value_item,
    bias_row,
    items,
    share,
    scale,
    groups: tl.constexpr,
    has_table: tl.constexpr,
    notes_row: tl.constexpr,
    has_bias: tl.constexpr,
    width: tl.constexpr,
    tile: tl.constexpr,
):
    """``share``: rows of a sentence, over a source. ``bias``: by head over a past, by sentence over a source.

    Over a past, a row's own key and value come first and are written into the store at place ``time``.
    """
    row, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, width)
    query = tl.load(queries + row * query_stride + head * width + d).to(tl.float32) * scale
    count = items
    source = row // share
    top = -1e30
    total = 0.0
    answer = tl.zeros([width], tl.float32)
    if has_table:
        count = tl.load(time).to(tl.int32)
        shared = head // groups
        own_key = tl.load(own_keys + row * query_stride + shared * width + d)
        own_value = tl.load(own_values + row * query_stride + shared * width + d)
        tl.store(keys + row.to(tl.int64) * key_row + shared * key_head + count * key_item + d, own_key)
        tl.store(values + row.to(tl.int64) * value_row + shared * value_head + count * value_item + d, own_value)
        top = tl.sum(own_key.to(tl.float32) * query, 0)
        if has_bias:
            top += tl.load(bias + head * bias_row + count).to(tl.float32)
        total = 1.0
        answer = own_value.to(tl.float32)
        if notes_row:
            tl.store(table + row * items + count, row.to(tl.int64), mask=head == 0)
    for first in range(0, count, tile):
        item = first + tl.arange(0, tile)
        there = item < count
        if has_table:
            owner = tl.load(table + row * items + item, mask=there, other=0)
        else:
            owner = source + tl.zeros([tile], tl.int32)
        at = owner.to(tl.int64) * key_row + (head // groups) * key_head + item * key_item
        key = tl.load(keys + at[:, None] + d[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        scores = tl.sum(key * query[None, :], 1)
        if has_bias:
            of_bias = head if has_table else source
            scores += tl.load(bias + of_bias * bias_row + item, mask=there, other=0.0).to(tl.float32)
        scores = tl.where(there, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 0))
        powers = tl.exp(scores - higher)
        shrink = tl.exp(top - higher)
        at = owner.to(tl.int64) * value_row + (head // groups) * value_head + item * value_item
        value = tl.load(values + at[:, None] + d[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        answer = answer * shrink + tl.sum(value * powers[:, None], 0)
        total = total * shrink + tl.sum(powers, 0)
        top = higher
    place = answers + (row * tl.num_programs(1) + head) * width + d
    tl.store(place, (answer / total).to(answers.dtype.element_ty))


def cached_attention(
    all_RHD: Tensor,
    heads: int,
    keys_RHTD: Tensor,
    values_RHTD: Tensor,
    table_RT: Tensor,
    time_1: Tensor,
    bias_HT: Tensor | None,
    *,
    notes_row: bool,
) -> Tensor:
    """Every row over its past and itself. ``all_RHD``: its queries, keys and values, one head after the other; keys and
    values are written into the store, and where ``notes_row`` the table is told."""
    shared = keys_RHTD.shape[1]
    own_keys, own_values = all_RHD[:, heads : heads + shared], all_RHD[:, heads + shared :]
    parts = (all_RHD[:, :heads], own_keys, own_values, keys_RHTD, values_RHTD)
    return _launch(*parts, table_RT, time_1, bias_HT, share=1, notes_row=notes_row)


def source_attention(queries_RHD: Tensor, keys_BHSD: Tensor, values_BHSD: Tensor, bias_BS: Tensor) -> Tensor:
    """Every row over the source of its sentence; ``bias_BS``: −∞ where a source has ended."""
    share = len(queries_RHD) // len(keys_BHSD)
    nothing = queries_RHD
    return _launch(queries_RHD, nothing, nothing, keys_BHSD, values_BHSD, None, None, bias_BS, share=share)


def _launch(
    queries_RHD: Tensor,
    own_keys: Tensor,
    own_values: Tensor,
    keys: Tensor,
    values: Tensor,
    table_RT: Tensor | None,
    time_1: Tensor | None,
    bias: Tensor | None,
    *,
    share: int,
    notes_row: bool = False,
) -> Tensor:
    rows, heads, width = queries_RHD.shape
    assert queries_RHD.stride(2) == keys.stride(3) == values.stride(3) == 1 and queries_RHD.stride(1) == width
    answers_RHD = torch.empty((rows, heads, width), dtype=queries_RHD.dtype, device=queries_RHD.device)
    items = keys.shape[2]
    _attend[(rows, heads)](
        queries_RHD,
        own_keys,
        own_values,
        keys,
        values,
        keys if table_RT is None else table_RT,
        keys if time_1 is None else time_1,
        keys if bias is None else bias,
        answers_RHD,
        queries_RHD.stride(0),
        *keys.stride()[:3],
        *values.stride()[:3],
        0 if bias is None else bias.stride(0),
        items,
        share,
        1.0 / math.sqrt(width),
        groups=heads // keys.shape[1],
        has_table=table_RT is not None,
        notes_row=notes_row,
        has_bias=bias is not None,
        width=width,
        tile=32 if items > 16 else 16,
        num_warps=2,
    )
    return answers_RHD
