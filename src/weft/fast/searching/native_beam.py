"""A step of the beam of one sentence on a CPU, in one call of compiled code after its best extensions were found.

Equal to `weft.search.beam.BeamStep.update`; tests/fast/searching/test_native_beam.py. The plain step is some sixty
operations on a few numbers each, which take as long as a small model takes for its layers.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import torch
from torch import Tensor

from weft.fast.cpu.compiled import library
from weft.search.beam import BeamRecord, BeamState, BeamStep
from weft.search.constraints import top_k_constrained
from weft.search.loop import SearchState
from weft.search.ranking import Ranking
from weft.tree import Tree


class _Step(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("end", "size", "needed", "length", "max_length")),
        ("penalty", ctypes.c_float),
    )


class _Beam(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            "parents", "tokens", "end_parents", "finished", "totals", "scores", "ranking", "end_totals",
            "end_ranking", "following", "ends", "stopped",
        )
    )  # fmt: skip


def is_native(
    step: BeamStep, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
) -> bool:
    """Whether C has all that this step does: one sentence, no groups, terms or coverage, the default stop."""
    options = step.options
    return (
        len(state.done_B) == 1
        and logits_RV.is_cpu
        and logits_RV.dtype == torch.float32
        and options.groups == 1
        and options.stop == "finished"
        and not options.ranking.beta
        and not step.return_trace
        and state.limits.required is None
        and all(constraint.forbids for constraint in step.constraints)
        and library() is not None
    )


def native_update(
    step: BeamStep, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
) -> tuple[SearchState, BeamRecord]:
    beam: BeamState = state.extra
    options, size, length = step.options, step.options.size, int(state.length_1)
    best = top_k_constrained(logits_RV, beam.scores_BK, 2 * size, state, step.constraints, step.end)
    scores_BC, parents_BC, tokens_BC = (values_BC.contiguous() for values_BC in best)
    ints_4K, floats_5K = torch.empty(3, 1, size, dtype=torch.int64), torch.empty(5, 1, size)
    flags_2K = torch.empty(1, size + 1, dtype=torch.bool)
    finished_BG, following_B1 = beam.finished_BG.clone(), torch.empty(1, 1)
    ints, floats, flags = ints_4K.data_ptr(), floats_5K.data_ptr(), flags_2K.data_ptr()
    addresses = [
        *(ints + 8 * size * part for part in range(3)),
        finished_BG.data_ptr(),
        *(floats + 4 * size * part for part in range(5)),
        following_B1.data_ptr(),
        flags,
        flags + size,
    ]
    given = _Step(
        step.end,
        size,
        options.finished_needed(step.n_best),
        length,
        int(state.limits.max_lengths_B),
        _penalty(options.ranking, length + 1),
    )
    library().weft_beam_update(
        ctypes.byref(given),
        scores_BC.data_ptr(),
        parents_BC.data_ptr(),
        tokens_BC.data_ptr(),
        scores_BC.shape[1],
        ctypes.byref(_Beam(*addresses)),
    )
    parents_BK, tokens_BK, end_parents_BK = ints_4K.unbind()
    totals_BK, scores_BK, ranking_BK, end_totals_BK, end_ranking_BK = floats_5K.unbind()
    ends_BK, stopped_B = flags_2K[:, :size], flags_2K[:, size]
    after = state.advance(model_state, parents_BK[0], tokens_BK[0])._replace(
        extra=beam._replace(totals_BK=totals_BK, scores_BK=scores_BK, finished_BG=finished_BG),
        done_B=stopped_B,
    )
    return after, BeamRecord(
        parents_BK=parents_BK,
        tokens_BK=tokens_BK,
        totals_BK=totals_BK,
        ranking_BK=ranking_BK,
        ends_BK=ends_BK,
        end_parents_BK=end_parents_BK,
        end_totals_BK=end_totals_BK,
        end_ranking_BK=end_ranking_BK,
        stopped_B=stopped_B,
        following_BG=following_B1,
        attention_BKS=attention_RS[None] if attention_RS is not None and step.return_attention else None,
    )


@lru_cache(maxsize=4096)
def _penalty(ranking: Ranking, length: int) -> float:
    """`Ranking.penalties` of a length, in single precision."""
    return float(ranking.penalties(torch.tensor([length])))
