"""A step of greedy search after the best token of every row is known, in one kernel.

Plain counterpart: `weft.search.sampling.PathStep` after `top_k_constrained`, for one hypothesis per sentence. Tested
in tests/fast/recording/test_search.py. One program per sentence. The record of a step is packed in one array (B, 3)
of 32 bits: the token, the bits of its log p, and whether it belongs to the hypothesis.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.dependent_launch import launch_options, wait_for_inputs


@triton.jit
def _path_update(  # type: ignore[no-untyped-def]
    log_probs, tokens, active, max_lengths, length, history, record, new_active, new_done, new_length, new_history,
    end, window, window_tile: tl.constexpr, overlaps: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    wait_for_inputs(overlaps)
    token = tl.load(tokens + row)
    log_prob = tl.load(log_probs + row)
    longer = tl.load(length) + 1
    goes_on = tl.load(active + row).to(tl.int1) & (log_prob > float("-inf"))
    is_active = goes_on & (token != end) & (tl.load(max_lengths + row) > longer)
    tl.store(record + row * 3, token.to(tl.int32))
    tl.store(record + row * 3 + 1, log_prob.to(tl.int32, bitcast=True))
    tl.store(record + row * 3 + 2, goes_on.to(tl.int32))
    tl.store(new_length, longer, mask=row == 0)
    tl.store(new_active + row, is_active)
    tl.store(new_done + row, ~is_active)
    if window_tile > 1:
        back = tl.arange(0, window_tile)
        old = tl.load(history + row * window + back + 1, mask=back + 1 < window, other=0)
        tl.store(new_history + row * window + back, tl.where(back + 1 < window, old, token), mask=back < window)


class PathUpdate(NamedTuple):
    """The state of the sentences after a step."""

    record_B3: Tensor
    """Token, log p, and whether the hypothesis had not ended before the step, and a token could follow."""
    active_B1: Tensor
    done_B: Tensor
    length_1: Tensor
    history_RW: Tensor | None


def path_update(
    log_probs_R: Tensor,
    tokens_R: Tensor,
    *,
    active_B1: Tensor,
    max_lengths_B: Tensor,
    length_1: Tensor,
    history_RW: Tensor | None,
    end: int,
) -> PathUpdate:
    """``log_probs_R``, ``tokens_R``: the best token of every sentence; the rest is the state before the step."""
    rows = len(tokens_R)
    assert active_B1.shape == (rows, 1) and log_probs_R.is_contiguous() and tokens_R.is_contiguous()
    window = 0 if history_RW is None else history_RW.shape[1]
    update = PathUpdate(
        torch.empty((rows, 3), dtype=torch.int32, device=tokens_R.device),
        torch.empty_like(active_B1),
        active_B1.new_empty(rows),
        torch.empty_like(length_1),
        None if history_RW is None else torch.empty_like(history_RW),
    )
    unused = tokens_R
    _path_update[(rows,)](
        log_probs_R, tokens_R, active_B1, max_lengths_B, length_1, unused if history_RW is None else history_RW,
        update.record_B3, update.active_B1, update.done_B, update.length_1,
        unused if update.history_RW is None else update.history_RW,
        end, window, window_tile=triton.next_power_of_2(max(window, 1)), num_warps=1,
        **launch_options(tokens_R.device),
    )  # fmt: skip
    return update
