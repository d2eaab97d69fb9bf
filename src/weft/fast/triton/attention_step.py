"""Attention of one step of a recurrence in training on CUDA: scores, softmax and context of a row in one kernel.

Plain counterpart: `weft.attention.attention.Attention.forward` for one query per row, with softmax and a score that is
a dot product or has a hidden layer. Tested in tests/fast/triton/test_input_feeding.py.

    e_j = q·k_j  or  vᵀ tanh(k_j + q)       α = softmax(e + mask)       c = Σ_j α_j v_j

One program per row. The hidden layer tanh(k_j + q) is never stored: the backward pass computes it again, and the
gradients of the keys and of v are summed over all steps together, in `keys_gradient`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.column_sums import column_sums
from weft.fast.triton.lstm import tanh

TILE = 8192
"""Numbers of the keys or values that are read at a time: as many of each vector as fit."""


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    queries, keys, vector, values, mask, weights, contexts, length, key_width, value_width, query_stride,
    context_stride, is_additive: tl.constexpr, tile_s: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, tile_s)
    exists = s < length
    scores = tl.zeros((tile_s,), tl.float32)
    for first in range(0, key_width, chunk):
        d = first + tl.arange(0, chunk)
        inside = d < key_width
        q = tl.load(queries + row * query_stride + d, mask=inside, other=0.0)[None, :]
        both = exists[:, None] & inside[None, :]
        k = tl.load(keys + (row * length + s[:, None]) * key_width + d[None, :], mask=both, other=0.0)
        if is_additive:
            k = tanh(k + q)
            q = tl.load(vector + d, mask=inside, other=0.0)[None, :]
        scores += tl.sum(k * q, 1)
    scores += tl.load(mask + row * length + s, mask=exists, other=float("-inf"))
    powers = tl.exp(scores - tl.max(scores, 0))
    alpha = powers / tl.sum(powers, 0)
    tl.store(weights + row * length + s, alpha, mask=exists)
    for first in range(0, value_width, chunk):
        d = first + tl.arange(0, chunk)
        both = exists[:, None] & (d < value_width)[None, :]
        v = tl.load(values + (row * length + s[:, None]) * value_width + d[None, :], mask=both, other=0.0)
        tl.store(contexts + row * context_stride + d, tl.sum(alpha[:, None] * v, 0), mask=d < value_width)


@triton.jit
def _attend_backward(  # type: ignore[no-untyped-def]
    queries, keys, vector, values, weights, d_contexts, d_scores, d_queries, length, key_width, value_width,
    query_stride, context_stride, d_query_stride, is_additive: tl.constexpr, tile_s: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    """``d_x`` is the gradient of x. Those of queries are added to what is there, if the score is a dot product."""
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, tile_s)
    exists = s < length
    d_alpha = tl.zeros((tile_s,), tl.float32)
    for first in range(0, value_width, chunk):
        d = first + tl.arange(0, chunk)
        inside = d < value_width
        both = exists[:, None] & inside[None, :]
        v = tl.load(values + (row * length + s[:, None]) * value_width + d[None, :], mask=both, other=0.0)
        d_context = tl.load(d_contexts + row * context_stride + d, mask=inside, other=0.0)
        d_alpha += tl.sum(v * d_context[None, :], 1)
    alpha = tl.load(weights + row * length + s, mask=exists, other=0.0)
    de = alpha * (d_alpha - tl.sum(alpha * d_alpha, 0))
    tl.store(d_scores + row * length + s, de, mask=exists)
    for first in range(0, key_width, chunk):
        d = first + tl.arange(0, chunk)
        inside = d < key_width
        both = exists[:, None] & inside[None, :]
        k = tl.load(keys + (row * length + s[:, None]) * key_width + d[None, :], mask=both, other=0.0)
        target = d_queries + row * d_query_stride + d
        if is_additive:
            hidden = tanh(k + tl.load(queries + row * query_stride + d, mask=inside, other=0.0)[None, :])
            dq = tl.sum(de[:, None] * (1.0 - hidden * hidden), 0) * tl.load(vector + d, mask=inside, other=0.0)
        else:
            dq = tl.sum(de[:, None] * k, 0) + tl.load(target, mask=inside, other=0.0)
        tl.store(target, dq, mask=inside)


@triton.jit(do_not_specialize=["steps"])
def _keys_gradient(  # type: ignore[no-untyped-def]
    queries, keys, vector, d_scores, d_keys, d_vectors, rows, steps, length, width,
    tile_s: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    """Gradients of a row and chunk: Σ_t de_tj v ⊙ (1 − tanh²(k_j + q_t)), and Σ_tj de_tj tanh(k_j + q_t)."""
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, tile_s)
    d = tl.program_id(1) * chunk + tl.arange(0, chunk)
    inside = d < width
    both = (s < length)[:, None] & inside[None, :]
    index = (row * length + s[:, None]) * width + d[None, :]
    k = tl.load(keys + index, mask=both, other=0.0)
    d_key = tl.zeros((tile_s, chunk), tl.float32)
    d_vector = tl.zeros((tile_s, chunk), tl.float32)
    for step in range(0, steps):
        token = step * rows + row
        hidden = tanh(k + tl.load(queries + token * width + d, mask=inside, other=0.0)[None, :])
        de = tl.load(d_scores + token * length + s, mask=s < length, other=0.0)[:, None]
        d_key += de * (1.0 - hidden * hidden)
        d_vector += de * hidden
    d_key *= tl.load(vector + d, mask=inside, other=0.0)[None, :]
    tl.store(d_keys + index, d_key, mask=both)
    tl.store(d_vectors + row * width + d, tl.sum(d_vector, 0), mask=inside)


def _options(keys_BSA: Tensor, vector_A: Tensor | None) -> dict[str, int]:
    tile_s = max(triton.next_power_of_2(keys_BSA.shape[1]), 16)
    chunk = min(TILE // tile_s, 256)
    return {"is_additive": vector_A is not None, "tile_s": tile_s, "chunk": chunk, "num_warps": 8}


def attend(
    queries_BA: Tensor,
    keys_BSA: Tensor,
    vector_A: Tensor | None,
    values_BSC: Tensor,
    mask_BS: Tensor,
    weights_BS: Tensor,
    contexts_BC: Tensor,
) -> None:
    """The weights α and the contexts of one step, to ``weights_BS`` and ``contexts_BC``; ``vector_A``: v."""
    batch, length, width = keys_BSA.shape
    _attend[(batch,)](
        queries_BA, keys_BSA, keys_BSA if vector_A is None else vector_A, values_BSC, mask_BS, weights_BS, contexts_BC,
        length, width, values_BSC.shape[2], queries_BA.stride(0), contexts_BC.stride(0), **_options(keys_BSA, vector_A),
    )  # fmt: skip


def attend_backward(
    queries_BA: Tensor,
    keys_BSA: Tensor,
    vector_A: Tensor | None,
    values_BSC: Tensor,
    weights_BS: Tensor,
    d_contexts_BC: Tensor,
    d_scores_BS: Tensor,
    d_queries_BA: Tensor,
) -> None:
    """The gradients of the scores and of the queries; the latter are added, if the score is a dot product."""
    batch, length, width = keys_BSA.shape
    _attend_backward[(batch,)](
        queries_BA, keys_BSA, keys_BSA if vector_A is None else vector_A, values_BSC, weights_BS, d_contexts_BC,
        d_scores_BS, d_queries_BA, length, width, values_BSC.shape[2], queries_BA.stride(0), d_contexts_BC.stride(0),
        d_queries_BA.stride(0), **_options(keys_BSA, vector_A),
    )  # fmt: skip


def keys_gradient(
    queries_TBA: Tensor, keys_BSA: Tensor, vector_A: Tensor, d_scores_TBS: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the keys and of v, from those of the scores of all steps."""
    batch, length, width = keys_BSA.shape
    d_keys_BSA = torch.empty_like(keys_BSA)
    d_vectors_BA = keys_BSA.new_empty(batch, width)
    options = _options(keys_BSA, vector_A)
    del options["is_additive"]
    _keys_gradient[(batch, triton.cdiv(width, options["chunk"]))](
        queries_TBA, keys_BSA, vector_A, d_scores_TBS, d_keys_BSA, d_vectors_BA, batch, len(queries_TBA), length, width,
        **options,
    )  # fmt: skip
    return d_keys_BSA, column_sums(d_vectors_BA)
