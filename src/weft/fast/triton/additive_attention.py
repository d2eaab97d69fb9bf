"""Additive attention of few queries on CUDA: scores, softmax and context in one kernel, for the steps of a search.

    e_j = vᵀ tanh(k_j + q)    α = softmax(e + mask)    c = Σ_j α_j h_j

with keys k and queries q as the score has projected them. PyTorch's operations write tanh(k + q) of all queries to
memory, (B, T, S, A) numbers, and read it again. One program per query. Plain counterpart:
`weft.attention.attention.Attention.forward`; tests/fast/triton/test_additive_attention.py.
"""

import triton
import triton.language as tl
from torch import Tensor

MAX_LENGTH = 128
"""The longest source: its scores are in registers."""


@triton.jit
def _additive_attention(  # type: ignore[no-untyped-def]
    queries, keys, vector, values, mask, contexts, weights,
    key_row, key_position, value_row, value_position, mask_row, count, length, size, width,
    positions: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    query = tl.program_id(0)
    source = (query // count).to(tl.int64)
    s = tl.arange(0, positions)
    inside = s < length
    scores = tl.zeros([positions], tl.float32)
    for first in range(0, size, tile):
        a = first + tl.arange(0, tile)
        q = tl.load(queries + query * size + a, mask=a < size, other=0.0).to(tl.float32)
        v = tl.load(vector + a, mask=a < size, other=0.0).to(tl.float32)
        address = keys + source * key_row + s[:, None] * key_position + a[None, :]
        k = tl.load(address, mask=inside[:, None] & (a < size)[None, :], other=0.0).to(tl.float32)
        hidden = 1.0 - 2.0 / (tl.exp(2.0 * (k + q[None, :])) + 1.0)  # tanh
        scores += tl.sum(hidden * v[None, :], 1)
    masked = tl.load(mask + source * mask_row + s, mask=inside, other=float("-inf")).to(tl.float32)
    scores = tl.where(inside, scores + masked, float("-inf"))
    powers = tl.exp(scores - tl.max(scores, 0))
    alpha = powers / tl.sum(powers, 0)
    tl.store(weights + query * length + s, alpha.to(weights.dtype.element_ty), mask=inside)
    for first in range(0, width, tile):
        d = first + tl.arange(0, tile)
        address = values + source * value_row + s[:, None] * value_position + d[None, :]
        h = tl.load(address, mask=inside[:, None] & (d < width)[None, :], other=0.0).to(tl.float32)
        context = tl.sum(h * alpha[:, None], 0)
        tl.store(contexts + query * width + d, context.to(contexts.dtype.element_ty), mask=d < width)


def additive_attention(
    queries_BTA: Tensor, keys_BSA: Tensor, vector_A: Tensor, values_BSD: Tensor, mask_BS: Tensor
) -> tuple[Tensor, Tensor]:
    """The contexts (B, T, D) and the weights (B, T, S)."""
    rows, count, size = queries_BTA.shape
    length, width = values_BSD.shape[1:]
    assert length <= MAX_LENGTH and keys_BSA.shape == (rows, length, size)
    assert keys_BSA.stride(2) == values_BSD.stride(2) == mask_BS.stride(1) == 1
    contexts_BTD = values_BSD.new_empty(rows, count, width)
    weights_BTS = queries_BTA.new_empty(rows, count, length)
    positions = max(triton.next_power_of_2(length), 16)
    _additive_attention[(rows * count,)](
        queries_BTA.contiguous(), keys_BSA, vector_A.contiguous(), values_BSD, mask_BS, contexts_BTD, weights_BTS,
        keys_BSA.stride(0), keys_BSA.stride(1), values_BSD.stride(0), values_BSD.stride(1), mask_BS.stride(0),
        count, length, size, width, positions=positions, tile=4096 // positions, num_warps=4,
    )  # fmt: skip
    return contexts_BTD, weights_BTS
