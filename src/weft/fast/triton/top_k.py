"""The k most likely next tokens of every row on a GPU, in two kernels: log-probabilities, constraints, top-k.

Equals `weft.search.constraints.top_k_constrained` with no constraint or `NoLoops` alone, row by row; tested in
tests/fast/triton/test_top_k.py and tests/fast/recording/test_search.py.

The first kernel reads the logits once, several programs a row: the largest of every 64, and a part of Σ exp. The
second, one program a row, overwrites forbidden tokens (loops; an end token that comes too early), reads the k blocks
with the largest maxima, in which the k best tokens are, and takes those one after the other, of equals the one with the
smaller id. Nothing but those k is written. Imported only where there is a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.dependent_launch import launch_options, wait_for_inputs

BLOCK = 64
TILE = 4096
"""Logits of one program of the first kernel."""
FEW_ROWS = 64
"""Rows up to which the kernels take less time than their launches."""


@triton.jit
def _block_maxima(  # type: ignore[no-untyped-def]
    logits, maxima, tops, totals, vocabulary, stride, tile: tl.constexpr, block: tl.constexpr,
    all_blocks: tl.constexpr, overlaps: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(0), tl.program_id(1)
    wait_for_inputs(overlaps)
    at = part * tile + tl.arange(0, tile)
    x = tl.load(logits + row.to(tl.int64) * stride + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32)
    largest = tl.max(tl.reshape(x, [tile // block, block]), 1)
    index = part * (tile // block) + tl.arange(0, tile // block)
    tl.store(maxima + row * all_blocks + index, largest, mask=index < all_blocks)
    top = tl.maximum(tl.max(largest, 0), -1e30)
    tl.store(tops + row * tl.num_programs(1) + part, top)
    tl.store(totals + row * tl.num_programs(1) + part, tl.sum(tl.exp(x - top), 0))


@triton.jit
def _forbid(base, maxima_row, tokens, forbidden, vocabulary, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Set the logits of some tokens to −∞, and the maxima of their blocks to what is left."""
    tl.debug_barrier()
    tl.store(base + tokens, float("-inf"), mask=forbidden)
    tl.debug_barrier()
    blocks = tl.where(forbidden, tokens // block, 0)
    at = blocks[:, None] * block + tl.arange(0, block)[None, :]
    x = tl.load(base + at, mask=forbidden[:, None] & (at < vocabulary), other=float("-inf")).to(tl.float32)
    tl.store(maxima_row + blocks, tl.max(x, 1), mask=forbidden)


@triton.jit
def _pick(  # type: ignore[no-untyped-def]
    logits, history, min_lengths, length, maxima, tops, totals, values, tokens,
    vocabulary, stride, window, rows_per_sentence, end, k, parts,
    no_loops: tl.constexpr, has_min_lengths: tl.constexpr, longest: tl.constexpr, copies: tl.constexpr,
    shortest: tl.constexpr, periods: tl.constexpr, block: tl.constexpr, all_blocks: tl.constexpr,
    all_parts: tl.constexpr, picks: tl.constexpr, overlaps: tl.constexpr,
):  # fmt: skip
    """``periods``, ``all_parts``, ``picks``: powers of two, at least ``longest``, ``parts`` and ``k``."""
    row = tl.program_id(0)
    base = logits + row.to(tl.int64) * stride
    maxima_row = maxima + row * all_blocks
    wait_for_inputs(overlaps)
    part = tl.arange(0, all_parts)
    part_tops = tl.load(tops + row * parts + part, mask=part < parts, other=-1e30)
    part_totals = tl.load(totals + row * parts + part, mask=part < parts, other=0.0)
    top = tl.max(part_tops, 0)
    normalizer = top + tl.log(tl.sum(part_totals * tl.exp(part_tops - top), 0))

    if no_loops:
        period = 1 + tl.arange(0, periods)
        back = tl.arange(0, 64)
        column = window - 1 - back
        token = tl.load(history + row * window + column, mask=column >= 0, other=-1)
        compared = back[None, :] < (tl.maximum(copies * period, shortest) - period - 1)[:, None]
        earlier_column = column[None, :] - period[:, None]
        earlier = tl.load(history + row * window + earlier_column, mask=compared & (earlier_column >= 0), other=-2)
        same = ((token[None, :] == earlier) & (token >= 0)[None, :]) | ~compared
        known = (period <= longest) & (period <= window)
        repeated = tl.load(history + row * window + window - period, mask=known, other=-1)
        loops = (tl.min(same.to(tl.int32), 1) == 1) & known & (repeated >= 0)
        _forbid(base, maxima_row, repeated, loops, vocabulary, block)
    if has_min_lengths:
        early = tl.load(length) < tl.load(min_lengths + row // rows_per_sentence)
        ends = end + tl.arange(0, 1)
        _forbid(base, maxima_row, ends, early & (ends >= 0), vocabulary, block)
    tl.debug_barrier()

    blocks = tl.arange(0, all_blocks)
    best = tl.load(maxima_row + blocks, mask=blocks * block < vocabulary, other=float("-inf"))
    pick = tl.arange(0, picks)
    chosen = tl.full([picks], all_blocks, tl.int32)
    for number in range(0, k):
        index = tl.argmax(best, 0)
        existing = tl.where(tl.max(best, 0) > float("-inf"), index, all_blocks)
        chosen = tl.where(pick == number, existing, chosen)
        best = tl.where(blocks == index, float("-inf"), best)
    at = chosen[:, None] * block + tl.arange(0, block)[None, :]
    x = tl.load(base + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32)
    for number in range(0, k):
        value = tl.max(tl.max(x, 1), 0)
        index = tl.min(tl.min(tl.where(x == value, at, 2147483647), 1), 0)
        x = tl.where(at == index, float("-inf"), x)
        tl.store(values + row * k + number, value - normalizer)
        tl.store(tokens + row * k + number, tl.minimum(index, vocabulary - 1).to(tl.int64))


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

    ``history_RW``: where given, loops are forbidden (`weft.search.repetition.LoopLimits`: longest, copies, tokens);
    ``min_lengths_B``: where given, the end token is forbidden until ``length_1`` has reached it.
    """
    rows, vocabulary = logits_RV.shape
    assert logits_RV.stride(1) == 1 and k <= vocabulary
    longest, copies, shortest = loop_limits
    assert max(copies * longest, shortest) <= 64 + longest
    tile = min(TILE, max(BLOCK, triton.next_power_of_2(vocabulary)))
    parts, all_blocks = triton.cdiv(vocabulary, tile), triton.next_power_of_2(triton.cdiv(vocabulary, BLOCK))
    device = logits_RV.device
    values_RK = torch.empty((rows, k), dtype=torch.float32, device=device)
    tokens_RK = torch.empty((rows, k), dtype=torch.int64, device=device)
    maxima = torch.empty((rows, all_blocks), dtype=torch.float32, device=device)
    tops, totals = torch.empty((2, rows, parts), dtype=torch.float32, device=device).unbind(0)
    options = launch_options(device) if rows <= FEW_ROWS else {"overlaps": False}
    _block_maxima[(rows, parts)](
        logits_RV, maxima, tops, totals, vocabulary, logits_RV.stride(0),
        tile=tile, block=BLOCK, all_blocks=all_blocks, num_warps=4, **options,
    )  # fmt: skip
    _pick[(rows,)](
        logits_RV,
        tokens_RK if history_RW is None else history_RW,
        tokens_RK if min_lengths_B is None else min_lengths_B,
        tokens_RK if length_1 is None else length_1,
        maxima,
        tops,
        totals,
        values_RK,
        tokens_RK,
        vocabulary,
        logits_RV.stride(0),
        0 if history_RW is None else history_RW.shape[1],
        1 if min_lengths_B is None else rows // len(min_lengths_B),
        end,
        k,
        parts,
        no_loops=history_RW is not None,
        has_min_lengths=min_lengths_B is not None,
        longest=longest,
        copies=copies,
        shortest=shortest,
        periods=triton.next_power_of_2(longest),
        block=BLOCK,
        all_blocks=all_blocks,
        all_parts=triton.next_power_of_2(parts),
        picks=triton.next_power_of_2(k),
        num_warps=1 if all_blocks <= 1024 and k <= 16 else 4,
        **options,
    )
    return values_RK, tokens_RK
