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
