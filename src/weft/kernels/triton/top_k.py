"""The likeliest next tokens of every row on a GPU, in one kernel: log-probabilities, what is forbidden, the n best.

One program a row. It reads the logits once for log Σ exp, crosses out what may not be said (loops; an end that comes
too early), reads them again for the largest of every 64, and takes the n best one after the other, of equals the one
with the smaller id. Nothing but those n is written. Loaded only where there is a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64


@triton.jit
def _best(  # type: ignore[no-untyped-def]
    logits,
    said,
    least,
    time,
    maxima,
    values,
    tokens,
    vocabulary,
    stride,
    window,
    share,
    end,
    n,
    has_loops: tl.constexpr,
    has_least: tl.constexpr,
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

    if has_loops:
        back = tl.arange(0, 64)
        for period in tl.static_range(1, longest + 1):
            count = max(copies * period, shortest) - period - 1
            column = window - 1 - back
            mine = tl.load(said + row * window + column, mask=(back < count) & (column >= 0), other=-1)
            theirs = tl.load(said + row * window + column - period, mask=(back < count) & (column >= period), other=-2)
            same = ((mine == theirs) & (mine >= 0)) | (back >= count)
            loops = tl.min(same.to(tl.int32), 0) == 1
            again = tl.load(said + row * window + window - period, mask=window >= period, other=-1)
            tl.store(base + again, float("-inf"), mask=loops & (again >= 0))
    if has_least:
        early = tl.load(time) < tl.load(least + row // share)
        tl.store(base + end, float("-inf"), mask=early)
    tl.debug_barrier()

    for first in range(0, vocabulary, tile):
        at = first + tl.arange(0, tile)
        x = tl.load(base + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32)
        largest = tl.max(tl.reshape(x, [tile // block, block]), 1)
        place = first // block + tl.arange(0, tile // block)
        tl.store(maxima + row * all_blocks + place, largest, mask=place < all_blocks)
    tl.debug_barrier()

    blocks = tl.arange(0, all_blocks)
    there = blocks * block < vocabulary
    best = tl.load(maxima + row * all_blocks + blocks, mask=there, other=float("-inf"))
    last_value = float("inf")
    last_token = -1
    for pick in range(0, n):
        chosen = tl.argmax(best, 0)
        at = chosen * block + tl.arange(0, block)
        x = tl.load(base + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32)
        x = tl.where((x < last_value) | ((x == last_value) & (at > last_token)), x, float("-inf"))
        last_value = tl.max(x, 0)
        last_token = tl.min(tl.where(x == last_value, at, 2147483647), 0)
        tl.store(values + row * n + pick, last_value - normalizer)
        tl.store(tokens + row * n + pick, last_token.to(tl.int64))
        rest = tl.where((x < last_value) | ((x == last_value) & (at > last_token)), x, float("-inf"))
        best = tl.where(blocks == chosen, tl.max(rest, 0), best)


def top_tokens(
    logits_RV: Tensor,
    n: int,
    *,
    end: int,
    said_RW: Tensor | None = None,
    loops: tuple[int, int, int] = (16, 3, 10),
    least_B: Tensor | None = None,
    time_1: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """log p and ids of the ``n`` best of every row. Logits of what is forbidden are overwritten by −∞.

    ``said_RW``: where given, phrases are not said over and over, ``loops`` being the settings of `NoLoops`;
    ``least_B``: where given, the end mark is forbidden until ``time_1`` has reached it.
    """
    rows, vocabulary = logits_RV.shape
    assert logits_RV.stride(1) == 1 and n <= vocabulary
    longest, copies, shortest = loops
    assert max(copies * longest, shortest) <= 64 + longest
    all_blocks = triton.next_power_of_2(triton.cdiv(vocabulary, BLOCK))
    device = logits_RV.device
    values_RN = torch.empty((rows, n), dtype=torch.float32, device=device)
    tokens_RN = torch.empty((rows, n), dtype=torch.int64, device=device)
    maxima = torch.empty((rows, all_blocks), dtype=torch.float32, device=device)
    _best[(rows,)](
        logits_RV,
        tokens_RN if said_RW is None else said_RW,
        tokens_RN if least_B is None else least_B,
        tokens_RN if time_1 is None else time_1,
        maxima,
        values_RN,
        tokens_RN,
        vocabulary,
        logits_RV.stride(0),
        0 if said_RW is None else said_RW.shape[1],
        1 if least_B is None else rows // len(least_B),
        end,
        n,
        has_loops=said_RW is not None,
        has_least=least_B is not None,
        longest=longest,
        copies=copies,
        shortest=shortest,
        tile=min(4096, max(BLOCK, triton.next_power_of_2(vocabulary))),
        block=BLOCK,
        all_blocks=all_blocks,
        num_warps=8,
    )
    return values_RN, tokens_RN
