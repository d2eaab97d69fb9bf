"""Steps of beam and greedy search on a GPU, most of each in one kernel; and the backtrace of such a beam.

Used where nothing but the best output of each sentence is wanted, without attention or a trace, and no constraint but
`NoLoops` and minimum lengths hold. The plain steps (`weft.search.beam`, `weft.search.sampling`) do the same;
tests/search/test_cuda_graphs.py compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from weft.search.backtrace import PackedBeamRecord
from weft.search.constraints import LogitsConstraint, NoLoops
from weft.search.gaps import beam_bounds, gaps, penalties
from weft.search.interface import (
    BY_CONSTRAINTS,
    BY_END,
    BY_LENGTH,
    FORBIDDEN,
    HypothesisArrays,
    PendingHypotheses,
    SearchRequest,
)
from weft.search.loop import StepRecords
from weft.search.ranking import Ranking
from weft.search.repetition import LoopLimits
from weft.search.state import SearchState
from weft.search.transfers import HostCopies, to_device
from weft.tree import select

if TYPE_CHECKING:
    from weft.search.beam import BeamOptions, BeamState

MAX_BEAM = 10
"""The largest beam whose steps are fused."""


def allows_fusion(logits_RV: Tensor, state: SearchState, constraints: Sequence[LogitsConstraint], k: int) -> bool:
    """Whether the best ``k`` tokens of every row can be found, and used, by kernels."""
    simple = not constraints or (len(constraints) == 1 and isinstance(constraints[0], NoLoops))
    return logits_RV.is_cuda and simple and state.limits.prefixes_BP is None and k <= logits_RV.shape[1]


def best_tokens(
    logits_RV: Tensor, k: int, state: SearchState, constraints: Sequence[LogitsConstraint], end: int
) -> tuple[Tensor, Tensor]:
    """log p and ids (R, k) of the best tokens of every row that are allowed. The logits are overwritten."""
    from weft.kernels.triton.top_k import top_k_tokens

    loop_limits = constraints[0].limits if constraints and isinstance(constraints[0], NoLoops) else None
    return top_k_tokens(
        logits_RV,
        k,
        end=end,
        history_RW=None if loop_limits is None else state.history_RW,
        loop_limits=loop_limits or LoopLimits(),
        min_lengths_B=state.limits.min_lengths_B,
        length_1=state.length_1,
    )


def fused_beam_step(
    state: SearchState, best: tuple[Tensor, Tensor], model_state: object, options: BeamOptions, end: int
) -> tuple[SearchState, PackedBeamRecord]:
    """The rest of a step of beam search for one output. ``best``: `best_tokens` of every row, 2k of them."""
    from weft.kernels.triton.beam_update import BeamPolicy, beam_update

    beam: BeamState = state.extra
    ranking = options.ranking
    policy = BeamPolicy(end, options.finished_needed(1), options.stop, ranking.normalization, ranking.alpha)
    update = beam_update(
        *best,
        scores_BK=beam.scores_BK,
        done_B=state.done_B,
        finished_BG=beam.finished_BG,
        best_BN=beam.best_BN,
        max_lengths_B=state.limits.max_lengths_B,
        length_1=state.length_1,
        history_RW=state.history_RW,
        policy=policy,
    )
    after = state._replace(
        tokens_R=update.tokens_R,
        model_state=select(model_state, update.parents_R),
        history_RW=update.history_RW,
        done_B=update.done_B,
        length_1=update.length_1,
    )
    extra = beam._replace(
        totals_BK=update.scores_BK,
        scores_BK=update.scores_BK,
        finished_BG=update.finished_BG,
        best_BN=update.best_BN,
    )
    return after._replace(extra=extra), PackedBeamRecord(update.ints_BX, update.floats_BX)


def packed_backtrace(steps: Sequence[StepRecords], request: SearchRequest, ranking: Ranking) -> PendingHypotheses:
    """The best hypothesis of every sentence, found on the device and copied at once."""
    from weft.kernels.triton.beam_update import best_path

    sentences, max_lengths = len(request.max_lengths), request.max_lengths
    copies = HostCopies(best_path(*_join(steps, sentences), to_device(max_lengths, request.device)))
    return PendingHypotheses(sentences, lambda: _unpacked(copies.arrays()[0], max_lengths, ranking))


def _unpacked(packed: np.ndarray, max_lengths: Sequence[int], ranking: Ranking) -> HypothesisArrays:
    """``packed``: what `best_path` gives."""
    sentences, length = len(packed), packed.shape[1] // 2 - 4
    facts, scores, tokens_BT, totals = np.split(packed, [4, 8, 8 + length], 1)
    scores, totals = (np.ascontiguousarray(part).view(np.float32).astype(np.float64) for part in (scores, totals))
    exists, finished, lengths = facts[:, 0] > 0, facts[:, 1] > 0, facts[:, 2]
    stops, stuck = facts[:, 3] // 2, facts[:, 3] % 2 > 0
    score = np.where(exists, scores[:, 0], 0.0)

    def find_gaps() -> np.ndarray:
        unfinished = scores[:, 3] * penalties(ranking, stops + 1)
        bounds = beam_bounds(scores[None, :, 2], unfinished, stops, max_lengths, ranking)
        bounds = np.maximum(bounds, scores[:, 1])
        gaps_B = np.full(sentences, np.nan)
        gaps_B[finished] = gaps(bounds[finished], score[finished])
        return gaps_B[:, None]

    last = np.take_along_axis(totals, np.maximum(lengths - 1, 0)[:, None], 1)[:, 0]
    ended = np.where(finished, BY_END, np.where(stuck | ~exists, BY_CONSTRAINTS, BY_LENGTH))
    return HypothesisArrays(
        counts_B=np.ones(sentences, dtype=np.int64),
        tokens_BNT=tokens_BT[:, None],
        lengths_BN=lengths[:, None],
        ended_BN=ended[:, None],
        scores_BN=score[:, None],
        log_probabilities_BN=np.where(exists, last, 0.0)[:, None],
        token_scores_BNT=np.diff(totals, prepend=0.0)[:, None],
        gaps=find_gaps,
    )


def _join(steps: Sequence[StepRecords], sentences: int) -> tuple[Tensor, Tensor]:
    """All steps as one array (T, B, …) each; sentences that take no part in a step have nothing in it."""
    first = steps[0].records
    if len(steps) == 1 and len(steps[0].sentences) == sentences:
        return first.ints_BX, first.floats_BX
    total = sum(len(some.records.ints_BX) for some in steps)
    ints = first.ints_BX.new_zeros(total, sentences, first.ints_BX.shape[2])
    floats = first.floats_BX.new_full((total, sentences, first.floats_BX.shape[2]), FORBIDDEN)
    time = 0
    for rows, records in steps:
        rows, stop = to_device(rows, ints.device), time + len(records.ints_BX)
        ints[time:stop].index_copy_(1, rows, records.ints_BX)
        floats[time:stop].index_copy_(1, rows, records.floats_BX)
        time = stop
    return ints, floats
