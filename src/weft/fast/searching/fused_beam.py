"""Steps of beam search on a GPU, most of each in one kernel; and the backtrace of such a beam, made on the GPU.

For searches of the best output of each sentence alone, without attention or a trace, under no constraint but `NoLoops`
and minimum lengths. Equal to `weft.search.beam.BeamStep.update` and `weft.search.beam.backtrace`;
tests/fast/triton/test_beam_update.py, tests/fast/searching/test_fused_beam.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from weft.fast.searching.top_k import allows_fusion, best_tokens
from weft.fast.searching.transfers import HostCopies
from weft.search.beam import BeamState, BeamStep
from weft.search.interface import FORBIDDEN, SearchRequest
from weft.search.loop import SearchState, StepRecords, to_device
from weft.search.ranking import (
    BY_CONSTRAINTS,
    BY_END,
    BY_LENGTH,
    HypothesisArrays,
    PendingHypotheses,
    Ranking,
    beam_bounds,
    gaps,
    penalties,
)
from weft.tree import Tree, select

MAX_BEAM = 10
"""The largest beam whose steps are fused."""


class PackedBeamRecord(NamedTuple):
    """`BeamRecord` of a step for one output, as `weft.fast.triton.beam_update` writes it."""

    ints_BX: Tensor
    floats_BX: Tensor


def is_fused(
    step: BeamStep, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
) -> bool:
    """Whether the kernels have all that this step does."""
    options, size = step.options, step.options.size
    has_details = step.is_observed or step.return_attention or step.return_trace
    if not logits_RV.is_cuda or has_details or step.n_best > 1 or size > MAX_BEAM:
        return False
    simple = options.groups == 1 and not options.ranking.beta and options.compared(1) == 1
    return simple and allows_fusion(logits_RV, state, step.constraints, 2 * size)


def fused_update(
    step: BeamStep, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
) -> tuple[SearchState, PackedBeamRecord]:
    """`BeamStep.update` by two kernels: the 2k best tokens of every row, and everything else."""
    from weft.fast.triton.beam_update import BeamPolicy, beam_update

    beam: BeamState = state.extra
    options, ranking = step.options, step.options.ranking
    policy = BeamPolicy(step.end, options.finished_needed(1), options.stop, ranking.normalization, ranking.alpha)
    update = beam_update(
        *best_tokens(logits_RV, 2 * options.size, state, step.constraints, step.end),
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


def is_packed(
    steps: Sequence[StepRecords], request: SearchRequest, size: int, ranking: Ranking, *, groups: int = 1
) -> bool:
    return isinstance(steps[0].records, PackedBeamRecord)


def packed_backtrace(
    steps: Sequence[StepRecords], request: SearchRequest, size: int, ranking: Ranking, *, groups: int = 1
) -> PendingHypotheses:
    """`backtrace` of packed records: the best hypothesis of every sentence is followed back on the GPU, and copied to
    the host when it is read."""
    from weft.fast.triton.beam_update import best_path

    sentences, max_lengths = len(request.max_lengths), request.max_lengths
    copies = HostCopies(best_path(*_join(steps, sentences), to_device(max_lengths, request.device)))
    return PendingHypotheses(sentences, lambda: _unpacked(copies.arrays()[0], max_lengths, ranking))


def _unpacked(packed: np.ndarray, max_lengths: Sequence[int], ranking: Ranking) -> HypothesisArrays:
    """``packed``: the result of `best_path`."""
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
