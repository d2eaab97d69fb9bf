"""Outputs of CTC frame by frame: the best path, and prefix-beam search.

Log-probabilities log p_t(v) say which label or blank each frame shows. `collapse` makes labels of a path: it merges
repeated labels and removes blanks. The most likely path is not that of the most likely labels, whose
probability is a sum over paths: `prefix_beam_search` adds up those that agree.

`weft.models.ctc` makes of the same log-probabilities a model that every search can step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.search.interface import FORBIDDEN


def collapse(path: Sequence[int], blank: int) -> list[int]:
    """The labels of a path: without repetitions of neighbors, then without blanks."""
    previous = [blank, *path[:-1]]
    return [label for label, before in zip(path, previous, strict=False) if label not in (before, blank)]


def best_path(log_p_TV: Tensor, blank: int) -> list[int]:
    """The labels of the most likely path: greedy decoding."""
    return collapse(log_p_TV.argmax(-1).tolist(), blank)


class CTCHypothesis(NamedTuple):
    """Labels and log p(y | x), summed over the paths in the beam."""

    tokens: list[int]
    log_probability: float


def prefix_beam_search(log_p_TV: Tensor, *, beam: int, blank: int) -> list[CTCHypothesis]:
    """The most likely labels, best first, of the log-probabilities of one source; Hannun et al. 2014.

    After each frame, the ``beam`` prefixes with the largest probability of the paths so far remain. A beam that holds
    all prefixes finds the most likely labels, with their exact probability.
    """
    log_p = log_p_TV.detach().to("cpu", torch.float64).numpy()
    prefixes: list[tuple[int, ...]] = [()]
    blank_K, label_K = np.array([0.0]), np.array([FORBIDDEN])  # of paths that end in a blank, or in a label
    for log_p_V in log_p:
        total_K = np.logaddexp(blank_K, label_K)
        last_K = np.array([prefix[-1] if prefix else blank for prefix in prefixes])
        extended_KV = total_K[:, None] + log_p_V
        rows = np.arange(len(prefixes))
        has_label = last_K != blank
        extended_KV[rows[has_label], last_K[has_label]] = blank_K[has_label] + log_p_V[last_K[has_label]]
        extended_KV[:, blank] = FORBIDDEN
        stays_blank_K = total_K + log_p_V[blank]
        stays_label_K = np.where(has_label, label_K + log_p_V[last_K], FORBIDDEN)
        row_of = {prefix: row for row, prefix in enumerate(prefixes)}
        for row, prefix in enumerate(prefixes):  # a prefix is also reached from the one that lacks its last label
            if prefix and (parent := row_of.get(prefix[:-1])) is not None:
                stays_label_K[row] = np.logaddexp(stays_label_K[row], extended_KV[parent, prefix[-1]])
                extended_KV[parent, prefix[-1]] = FORBIDDEN
        candidates = np.concatenate([np.logaddexp(stays_blank_K, stays_label_K), extended_KV.ravel()])
        best = np.argsort(-candidates, kind="stable")[:beam]
        best = best[candidates[best] > FORBIDDEN]
        stays = best < len(prefixes)
        parents, labels = np.divmod(best - len(prefixes), len(log_p_V))
        blank_K = np.where(stays, stays_blank_K[np.where(stays, best, 0)], FORBIDDEN)
        label_K = np.where(stays, stays_label_K[np.where(stays, best, 0)], candidates[best])
        prefixes = [
            prefixes[index] if is_old else (*prefixes[parent], label)
            for index, is_old, parent, label in zip(
                best.tolist(), stays.tolist(), parents.tolist(), labels.tolist(), strict=True
            )
        ]
    scores = np.logaddexp(blank_K, label_K)
    order = np.argsort(-scores, kind="stable")
    return [CTCHypothesis(list(prefixes[row]), float(scores[row])) for row in order]


def label_positions(log_p_TV: Tensor, labels: Sequence[int], *, blank: int) -> np.ndarray | None:
    """(L, T) p(frame t | label i, y, x): at which frames the paths of these labels show each of them.

    With l = blank y_1 blank … y_L blank, α and β the forward and backward probabilities, p(l_s at t | y, x) is
    α_t(s) β_t(s) / p(y | x); the rows are those of the labels, divided by their sums. None if no path has these labels.
    """
    extended = np.full(2 * len(labels) + 1, blank)
    extended[1::2] = labels
    emitted_TS = log_p_TV.detach().to("cpu", torch.float64).numpy()[:, extended]
    if not len(labels) or len(emitted_TS) < len(labels):
        return None
    forward_TS = _path_sums(emitted_TS, extended, blank)
    backward_TS = _path_sums(emitted_TS[::-1, ::-1], extended[::-1], blank)[::-1, ::-1]
    shown_TS = forward_TS + backward_TS - emitted_TS
    total_T = np.logaddexp.reduce(shown_TS, axis=1)
    if not np.isfinite(total_T).all():
        return None
    shown_LT = np.exp(shown_TS[:, 1::2] - total_T[:, None]).T
    positions_LT: np.ndarray = shown_LT / shown_LT.sum(1, keepdims=True)
    return positions_LT


def _path_sums(emitted_TS: np.ndarray, extended: np.ndarray, blank: int) -> np.ndarray:
    """log α_t(s): of the paths up to frame t that end in state s; Graves et al. 2006, eq. 6 and 7."""
    may_skip = extended != blank
    may_skip[2:] &= extended[2:] != extended[:-2]
    state_S = np.full(len(extended), FORBIDDEN)
    state_S[0] = 0.0  # before the first frame: it reaches the first blank and the first label
    rows = []
    for emitted_S in emitted_TS:
        back_one = np.concatenate([[FORBIDDEN], state_S[:-1]])
        back_two = np.concatenate([[FORBIDDEN] * 2, state_S[:-2]])
        state_S = np.logaddexp(np.logaddexp(state_S, back_one), np.where(may_skip, back_two, FORBIDDEN)) + emitted_S
        rows.append(state_S)
    return np.stack(rows)
