"""From back-pointers to hypotheses: a beam records the parent of every slot at every step; the best are followed back.

All sentences are followed together, one step at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from weft.runtime.replaceable import replaceable
from weft.search.interface import (
    BY_CONSTRAINTS,
    BY_END,
    BY_LENGTH,
    FORBIDDEN,
    Hypothesis,
    HypothesisArrays,
    SearchRequest,
    StepModel,
)
from weft.search.loop import StepRecords, steps_of
from weft.search.ranking import Ranking, beam_bounds, gaps
from weft.tree import map_tree, repeat

if TYPE_CHECKING:
    from weft.search.trace import BeamTrace, Branch


class Candidates(NamedTuple):
    """For a trace: the extensions that a beam considered, best first."""

    tokens_BC: Tensor
    parents_BC: Tensor
    log_probs_BC: Tensor
    totals_BC: Tensor
    scores_BC: Tensor


class BeamRecord(NamedTuple):
    """One step of a beam, as back-pointers."""

    parents_BK: Tensor
    """The slot that each hypothesis of the beam continues."""
    tokens_BK: Tensor
    totals_BK: Tensor
    """log p so far."""
    ranking_BK: Tensor
    """Its score if it were cut off here; −∞ for an empty slot."""
    ends_BK: Tensor
    """Whether the k-th best extension ended (and was set aside)."""
    end_parents_BK: Tensor
    end_totals_BK: Tensor
    end_ranking_BK: Tensor
    stopped_B: Tensor
    """Whether the sentence was done after this step."""
    following_BG: Tensor
    """By group, what the first extension after the k best is compared by: nothing that was discarded has more."""
    attention_BKS: Tensor | None
    """The weights with which each slot was extended."""
    candidates: Candidates | None = None


class _History(NamedTuple):
    """All steps as one array each, (T, B, K), B in the order of the request."""

    parents: np.ndarray
    tokens: np.ndarray
    totals: np.ndarray
    ranking: np.ndarray
    ends: np.ndarray
    end_parents: np.ndarray
    end_totals: np.ndarray
    end_ranking: np.ndarray
    stopped: np.ndarray
    """(T, B)"""
    following: np.ndarray
    """(T, B, groups)"""


class _Endings(NamedTuple):
    """The hypotheses chosen for every sentence, (B, N): the step each ended at, and the slot it came from."""

    exists: np.ndarray
    finished: np.ndarray
    time: np.ndarray
    slot: np.ndarray
    """Slot of the parent if it ended by itself, of the last token if the limit cut it off."""
    score: np.ndarray
    next_score: np.ndarray
    """Score of the next finished hypothesis; −∞ if there is none."""
    stuck: np.ndarray
    """(B,) whether the sentence stopped because nothing could follow."""


class _Paths(NamedTuple):
    """The chosen hypotheses, (B, N, T)."""

    tokens: np.ndarray
    totals: np.ndarray
    """log p up to each token."""
    slots: np.ndarray
    """The slot that was extended by each token."""


Positions = Sequence[tuple[BeamRecord, tuple[int, int]]]
"""The steps of one sentence; see `steps_of`."""


@replaceable
def backtrace(
    steps: Sequence[StepRecords], request: SearchRequest, size: int, ranking: Ranking, *, groups: int = 1
) -> Sequence[list[Hypothesis]]:
    """The best hypotheses of every sentence; with several groups no two with the same tokens, and no gaps."""
    steps = [map_tree(Tensor.cpu, some) for some in steps]
    history = _collect(steps, len(request.max_lengths), size, groups)
    endings = _rank(history, request.max_lengths, request.n_best if groups == 1 else history.ends.shape[0] * size)
    bounds = None if groups > 1 else np.maximum(_bounds(history, request, ranking)[:, None], endings.next_score)
    paths = _follow_back(history, endings)
    arrays = _arrays(endings, paths, bounds)
    has_details = steps[0].records.attention_BKS is not None or request.return_trace
    if groups == 1 and not has_details:
        return arrays
    outputs: list[list[Hypothesis]] = []
    for row in range(len(arrays)):
        ranks = range(int(arrays.counts_B[row])) if groups == 1 else _distinct(arrays, row, request.n_best)
        hypotheses = [arrays.hypothesis(row, rank) for rank in ranks]
        if has_details:
            hypotheses = _with_details(hypotheses, steps_of(steps, row), paths.slots[row, list(ranks)], request)
        outputs.append(hypotheses)
    return outputs


def _arrays(endings: _Endings, paths: _Paths, bounds: np.ndarray | None) -> HypothesisArrays:
    """The chosen hypotheses; where a sentence has none at all, the empty one."""
    exists, finished = endings.exists, endings.finished & endings.exists
    lengths = np.where(exists, endings.time + 1, 0)
    with np.errstate(invalid="ignore"):  # slots that were never filled
        token_scores = np.diff(paths.totals, prepend=0.0)
    last = np.take_along_axis(paths.totals, np.maximum(lengths - 1, 0)[:, :, None], 2)[:, :, 0]
    ended = np.where(finished, BY_END, np.where(endings.stuck[:, None] | ~exists, BY_CONSTRAINTS, BY_LENGTH))
    scores = np.where(exists, endings.score, 0.0)
    gaps_BN = np.full(scores.shape, np.nan)
    if bounds is not None:
        gaps_BN[finished] = gaps(bounds[finished], scores[finished])
    return HypothesisArrays(
        counts_B=np.maximum(exists.sum(1), 1),
        tokens_BNT=paths.tokens,
        lengths_BN=lengths,
        ended_BN=ended,
        scores_BN=scores,
        log_probabilities_BN=np.where(exists, last, 0.0),
        token_scores_BNT=token_scores,
        gaps=gaps_BN,
    )


def _distinct(arrays: HypothesisArrays, row: int, n_best: int) -> list[int]:
    """The ranks of the best of one sentence, no two of them with the same tokens."""
    chosen: dict[tuple[int, ...], int] = {}
    for rank in range(int(arrays.counts_B[row])):
        chosen.setdefault(tuple(arrays.tokens(row, rank)), rank)
        if len(chosen) == n_best:
            break
    return list(chosen.values())


def _with_details(
    hypotheses: Sequence[Hypothesis], positions: Positions, slots_NT: np.ndarray, request: SearchRequest
) -> list[Hypothesis]:
    """The hypotheses of one sentence with their attention weights and, the best of them, with a trace."""
    detailed: list[Hypothesis] = []
    for rank, hypothesis in enumerate(hypotheses):
        slots = slots_NT[rank, : len(hypothesis.token_scores)].tolist()
        attention_TS = trace = None
        if slots and positions[0][0].attention_BKS is not None:
            attention_TS = _attention(positions, slots)
        if slots and request.return_trace and not detailed:
            end = [request.end] * (hypothesis.ended == "end")
            trace = _trace(positions, [*hypothesis.tokens, *end], slots, request.end)
        detailed.append(replace(hypothesis, attention_TS=attention_TS, trace=trace))
    return detailed


def _bounds(history: _History, request: SearchRequest, ranking: Ranking) -> np.ndarray:
    """(B,) of the scores of all outputs that were not found."""
    stops_B = history.stopped.argmax(0)
    rows_B = np.arange(len(stops_B))
    exists_BK = history.ranking[stops_B, rows_B] > FORBIDDEN
    unfinished_B = np.where(exists_BK, history.totals[stops_B, rows_B], FORBIDDEN).max(1)
    return beam_bounds(history.following[:, :, 0], unfinished_B, stops_B, request.max_lengths, ranking)


def _of_record(record: BeamRecord) -> _History:
    """The arrays of consecutive steps of the same sentences."""
    return _History(
        parents=record.parents_BK.numpy(),
        tokens=record.tokens_BK.numpy(),
        totals=record.totals_BK.numpy(),
        ranking=record.ranking_BK.numpy(),
        ends=record.ends_BK.numpy(),
        end_parents=record.end_parents_BK.numpy(),
        end_totals=record.end_totals_BK.numpy(),
        end_ranking=record.end_ranking_BK.numpy(),
        stopped=record.stopped_B.numpy(),
        following=record.following_BG.numpy(),
    )


def _collect(steps: Sequence[StepRecords], sentences: int, size: int, groups: int) -> _History:
    shape = (sum(len(some.records.stopped_B) for some in steps), sentences, size)
    history = _History(
        parents=np.zeros(shape, dtype=np.int64),
        tokens=np.zeros(shape, dtype=np.int64),
        totals=np.zeros(shape),
        ranking=np.full(shape, FORBIDDEN),
        ends=np.zeros(shape, dtype=bool),
        end_parents=np.zeros(shape, dtype=np.int64),
        end_totals=np.zeros(shape),
        end_ranking=np.full(shape, FORBIDDEN),
        stopped=np.zeros(shape[:2], dtype=bool),
        following=np.full((*shape[:2], groups), FORBIDDEN),
    )
    time = 0
    for rows, record in steps:
        times = slice(time, time + len(record.stopped_B))
        for array, values in zip(history, _of_record(record), strict=True):
            array[times, rows.numpy()] = values
        time = times.stop
    return history


def _rank(history: _History, max_lengths: Sequence[int], count: int) -> _Endings:
    """Finished hypotheses by score, then those that were cut off by the limit; of equals the earlier first."""
    steps, sentences, size = history.ends.shape
    finished_BN = history.end_ranking.transpose(1, 0, 2).reshape(sentences, -1)
    last_B = history.stopped.argmax(0)
    stuck_B = (history.ranking[last_B, np.arange(sentences)] == FORBIDDEN).all(1)
    last_B = np.where(stuck_B, last_B - 1, last_B)  # the step before nothing could follow
    cut_off_B = (last_B >= 0) & (stuck_B | (last_B + 1 >= np.array(max_lengths)))  # else the search stopped early
    cut_off_BK = np.where(cut_off_B[:, None], history.ranking[last_B, np.arange(sentences)], FORBIDDEN)
    scores = np.concatenate([finished_BN, cut_off_BK], 1)
    is_cut_off = np.arange(scores.shape[1]) >= steps * size
    index, next_score = _best(scores, steps * size) if count == 1 else _in_order(scores, is_cut_off, count)
    finished = index < steps * size
    rows = np.arange(sentences)[:, None]
    time = np.where(finished, index // size, last_B[:, None])
    slot = np.where(finished, history.end_parents[time, rows, index % size], index - steps * size)
    chosen = np.take_along_axis(scores, index, 1)
    return _Endings(chosen > FORBIDDEN, finished, time, slot, chosen, next_score, stuck_B)


def _in_order(scores: np.ndarray, is_cut_off: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, N) the indices of the best, and for each the score of the finished one that follows."""
    order = np.lexsort((-scores, np.broadcast_to(is_cut_off, scores.shape), scores == FORBIDDEN), axis=1)
    in_order = np.take_along_axis(np.where(is_cut_off, FORBIDDEN, scores), order, 1)
    nothing = np.full((len(scores), 1), FORBIDDEN)
    return order[:, :count], np.concatenate([in_order, nothing], 1)[:, 1 : count + 1]


def _best(scores: np.ndarray, finished: int) -> tuple[np.ndarray, np.ndarray]:
    """`_in_order` for one of each sentence: without sorting. ``finished``: how many of the scores are of such."""
    rows = np.arange(len(scores))
    first_B = scores[:, :finished].argmax(1)
    others = scores[:, :finished].copy()
    none_B = others[rows, first_B] == FORBIDDEN
    others[rows, first_B] = FORBIDDEN
    index_B = np.where(none_B, finished + scores[:, finished:].argmax(1), first_B)
    return index_B[:, None], others.max(1)[:, None]


def _follow_back(history: _History, endings: _Endings) -> _Paths:
    steps = history.tokens.shape[0]
    times_T11 = np.arange(steps)[:, None, None]
    continues_TBN = (endings.time > times_T11) | ((endings.time == times_T11) & ~endings.finished)
    slots_TBN = np.empty(continues_TBN.shape, dtype=np.int64)
    parents_TBN = np.empty_like(slots_TBN)
    slot_BN = endings.slot
    for time in range(steps - 1, -1, -1):
        slots_TBN[time] = slot_BN
        slot_BN = np.where(continues_TBN[time], np.take_along_axis(history.parents[time], slot_BN, 1), slot_BN)
        parents_TBN[time] = slot_BN
    tokens_TBN = np.take_along_axis(history.tokens, slots_TBN, 2)
    totals_TBN = np.take_along_axis(history.totals, slots_TBN, 2)
    for time in np.unique(endings.time[endings.finished]):
        ends_here = (endings.time == time) & endings.finished
        totals_TBN[time] = np.where(ends_here, _end_totals(history, int(time), endings), totals_TBN[time])
    return _Paths(*(array.transpose(1, 2, 0) for array in (tokens_TBN, totals_TBN, parents_TBN)))


def _end_totals(history: _History, time: int, endings: _Endings) -> np.ndarray:
    """log p of the hypotheses that ended at a step: of the ending with their parent and score."""
    same = (history.end_parents[time][:, None] == endings.slot[:, :, None]) & history.ends[time][:, None]
    return np.take_along_axis(history.end_totals[time], same.argmax(2), 1)


def _attention(positions: Positions, slots: list[int]) -> Tensor:
    rows = []
    for (record, position), slot in zip(positions, slots, strict=False):
        assert record.attention_BKS is not None
        rows.append(record.attention_BKS[position][slot].float())
    return stack_attention(rows)


def stack_attention(rows: Sequence[Tensor]) -> Tensor:
    """The attention weights of all steps (T, S); shorter rows (over a history that grows) are padded with zeros."""
    return pad_sequence(list(rows), batch_first=True)


def attention_of(
    outputs: Sequence[Sequence[int]], model: StepModel, request: SearchRequest
) -> list[Tensor] | list[None]:
    """The attention weights of outputs of one sentence, by stepping them again, for a search that does not keep them.

    An output is its tokens and, if it ended by itself, the end token. None: the model has no attention.
    """
    lengths = [len(output) for output in outputs]
    inputs = [[request.begin, *output, *[request.end] * max(lengths)][: max(lengths)] for output in outputs]
    state = repeat(model.start(request.memory), len(outputs))
    steps: list[Tensor] = []
    for tokens_R in torch.tensor(inputs, device=request.device).unbind(1):
        _, state, attention_RS = model.step(tokens_R, state, request.memory)
        if attention_RS is None:
            return [None] * len(outputs)
        steps.append(attention_RS.cpu())
    widths = [weights_RS.shape[1] for weights_RS in steps]  # they grow, where a model attends to its own history
    attention_RTS = torch.stack([pad(step_RS, (0, widths[-1] - step_RS.shape[1])) for step_RS in steps], 1)
    return [attention_RTS[row, :length, : widths[length - 1]] for row, length in enumerate(lengths)]


def _trace(positions: Positions, tokens: list[int], parents: list[int], end: int) -> BeamTrace:
    """The tree of one sentence, and the path of its best hypothesis through it."""
    from weft.search.trace import BeamTrace

    steps: list[list[Branch]] = []
    winner: list[int] = []
    totals: list[float] = []
    for time, (record, position) in enumerate(positions):
        step = map_tree(lambda leaf, position=position: leaf[position], record)  # type: ignore[misc]
        branches = branches_of(step, end, totals)
        totals = step.totals_BK.tolist()
        steps.append(branches)
        if time < len(tokens):
            key = (tokens[time], parents[time])
            indices = (index for index, branch in enumerate(branches) if (branch.token, branch.parent) == key)
            winner.append(next(indices))
    return BeamTrace(steps, winner)


def branches_of(step: BeamRecord, end: int, before: list[float]) -> list[Branch]:
    """The extensions of one step of one sentence: the k² best, and any other that was kept.

    ``before``: log p of the parents; empty at the first step.
    """
    from weft.search.trace import Branch

    tokens, parents = step.tokens_BK.tolist(), step.parents_BK.tolist()
    totals, scores = step.totals_BK.tolist(), step.ranking_BK.tolist()
    kept = {(token, parent): slot for slot, (token, parent) in enumerate(zip(tokens, parents, strict=True))}
    kept = {key: slot for key, slot in kept.items() if scores[slot] > FORBIDDEN}
    ended = {parent for parent, ends in zip(step.end_parents_BK.tolist(), step.ends_BK.tolist(), strict=True) if ends}
    assert step.candidates is not None
    branches: list[Branch] = []
    remaining = len(tokens) ** 2 - len(kept)
    for token, parent, log_probability, total, score in zip(
        *(values.tolist() for values in step.candidates), strict=True
    ):
        slot = kept.pop((token, parent), -1)
        outcome = "kept" if slot >= 0 else "finished" if token == end and parent in ended else "pruned"
        remaining -= outcome == "pruned"
        if score > FORBIDDEN and (outcome != "pruned" or remaining >= 0):
            branches.append(Branch(token, parent, log_probability, total, score, outcome, slot))
    for (token, parent), slot in kept.items():  # a group of a diverse beam may choose further down
        log_probability = totals[slot] - (before[parent] if before else 0.0)
        branches.append(Branch(token, parent, log_probability, totals[slot], scores[slot], "kept", slot))
    return sorted(branches, key=lambda branch: -branch.score)
