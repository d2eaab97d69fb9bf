"""The k most likely next tokens of every row on a GPU, in one kernel: log-probabilities, constraints, top-k.

Equals `weft.search.top_k.top_k_constrained` with no constraint or `NoLoops` alone, row by row; held to it by
tests/kernels/triton/test_top_k.py and tests/search/test_cuda_graphs.py.

One program a row. It reads the logits once for log Σ exp, overwrites forbidden tokens (loops; an end token that comes
too early), reads them again for the largest of every 64, and takes the k best one after the other, of equals the one
with the smaller id. Nothing but those k is written. Imported only where there is a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64


@triton.jit
def _top_k(  # type: ignore[no-untyped-def]
    logits,
    history,
    min_lengths,
    length,
    maxima,
    values,
    tokens,
    vocabulary,
    stride,
    window,
    rows_per_sentence,
    end,
    k,
    no_loops: tl.constexpr,
    has_min_lengths: tl.constexpr,
    longest: tl.constexpr,
    copies: tl.constexpr,
    shortest: tl.constexpr,
    tile: tl.constexpr,
    block: tl.constexpr,
    all_blocks: tl.constexpr,
):
    row = tl.program_id(0)
    base = logits + row.to(tl.int64) * stride
    top = -1e30
    total = 0.0
    for first in range(0, vocabulary, tile):
        at = first + tl.arange(0, tile)
        x = tl.load(base + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), 0)
        top = higher
    normalizer = top + tl.log(total)

    if no_loops:
        back = tl.arange(0, 64)
        for period in tl.static_range(1, longest + 1):
            count = max(copies * period, shortest) - period - 1
            column = window - 1 - back
            token = tl.load(history + row * window + column, mask=(back < count) & (column >= 0), other=-1)
            known = (back < count) & (column >= period)
            earlier = tl.load(history + row * window + column - period, mask=known, other=-2)
            same = ((token == earlier) & (token >= 0)) | (back >= count)
            loops = tl.min(same.to(tl.int32), 0) == 1
            repeated = tl.load(history + row * window + window - period, mask=window >= period, other=-1)
            tl.store(base + repeated, float("-inf"), mask=loops & (repeated >= 0))
    if has_min_lengths:
        early = tl.load(length) < tl.load(min_lengths + row // rows_per_sentence)
        tl.store(base + end, float("-inf"), mask=early)
    tl.debug_barrier()

    for first in range(0, vocabulary, tile):
        at = first + tl.arange(0, tile)
        x = tl.load(base + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32)
        largest = tl.max(tl.reshape(x, [tile // block, block]), 1)
        index = first // block + tl.arange(0, tile // block)
        tl.store(maxima + row * all_blocks + index, largest, mask=index < all_blocks)
    tl.debug_barrier()

    blocks = tl.arange(0, all_blocks)
    exists = blocks * block < vocabulary
    best = tl.load(maxima + row * all_blocks + blocks, mask=exists, other=float("-inf"))
    last_value = float("inf")
    last_token = -1
    for pick in range(0, k):
        chosen = tl.argmax(best, 0)
        at = chosen * block + tl.arange(0, block)
        x = tl.load(base + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32)
        x = tl.where((x < last_value) | ((x == last_value) & (at > last_token)), x, float("-inf"))
        last_value = tl.max(x, 0)
        last_token = tl.min(tl.where(x == last_value, at, 2147483647), 0)
        tl.store(values + row * k + pick, last_value - normalizer)
        tl.store(tokens + row * k + pick, last_token.to(tl.int64))
        rest = tl.where((x < last_value) | ((x == last_value) & (at > last_token)), x, float("-inf"))
        best = tl.where(blocks == chosen, tl.max(rest, 0), best)


def top_k_tokens(
    logits_RV: Tensor,
    k: int,
    *,
    end: int,
    history_RW: Tensor | None = None,
    loop_limits: tuple[int, int, int] = (16, 3, 10),
    min_lengths_B: Tensor | None = None,
    length_1: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """log p and ids of the ``k`` best of every row. Logits of forbidden tokens are overwritten by −∞.

    ``history_RW``: where given, loops are forbidden (`weft.search.loops.LoopLimits`: longest, copies, tokens);
    ``min_lengths_B``: where given, the end token is forbidden until ``length_1`` has reached it.
    """
    rows, vocabulary = logits_RV.shape
    assert logits_RV.stride(1) == 1 and k <= vocabulary
    longest, copies, shortest = loop_limits
    assert max(copies * longest, shortest) <= 64 + longest
    all_blocks = triton.next_power_of_2(triton.cdiv(vocabulary, BLOCK))
    device = logits_RV.device
    values_RK = torch.empty((rows, k), dtype=torch.float32, device=device)
    tokens_RK = torch.empty((rows, k), dtype=torch.int64, device=device)
    maxima = torch.empty((rows, all_blocks), dtype=torch.float32, device=device)
    _top_k[(rows,)](
        logits_RV,
        tokens_RK if history_RW is None else history_RW,
        tokens_RK if min_lengths_B is None else min_lengths_B,
        tokens_RK if length_1 is None else length_1,
        maxima,
        values_RK,
        tokens_RK,
        vocabulary,
        logits_RV.stride(0),
        0 if history_RW is None else history_RW.shape[1],
        1 if min_lengths_B is None else rows // len(min_lengths_B),
        end,
        k,
        no_loops=history_RW is not None,
        has_min_lengths=min_lengths_B is not None,
        longest=longest,
        copies=copies,
        shortest=shortest,
        tile=min(4096, max(BLOCK, triton.next_power_of_2(vocabulary))),
        block=BLOCK,
        all_blocks=all_blocks,
        num_warps=8,
    )
    return values_RK, tokens_RK
