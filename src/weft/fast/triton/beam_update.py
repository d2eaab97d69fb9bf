"""A step of beam search after the best tokens of every row are known, in one kernel; and its backtrace.

`beam_update`: the 2k best extensions of each sentence, which of them end and which stay, the limits, and the new
history of tokens. Plain counterpart: `weft.search.beam.BeamStep` after `top_k_constrained`, for one group, one output
and scores that are log p. `best_path`: the best hypothesis of each sentence. Plain counterpart:
`weft.search.beam.backtrace`. Tested in tests/fast/triton/test_beam_update.py and tests/fast/recording/test_search.py.

The record of a step is packed in two arrays, so that it is copied by two kernels and not by ten:

    ints    (B, 4k + 2)    parents, tokens, ends, end parents; whether the sentence stopped at this step; 0
    floats  (B, 4k + 1)    log p, ranking, log p of the endings, their ranking; the first score after the k best

One program per sentence. Ties are broken by the smaller index.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.dependent_launch import launch_options, wait_for_inputs

STOPS = {"finished": 0, "outranked": 1, "outranked_by_all": 1, "provable": 2, "steps": 3}
NORMALIZATIONS = {"power": 0, "gnmt": 1, "none": 2}


@triton.jit
def _penalty(length, alpha, normalization: tl.constexpr):  # type: ignore[no-untyped-def]
    value = tl.maximum(length.to(tl.float32), 1.0)
    if normalization == 1:
        value = (5.0 + length.to(tl.float32)) / 6.0
    powered = tl.exp(alpha * tl.log(value))
    powered = tl.where(alpha == 1.0, value, powered)
    if normalization == 2:
        powered = tl.where(value > 0, 1.0, 1.0)
    return powered


@triton.jit
def _beam_update(  # type: ignore[no-untyped-def]
    log_probs, tokens, scores, done, finished, best, max_lengths, length, history,
    new_scores, new_done, new_finished, new_best, new_tokens, new_parents, new_length, new_history, ints, floats,
    end, needed, window, alpha,
    size: tl.constexpr, tile: tl.constexpr, window_tile: tl.constexpr, stop: tl.constexpr, normalization: tl.constexpr,
    overlaps: tl.constexpr,
):  # fmt: skip
    sentence = tl.program_id(0)
    wait_for_inputs(overlaps)
    count: tl.constexpr = 2 * size
    candidate = tl.arange(0, tile)
    exists = candidate < size * count
    first_row = sentence * size
    parent = candidate // count
    total = tl.load(scores + first_row + parent, mask=exists, other=float("-inf"))
    total += tl.load(log_probs + first_row * count + candidate, mask=exists, other=float("-inf"))
    total = tl.where(exists, total, float("-inf"))
    token = tl.load(tokens + first_row * count + candidate, mask=exists, other=0)
    is_done = tl.load(done + sentence).to(tl.int1)
    steps = tl.load(length) + 1
    penalty = _penalty(steps, alpha, normalization)
    int_row = ints + sentence * (4 * size + 2)
    float_row = floats + sentence * (4 * size + 1)
    taken = ~exists
    slot = 0
    endings = tl.load(finished + sentence)
    best_ending = tl.load(best + sentence)
    highest = float("-inf")
    back = tl.arange(0, window_tile)
    for pick in tl.static_range(0, count):
        value = tl.max(tl.where(taken, float("-inf"), total), 0)
        index = tl.min(tl.where((total == value) & ~taken, candidate, tile), 0)
        taken = taken | (candidate == index)
        chosen = tl.sum(tl.where(candidate == index, token, 0), 0)
        from_slot = index // count
        ends = chosen == end
        if pick < size:
            is_ending = ends & (value > float("-inf")) & ~is_done
            ranking = tl.where(is_ending, value / penalty, float("-inf"))
            tl.store(int_row + 2 * size + pick, is_ending.to(tl.int32))
            tl.store(int_row + 3 * size + pick, from_slot)
            tl.store(float_row + 2 * size + pick, value)
            tl.store(float_row + 3 * size + pick, ranking)
            endings += is_ending.to(tl.int64)
            best_ending = tl.maximum(best_ending, ranking)
        if pick == size:
            tl.store(float_row + 4 * size, value)
        stays = ~ends & (slot < size)
        row = first_row + slot
        tl.store(int_row + slot, from_slot, mask=stays)
        tl.store(int_row + size + slot, chosen.to(tl.int32), mask=stays)
        tl.store(float_row + slot, value, mask=stays)
        tl.store(float_row + size + slot, value / penalty, mask=stays)
        tl.store(new_scores + row, value, mask=stays)
        tl.store(new_tokens + row, chosen, mask=stays)
        tl.store(new_parents + row, (first_row + from_slot).to(tl.int64), mask=stays)
        if window_tile > 1:
            old = tl.load(
                history + (first_row + from_slot) * window + back + 1, mask=stays & (back + 1 < window), other=0
            )
            moved = tl.where(back + 1 < window, old, chosen)
            tl.store(new_history + row * window + back, moved, mask=stays & (back < window))
        highest = tl.where(stays, tl.maximum(highest, value), highest)
        slot += stays.to(tl.int32)
    longest = tl.load(max_lengths + sentence)
    stopped = (longest <= steps) | (highest == float("-inf"))
    if stop == 0:
        stopped = stopped | (endings >= needed)
    if stop == 1:
        stopped = stopped | ((endings >= needed) & (highest / penalty <= best_ending))
    if stop == 2:
        stopped = stopped | (highest / _penalty(longest, alpha, normalization) <= best_ending)
    tl.store(new_finished + sentence, endings)
    tl.store(new_best + sentence, best_ending)
    tl.store(new_done + sentence, is_done | stopped)
    tl.store(int_row + 4 * size, (stopped & ~is_done).to(tl.int32))
    tl.store(int_row + 4 * size + 1, 0)
    tl.store(new_length, steps, mask=sentence == 0)


class BeamUpdate(NamedTuple):
    """The state of a beam after a step, and what the step recorded."""

    scores_BK: Tensor
    done_B: Tensor
    finished_BG: Tensor
    best_BN: Tensor
    tokens_R: Tensor
    parents_R: Tensor
    length_1: Tensor
    history_RW: Tensor | None
    ints_BX: Tensor
    floats_BX: Tensor


class BeamPolicy(NamedTuple):
    """The options of a beam that a step depends on."""

    end: int
    needed: int
    """Finished hypotheses at which a sentence is done."""
    stop: str
    normalization: str
    alpha: float


def beam_update(
    log_probs_RC: Tensor,
    tokens_RC: Tensor,
    *,
    scores_BK: Tensor,
    done_B: Tensor,
    finished_BG: Tensor,
    best_BN: Tensor,
    max_lengths_B: Tensor,
    length_1: Tensor,
    history_RW: Tensor | None,
    policy: BeamPolicy,
) -> BeamUpdate:
    """``log_probs_RC``, ``tokens_RC``: the 2k best tokens of every row; the rest is the state before the step."""
    sentences, size = scores_BK.shape
    assert log_probs_RC.shape == (sentences * size, 2 * size) and best_BN.shape[1] == finished_BG.shape[1] == 1
    window = 0 if history_RW is None else history_RW.shape[1]
    new_history = None if history_RW is None else torch.empty_like(history_RW)
    update = BeamUpdate(
        torch.empty_like(scores_BK), torch.empty_like(done_B), torch.empty_like(finished_BG),
        torch.empty_like(best_BN), tokens_RC.new_empty(sentences * size), tokens_RC.new_empty(sentences * size),
        torch.empty_like(length_1), new_history,
        torch.empty((sentences, 4 * size + 2), dtype=torch.int32, device=scores_BK.device),
        scores_BK.new_empty((sentences, 4 * size + 1)),
    )  # fmt: skip
    unused = tokens_RC
    _beam_update[(sentences,)](
        log_probs_RC, tokens_RC, scores_BK, done_B, finished_BG, best_BN, max_lengths_B, length_1,
        unused if history_RW is None else history_RW,
        update.scores_BK, update.done_B, update.finished_BG, update.best_BN, update.tokens_R, update.parents_R,
        update.length_1, unused if new_history is None else new_history, update.ints_BX, update.floats_BX,
        policy.end, policy.needed, window, policy.alpha,
        size=size, tile=triton.next_power_of_2(2 * size * size), window_tile=triton.next_power_of_2(max(window, 1)),
        stop=STOPS[policy.stop], normalization=NORMALIZATIONS[policy.normalization], num_warps=1,
        **launch_options(scores_BK.device),
    )  # fmt: skip
    return update


@triton.jit
def _best_path(  # type: ignore[no-untyped-def]
    ints, floats, max_lengths, steps, sentences, path, path_floats, size: tl.constexpr, tile: tl.constexpr
):  # fmt: skip
    """``path``, ``path_floats``: the same array, as integers and as floats."""
    sentence = tl.program_id(0)
    facts = path + sentence * (8 + 2 * steps)
    scores = path_floats + sentence * (8 + 2 * steps) + 4
    path_tokens = facts + 8
    path_totals = scores + 4 + steps
    int_width: tl.constexpr = 4 * size + 2
    float_width: tl.constexpr = 4 * size + 1
    k = tl.arange(0, tile)
    valid = k < size
    best = float("-inf")
    following = float("-inf")
    discarded = float("-inf")
    best_time = -1
    best_pick = 0
    stop = 0
    running = True
    for time in range(0, steps):
        int_row = ints + (time * sentences + sentence) * int_width
        float_row = floats + (time * sentences + sentence) * float_width
        ranking = tl.load(float_row + 3 * size + k, mask=valid & running, other=float("-inf"))
        highest = tl.max(ranking, 0)
        pick = tl.min(tl.where(ranking == highest, k, tile), 0)
        second = tl.max(tl.where(k == pick, float("-inf"), ranking), 0)
        better = highest > best
        following = tl.maximum(following, tl.maximum(second, tl.where(better, best, highest)))
        best_time = tl.where(better, time, best_time)
        best_pick = tl.where(better, pick, best_pick)
        best = tl.maximum(best, highest)
        rest = tl.load(float_row + 4 * size, mask=running, other=float("-inf"))
        discarded = tl.maximum(discarded, rest)
        stopped = (tl.load(int_row + 4 * size, mask=running, other=0) > 0) & running
        stop = tl.where(stopped, time, stop)
        running = running & ~stopped
    last_row = floats + (stop * sentences + sentence) * float_width
    unfinished = tl.max(tl.load(last_row + size + k, mask=valid, other=float("-inf")), 0)
    is_stuck = unfinished == float("-inf")
    last = tl.where(is_stuck, stop - 1, stop)
    is_finished = best_time >= 0
    is_cut_off = (last >= 0) & (is_stuck | (last + 1 >= tl.load(max_lengths + sentence)))
    cut_row = floats + (tl.maximum(last, 0) * sentences + sentence) * float_width
    cut_ranking = tl.load(cut_row + size + k, mask=valid & is_cut_off, other=float("-inf"))
    cut_best = tl.max(cut_ranking, 0)
    cut_slot = tl.min(tl.where(cut_ranking == cut_best, k, tile), 0)
    time_of_end = tl.where(is_finished, best_time, last)
    ending_row = ints + (tl.maximum(best_time, 0) * sentences + sentence) * int_width
    end_slot = tl.load(ending_row + 3 * size + best_pick)
    slot = tl.where(is_finished, end_slot, cut_slot)
    score = tl.where(is_finished, best, cut_best)
    exists = score > float("-inf")
    tl.store(facts, exists.to(tl.int32))
    tl.store(facts + 1, (is_finished & exists).to(tl.int32))
    tl.store(facts + 2, tl.where(exists, time_of_end + 1, 0))
    tl.store(facts + 3, stop * 2 + is_stuck.to(tl.int32))
    tl.store(scores, score)
    tl.store(scores + 1, following)
    tl.store(scores + 2, discarded)
    tl.store(scores + 3, unfinished)
    end_floats = floats + (tl.maximum(best_time, 0) * sentences + sentence) * float_width
    end_total = tl.load(end_floats + 2 * size + best_pick)
    for back in range(0, steps):
        time = steps - 1 - back
        on_path = exists & ((time < time_of_end) | ((time == time_of_end) & ~is_finished))
        is_end = exists & is_finished & (time == time_of_end)
        int_row = ints + (time * sentences + sentence) * int_width
        float_row = floats + (time * sentences + sentence) * float_width
        token = tl.load(int_row + size + slot, mask=on_path, other=0)
        total = tl.load(float_row + slot, mask=on_path, other=0.0)
        tl.store(path_tokens + time, token)
        tl.store(path_totals + time, tl.where(is_end, end_total, total))
        slot = tl.where(on_path, tl.load(int_row + slot, mask=on_path, other=0), slot)


def best_path(ints_TBX: Tensor, floats_TBX: Tensor, max_lengths_B: Tensor) -> Tensor:
    """The best hypothesis of each sentence from the records of all T steps: (B, 8 + 2 T), integers and floats in one
    array, so that it is copied in one piece.

    4 integers    whether there is one, whether it ended by itself, its length, and twice the step at which its sentence
                  stopped, plus 1 where nothing could follow
    4 floats      its score, that of the next finished one, the largest that was discarded, the best that was still in
                  the beam
    T integers    its tokens
    T floats      log p up to each token
    """
    steps, sentences, width = ints_TBX.shape
    size = (width - 2) // 4
    path = ints_TBX.new_empty(sentences, 8 + 2 * steps)
    _best_path[(sentences,)](
        ints_TBX, floats_TBX, max_lengths_B, steps, sentences, path, path.view(torch.float32),
        size=size, tile=triton.next_power_of_2(max(size, 2)), num_warps=1,
    )  # fmt: skip
    return path
