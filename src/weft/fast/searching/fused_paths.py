"""Steps of greedy search on a GPU, most of each in one kernel; and hypotheses that are assembled on the GPU.

The step: for greedy search without attention or a trace, under no constraint but `NoLoops` and minimum lengths. The
hypotheses: of greedy search and sampling without attention or a trace; the host waits for them when they are read.
Equal to `weft.search.sampling.PathStep.update` and `weft.search.paths.path_hypotheses`;
tests/fast/recording/test_search.py, tests/fast/searching/test_fused_paths.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from weft.fast.searching.fused_beam import PackedBeamRecord
from weft.fast.searching.top_k import allows_fusion, best_tokens
from weft.fast.searching.transfers import HostCopies
from weft.search.interface import SearchRequest
from weft.search.loop import SearchState, StepRecords
from weft.search.paths import PathRecord, join_steps, path_arrays
from weft.search.ranking import HypothesisArrays, PendingHypotheses, Ranking
from weft.search.sampling import GREEDY, PathState, PathStep
from weft.tree import Tree


class PackedPathRecord(NamedTuple):
    """`PathRecord` of a step of greedy search, as `weft.fast.triton.path_update` writes it."""

    values_B3: Tensor


def stays_on_device(record: Tree) -> bool:
    """Whether hypotheses are assembled on the device: where a record has nothing but tokens and their scores.

    Other records are copied to the host when the steps have been taken.
    """
    if isinstance(record, PathRecord):
        return record.attention_BKS is None and record.candidates is None
    return isinstance(record, PackedBeamRecord | PackedPathRecord)


def is_fused(
    step: PathStep, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
) -> bool:
    """Whether the kernels have all that this step does."""
    plain = step.chooser is GREEDY and not step.traced_candidates and not step.is_observed
    plain = plain and state.extra.active_BK.shape[1] == 1 and (attention_RS is None or not step.return_attention)
    return plain and allows_fusion(logits_RV, state, step.constraints, 1)


def fused_update(
    step: PathStep, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
) -> tuple[SearchState, PackedPathRecord]:
    """`PathStep.update` by two kernels: the best token of every row, and everything else."""
    from weft.fast.triton.path_update import path_update

    log_probs_R1, tokens_R1 = best_tokens(logits_RV, 1, state, step.constraints, step.end)
    update = path_update(
        log_probs_R1[:, 0],
        tokens_R1[:, 0],
        active_B1=state.extra.active_BK,
        max_lengths_B=state.limits.max_lengths_B,
        length_1=state.length_1,
        history_RW=state.history_RW,
        end=step.end,
    )
    after = state._replace(
        tokens_R=tokens_R1[:, 0],
        model_state=model_state,
        history_RW=update.history_RW,
        done_B=update.done_B,
        extra=PathState(update.active_B1),
        length_1=update.length_1,
    )
    return after, PackedPathRecord(update.record_B3)


def is_on_gpu(steps: Sequence[StepRecords], request: SearchRequest, ranking: Ranking, *, with_gap: bool) -> bool:
    records = steps[0].records
    return stays_on_device(records) and records[0].is_cuda and not request.return_trace


def pending_hypotheses(
    steps: Sequence[StepRecords], request: SearchRequest, ranking: Ranking, *, with_gap: bool
) -> PendingHypotheses:
    """`path_hypotheses` of steps that are joined on the GPU and copied to the host together."""
    copies = HostCopies(*join_steps(steps, len(request.max_lengths)))
    request = replace(request, memory=None)  # on the GPU: the results outlive it

    def compute() -> HypothesisArrays:
        values = copies.arrays()
        return path_arrays(unpack(values[0]) if len(values) == 1 else values, request, ranking, with_gap=with_gap)

    return PendingHypotheses(len(request.max_lengths), compute)


def unpack(packed_TB3: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, log p and whether they were active, (T, B, 1) each, of packed records."""
    tokens, log_probs, active = (np.ascontiguousarray(packed_TB3[:, :, part, None]) for part in range(3))
    return tokens, log_probs.view(np.float32), active > 0
