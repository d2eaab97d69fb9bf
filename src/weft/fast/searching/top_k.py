"""The k best extensions of hypotheses with fewer passes over the scores.

Equal to the functions of `weft.search.constraints`, log Σ exp up to rounding; tests/fast/searching/test_top_k.py.

- The k largest of a row lie in the k blocks with the largest maxima, so only those are read again: one pass over the
  row for the maxima of its blocks, and a small selection.
- On a CPU, log Σ exp is computed literally, some rows at a time, so that intermediate values stay in the cache: half
  the time of a log-softmax. NumPy finds the largest value of a row in a tenth of the time of `torch.argmax`.
- Of one sentence, both are computed by C, and so is the rest of a step of a beam, where C is compiled
  (`weft.fast.cpu.compiled`).
- On a GPU, a kernel finds the best tokens of every row and their log-probabilities (`weft.fast.triton.top_k`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from weft.fast.cpu import compiled
from weft.search.beam import BeamRecord, BeamState, BeamStep
from weft.search.constraints import Extensions, LogitsConstraint, NoLoops, top_k_constrained
from weft.search.loop import SearchState
from weft.search.ranking import Ranking
from weft.search.repetition import LoopLimits
from weft.tree import Tree

MAX_K = 64
"""The most extensions that C finds: they are kept in order by insertion."""
MAX_ROWS = 16
"""The most rows whose sums C computes; with more, PyTorch divides the work better."""
MAX_LENGTH = 2**31 - 1
"""The largest number of C's integers."""
BLOCK = 64
CACHE_FLOATS = 2**18
"""So many floats stay in a core's cache between two passes."""
SAFE_LOG_SUM = 69.0
"""Sums between e to this power and its inverse are within the range of floats, and have lost no precision."""


def is_native_top_k(scores_RV: Tensor, totals_BK: Tensor, k: int) -> bool:
    """Whether C can find the ``k`` best extensions of one sentence."""
    return (
        totals_BK.shape == (1, len(scores_RV))
        and scores_RV.is_cpu
        and scores_RV.dtype == totals_BK.dtype == torch.float32
        and scores_RV.is_contiguous()
        and not scores_RV.requires_grad
        and 0 < k <= min(MAX_K, scores_RV.numel())
        and compiled.loaded is not None
    )


def native_top_k(scores_RV: Tensor, totals_BK: Tensor, k: int) -> Extensions:
    """`top_k_extensions` in one pass over the scores, of which blocks without a candidate are not looked into."""
    rows, vocabulary = scores_RV.shape
    best_BC, indices_2BC = torch.empty(1, k), torch.empty(2, 1, k, dtype=torch.int64)
    parents_BC, tokens_BC = indices_2BC.unbind()
    compiled.loaded.weft_top_k(
        scores_RV.data_ptr(), totals_BK.contiguous().data_ptr(), rows, vocabulary, k,
        best_BC.data_ptr(), parents_BC.data_ptr(), tokens_BC.data_ptr(),
    )  # fmt: skip
    return Extensions(best_BC, parents_BC, tokens_BC)


def has_many_blocks(scores_RV: Tensor, totals_BK: Tensor, k: int) -> bool:
    """Whether C can find them, or the ``k`` best blocks are a small part of a sentence's scores."""
    return is_native_top_k(scores_RV, totals_BK, k) or scores_RV.shape[1] // BLOCK * totals_BK.shape[1] >= 4 * k


def top_k_by_blocks(scores_RV: Tensor, totals_BK: Tensor, k: int) -> Extensions:
    """`top_k_extensions` among the blocks with the largest maxima."""
    if is_native_top_k(scores_RV, totals_BK, k):
        return native_top_k(scores_RV, totals_BK, k)
    (sentences, size), vocabulary, device = totals_BK.shape, scores_RV.shape[1], scores_RV.device
    blocks = vocabulary // BLOCK
    maxima_RN = scores_RV[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK)).amax(-1)
    maxima_BN = (maxima_RN.view(sentences, size, blocks) + totals_BK[:, :, None]).flatten(1)
    blocks_BK = maxima_BN.topk(k).indices
    starts_BK = blocks_BK * BLOCK
    if size > 1:  # the tokens after the last whole block of each hypothesis lie between
        starts_BK += blocks_BK // blocks * (vocabulary % BLOCK)
    indices_BP = (starts_BK[:, :, None] + torch.arange(BLOCK, device=device)).flatten(1)
    if vocabulary % BLOCK:
        rest_K1 = torch.arange(size, device=device)[:, None] * vocabulary
        rest_KP = rest_K1 + torch.arange(blocks * BLOCK, vocabulary, device=device)
        indices_BP = torch.cat([indices_BP, rest_KP.flatten().expand(sentences, -1)], 1)
    sums_BP = scores_RV.view(sentences, -1).gather(1, indices_BP)
    sums_BP += totals_BK.gather(1, indices_BP // vocabulary) if size > 1 else totals_BK
    best_BC = sums_BP.topk(k)
    indices_BC = indices_BP.gather(1, best_BC.indices)
    return Extensions(best_BC.values, indices_BC // vocabulary, indices_BC % vocabulary)


def is_float_on_cpu(values_RV: Tensor) -> bool:
    return values_RV.is_cpu and values_RV.dtype == torch.float32


def first_largest_by_numpy(values_RV: Tensor) -> Tensor:
    return torch.from_numpy(values_RV.detach().numpy().argmax(-1, keepdims=True))


def is_native_log_sum_exp(values_RV: Tensor) -> bool:
    return (
        len(values_RV) <= MAX_ROWS
        and is_float_on_cpu(values_RV)
        and values_RV.is_contiguous()
        and not values_RV.requires_grad
        and compiled.loaded is not None
    )


def native_log_sum_exp(values_RV: Tensor) -> Tensor:
    """log Σ exp of a few rows by C."""
    rows, vocabulary = values_RV.shape
    sums_R = torch.empty(rows)
    compiled.loaded.weft_log_sum_exp(values_RV.data_ptr(), rows, vocabulary, sums_R.data_ptr(), torch.get_num_threads())
    return sums_R


def literal_log_sum_exp(values_RV: Tensor) -> Tensor:
    """log Σ exp without subtracting the maximum first, except from rows whose sum leaves the range of floats (logits
    beyond ±69 or so); of a few rows by C, where it is compiled."""
    if is_native_log_sum_exp(values_RV):
        return native_log_sum_exp(values_RV)
    rows, chunk = len(values_RV), max(1, CACHE_FLOATS // max(1, values_RV.shape[1]))
    if rows <= chunk:
        log_sums_R = torch.exp(values_RV).sum(-1).log_()
    else:
        exp_CV = torch.empty_like(values_RV[:chunk])
        sums = [torch.exp(chunk_CV, out=exp_CV[: len(chunk_CV)]).sum(-1) for chunk_CV in values_RV.split(chunk)]
        log_sums_R = torch.cat(sums).log_()
    if rows and not float(log_sums_R.abs().max()) < SAFE_LOG_SUM:  # also if it is not a number
        unsafe_R = ~(log_sums_R.abs() < SAFE_LOG_SUM)
        log_sums_R[unsafe_R] = values_RV[unsafe_R].logsumexp(-1)
    return log_sums_R


def is_float_on_gpu(values_RV: Tensor) -> bool:
    return values_RV.is_cuda and values_RV.dtype == torch.float32


def log_sum_exp_by_softmax(values_RV: Tensor) -> Tensor:
    """log Σ exp(x) = max x − log max softmax(x): two kernels in place of several."""
    return values_RV.amax(-1) - values_RV.softmax(-1).amax(-1).log()


def allows_fusion(logits_RV: Tensor, state: SearchState, constraints: Sequence[LogitsConstraint], k: int) -> bool:
    """Whether the best ``k`` tokens of every row can be found, and used, by kernels."""
    simple = not constraints or (len(constraints) == 1 and isinstance(constraints[0], NoLoops))
    limits = state.limits
    free = limits.prefixes_BP is None and limits.required is None
    return logits_RV.is_cuda and simple and free and k <= logits_RV.shape[1]


def best_tokens(
    logits_RV: Tensor, k: int, state: SearchState, constraints: Sequence[LogitsConstraint], end: int
) -> tuple[Tensor, Tensor]:
    """log p and ids (R, k) of the best tokens of every row that are allowed. The logits are overwritten."""
    from weft.fast.triton.top_k import top_k_tokens

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


def allows_kernel(
    logits_RV: Tensor,
    totals_BK: Tensor,
    k: int,
    state: SearchState,
    constraints: Sequence[LogitsConstraint],
    end: int,
) -> bool:
    return allows_fusion(logits_RV, state, constraints, k)


def top_k_by_kernel(
    logits_RV: Tensor,
    totals_BK: Tensor,
    k: int,
    state: SearchState,
    constraints: Sequence[LogitsConstraint],
    end: int,
) -> Extensions:
    """`top_k_constrained` among the best tokens of every hypothesis."""
    log_probs_RC, tokens_RC = best_tokens(logits_RV, k, state, constraints, end)
    sentences, size = totals_BK.shape
    if size == 1:
        return Extensions(totals_BK + log_probs_RC, torch.zeros_like(tokens_RC), tokens_RC)
    sums_BX = (totals_BK.reshape(-1, 1) + log_probs_RC).view(sentences, -1)
    scores_BC, indices_BC = sums_BX.topk(k)
    return Extensions(scores_BC, indices_BC // k, tokens_RC.view(sentences, -1).gather(1, indices_BC))


class _Step(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("end", "size", "needed", "length", "max_length")),
        ("penalty", ctypes.c_float),
    )


class BeamFields(ctypes.Structure):
    """The results of a step of a beam, as native/beam.h declares them."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            "parents", "tokens", "end_parents", "finished", "totals", "scores", "ranking", "end_totals",
            "end_ranking", "following", "ends", "stopped",
        )
    )  # fmt: skip


def is_native_update(
    step: BeamStep, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
) -> bool:
    """Whether C has all that this step of a beam does: one sentence, no groups, terms or coverage, the default stop."""
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
        and compiled.loaded is not None
    )


def native_update(
    step: BeamStep, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
) -> tuple[SearchState, BeamRecord]:
    """`BeamStep.update` of one sentence in one call, after its best extensions were found.

    The plain step is some sixty operations on a few numbers each, which take as long as the layers of a small model.
    """
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
        min(int(state.limits.max_lengths_B), MAX_LENGTH),
        _penalty(options.ranking, length + 1),
    )
    compiled.loaded.weft_beam_update(
        ctypes.byref(given),
        scores_BC.data_ptr(),
        parents_BC.data_ptr(),
        tokens_BC.data_ptr(),
        scores_BC.shape[1],
        ctypes.byref(BeamFields(*addresses)),
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
