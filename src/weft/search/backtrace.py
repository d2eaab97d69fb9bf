"""From back-pointers to hypotheses: a beam keeps, for every step, where each slot came from; winners are followed back.

All sentences are traced back together, one step at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.search.interface import Hypothesis
from weft.search.state import StepRecords, by_step
from weft.search.trace import BeamTrace, Branch
from weft.tree import map_tree

NEVER = float("-inf")


class Looked(NamedTuple):
    """For a trace: the extensions a beam looked at, best first."""

    tokens_BC: Tensor
    parents_BC: Tensor
    logs_BC: Tensor
    totals_BC: Tensor
    scores_BC: Tensor


class BeamStep(NamedTuple):
    """One step of a beam over the sentences that are in it, as back-pointers."""

    parents_BK: Tensor
    """For each hypothesis that goes on, the slot it came from."""
    tokens_BK: Tensor
    totals_BK: Tensor
    """log p so far."""
    scores_BK: Tensor
    """What it would be ranked by if it were cut off here; −∞ for an empty slot."""
    ends_BK: Tensor
    """Whether the k-th best extension ended (and was set aside)."""
    end_parents_BK: Tensor
    end_totals_BK: Tensor
    end_scores_BK: Tensor
    over_B: Tensor
    """Whether the sentence stopped after this step."""
    weights_BKS: Tensor | None
    """Where each slot looked before it was extended."""
    looked: Looked | None = None


class _History(NamedTuple):
    """All steps side by side, on the host: (T, B, K) of the sentences as they were given."""

    parents: np.ndarray
    tokens: np.ndarray
    totals: np.ndarray
    scores: np.ndarray
    ends: np.ndarray
    end_parents: np.ndarray
    end_totals: np.ndarray
    end_scores: np.ndarray
    over: np.ndarray
    """(T, B)"""


class _Endings(NamedTuple):
    """The hypotheses chosen for every sentence, (B, N): the step each ended at, and the slot it came from."""

    there: np.ndarray
    finished: np.ndarray
    time: np.ndarray
    slot: np.ndarray
    """Of the parent where it ended by itself, of the last token where the limit cut it off."""
    score: np.ndarray
    stuck: np.ndarray
    """(B,) whether the sentence stopped because nothing could follow."""


def trace_back(
    segments: Sequence[StepRecords],
    sentences: int,
    size: int,
    *,
    end: int,
    n_best: int,
    distinct: bool = False,
    trace: bool = False,
) -> list[list[Hypothesis]]:
    """The ``n_best`` hypotheses of every sentence; ``distinct``: no two with the same tokens."""
    segments = [map_tree(Tensor.cpu, segment) for segment in segments]
    history = _collect(segments, sentences, size)
    looked = segments[0].records.weights_BKS is not None
    wanted = n_best if not distinct else history.ends.shape[0] * size
    endings = _rank(history, wanted)
    tokens, totals, slots = _follow_back(history, endings)
    with np.errstate(invalid="ignore"):  # slots that were never filled
        scores = np.diff(totals, prepend=0.0)
    answers: list[list[Hypothesis]] = []
    for row in range(sentences):
        found: list[Hypothesis] = []
        seen: set[tuple[int, ...]] = set()
        steps = by_step(segments, row) if looked or trace else []
        for rank in range(endings.there.shape[1]):
            if not endings.there[row, rank] or len(found) == n_best:
                break
            length = int(endings.time[row, rank]) + 1
            finished = bool(endings.finished[row, rank])
            said = tokens[row, rank, : length - finished].tolist()
            if distinct and tuple(said) in seen:
                continue
            seen.add(tuple(said))
            found.append(
                Hypothesis(
                    tokens=said,
                    score=float(endings.score[row, rank]),
                    log_probability=float(totals[row, rank, length - 1]),
                    token_scores=scores[row, rank, :length].tolist(),
                    ended="end" if finished else "constraints" if endings.stuck[row] else "length",
                    attention_TS=_weights(steps, slots[row, rank, :length].tolist()) if looked else None,
                    trace=_trace(steps, [*said, *[end] * finished], slots[row, rank], end)
                    if trace and not found
                    else None,
                )
            )
        answers.append(found or [Hypothesis([], 0.0, 0.0, [], "constraints")])
    return answers


def _collect(segments: Sequence[StepRecords], sentences: int, size: int) -> _History:
    shape = (sum(len(segment.records.over_B) for segment in segments), sentences, size)
    history = _History(
        parents=np.zeros(shape, dtype=np.int64),
        tokens=np.zeros(shape, dtype=np.int64),
        totals=np.zeros(shape),
        scores=np.full(shape, NEVER),
        ends=np.zeros(shape, dtype=bool),
        end_parents=np.zeros(shape, dtype=np.int64),
        end_totals=np.zeros(shape),
        end_scores=np.full(shape, NEVER),
        over=np.zeros(shape[:2], dtype=bool),
    )
    time = 0
    for rows, step in segments:
        times = slice(time, time + len(step.over_B))
        for name in _History._fields:
            values = getattr(step, f"{name}_{'B' if name == 'over' else 'BK'}")
            getattr(history, name)[times, rows.numpy()] = values.numpy()
        time = times.stop
    return history


def _rank(history: _History, wanted: int) -> _Endings:
    """Finished hypotheses by score, then those that were cut off by the limit; of equals the earlier first."""
    steps, sentences, size = history.ends.shape
    finished_BN = history.end_scores.transpose(1, 0, 2).reshape(sentences, -1)
    last_B = history.over.argmax(0)
    stuck_B = (history.scores[last_B, np.arange(sentences)] == NEVER).all(1)
    last_B = np.where(stuck_B, last_B - 1, last_B)  # what was said before nothing could follow
    cut_off_BK = np.where(last_B[:, None] < 0, NEVER, history.scores[last_B, np.arange(sentences)])
    scores = np.concatenate([finished_BN, cut_off_BK], 1)
    is_cut = np.arange(scores.shape[1]) >= steps * size
    order = np.lexsort((-scores, np.broadcast_to(is_cut, scores.shape), scores == NEVER), axis=1)[:, :wanted]
    place = np.take_along_axis(np.broadcast_to(np.arange(scores.shape[1]), scores.shape), order, 1)
    finished = place < steps * size
    rows = np.arange(sentences)[:, None]
    time = np.where(finished, place // size, last_B[:, None])
    slot = np.where(finished, history.end_parents[time, rows, place % size], place - steps * size)
    chosen = np.take_along_axis(scores, order, 1)
    return _Endings(chosen > NEVER, finished, time, slot, chosen, stuck_B)


def _follow_back(history: _History, endings: _Endings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, log p up to each of them, and the slot that each was said from: (B, N, T)."""
    steps = history.tokens.shape[0]
    times_T11 = np.arange(steps)[:, None, None]
    goes_on_TBN = (endings.time > times_T11) | ((endings.time == times_T11) & ~endings.finished)
    own_TBN = np.empty(goes_on_TBN.shape, dtype=np.int64)
    slots_TBN = np.empty_like(own_TBN)
    slot_BN = endings.slot
    for time in range(steps - 1, -1, -1):
        own_TBN[time] = slot_BN
        slot_BN = np.where(goes_on_TBN[time], np.take_along_axis(history.parents[time], slot_BN, 1), slot_BN)
        slots_TBN[time] = slot_BN
    tokens_TBN = np.take_along_axis(history.tokens, own_TBN, 2)
    totals_TBN = np.take_along_axis(history.totals, own_TBN, 2)
    for time in np.unique(endings.time[endings.finished]):
        ends_here = (endings.time == time) & endings.finished
        totals_TBN[time] = np.where(ends_here, _end_totals(history, int(time), endings), totals_TBN[time])
    return tokens_TBN.transpose(1, 2, 0), totals_TBN.transpose(1, 2, 0), slots_TBN.transpose(1, 2, 0)


def _end_totals(history: _History, time: int, endings: _Endings) -> np.ndarray:
    """log p of the hypotheses that ended at a step: of the ending with their parent and score."""
    same = (history.end_parents[time][:, None] == endings.slot[:, :, None]) & history.ends[time][:, None]
    return np.take_along_axis(history.end_totals[time], same.argmax(2), 1)


def _weights(steps: Sequence[tuple[BeamStep, tuple[int, int]]], slots: list[int]) -> Tensor:
    looks = []
    for (step, at), slot in zip(steps, slots, strict=False):
        assert step.weights_BKS is not None
        looks.append(step.weights_BKS[at][slot].float())
    return stack_weights(looks)


def stack_weights(rows: Sequence[Tensor]) -> Tensor:
    """Rows of weights one under the other; shorter ones (a past that grows) are filled with zeros."""
    width = max(len(row) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])


def _trace(
    steps: Sequence[tuple[BeamStep, tuple[int, int]]], said: list[int], slots: np.ndarray, end: int
) -> BeamTrace:
    """The tree of one sentence, and the way of its best hypothesis through it."""
    tree: list[list[Branch]] = []
    winner: list[int] = []
    totals: list[float] = []
    for time, (step, at) in enumerate(steps):
        own = map_tree(lambda leaf, at=at: leaf[at], step)  # type: ignore[misc]
        branches = _branches(own, end, totals)
        totals = own.totals_BK.tolist()
        tree.append(branches)
        if time < len(said):
            wanted = (said[time], int(slots[time]))
            winner.append(next(at for at, one in enumerate(branches) if (one.token, one.parent) == wanted))
    return BeamTrace(tree, winner)


def _branches(step: BeamStep, end: int, before: list[float]) -> list[Branch]:
    """What one step looked at: the k² best, and any other that was kept. ``before``: log p of the parents."""
    tokens, parents = step.tokens_BK.tolist(), step.parents_BK.tolist()
    totals, scores = step.totals_BK.tolist(), step.scores_BK.tolist()
    kept = {(token, parent): slot for slot, (token, parent) in enumerate(zip(tokens, parents, strict=True))}
    kept = {key: slot for key, slot in kept.items() if scores[slot] > NEVER}
    ended = {parent for parent, ends in zip(step.end_parents_BK.tolist(), step.ends_BK.tolist(), strict=True) if ends}
    assert step.looked is not None
    found: list[Branch] = []
    cut = len(tokens) ** 2 - len(kept)
    for token, parent, log, total, score in zip(*(column.tolist() for column in step.looked), strict=True):
        slot = kept.pop((token, parent), -1)
        fate = "kept" if slot >= 0 else "finished" if token == end and parent in ended else "cut"
        cut -= fate == "cut"
        if score > NEVER and (fate != "cut" or cut >= 0):
            found.append(Branch(token, parent, log, total, score, fate, slot))
    for (token, parent), slot in kept.items():  # a group of a diverse beam may choose further down
        log = totals[slot] - (before[parent] if before else 0.0)
        found.append(Branch(token, parent, log, totals[slot], scores[slot], "kept", slot))
    return sorted(found, key=lambda branch: -branch.score)
