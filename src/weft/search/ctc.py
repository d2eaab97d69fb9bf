"""Outputs of CTC: the best path, prefix-beam search, and CTC as a model that a search steps.

Log-probabilities log p_t(v) say which label or blank each frame shows. `collapse` makes labels of a path: it merges
repeated labels and removes blanks. The most likely path is not that of the most likely labels, whose
probability is a sum over paths: `prefix_beam_search` adds up those that agree.

`CTCPrefixModel` gives the probability of the next label given those before it:

    ψ(h) = p(labels begin with h) = Σ_t φ_{t−1}(g, c) p_t(c)                h = g·c    Graves 2012, 7.5.2
    φ_t(g, c) = β_t(g) + [c ≠ last label of g] ν_t(g)                       Watanabe et al. 2017, algorithm 2
    ν_t(h) = (ν_{t−1}(h) + φ_{t−1}(g, c)) p_t(c)                            paths to frame t that give h, end in c
    β_t(h) = (β_{t−1}(h) + ν_{t−1}(h)) p_t(blank)                           … and end in a blank
    p(c | g) = ψ(g·c) / ψ(g),   p(end | g) = (ν_T(g) + β_T(g)) / ψ(g)

Since these are probabilities of a next token like those of any model, beam search, exact search, sampling and
constraints work with them, and a mean of both logarithms is the joint CTC/attention score of a beam.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.search.interface import FORBIDDEN

NO_LABEL = -1
"""The last label of an empty prefix."""


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


class CTCMemory(NamedTuple):
    """Log-probabilities of the frames of a batch, padded, and how many frames each row has."""

    log_p_BTV: Tensor
    lengths_B: Tensor


class CTCPrefix(NamedTuple):
    """The labels of each hypothesis so far; probabilities as logarithms, by the number of frames from 0 to T."""

    label_RT: Tensor
    """ν_t: of paths of t frames that give these labels and end in the last of them."""
    blank_RT: Tensor
    """β_t: of those that end in a blank."""
    last_R: Tensor
    """The last label; `NO_LABEL` of no labels."""
    total_R: Tensor
    """ψ: of all outputs that begin with these labels."""
    has_begun_R: Tensor
    """Whether the begin token has been passed."""


class CTCPrefixModel:
    """CTC as a model that a search steps (`weft.search.interface.StepModel`)."""

    def __init__(self, *, blank: int, end: int) -> None:
        """``blank``: a token that no output has, for example the begin token; ``end``: the end token."""
        self.blank = blank
        self.end = end

    def start(self, memory: CTCMemory) -> CTCPrefix:
        """The prefix of no labels: its paths are all blank."""
        blank_BT = memory.log_p_BTV[:, :, self.blank].cumsum(1)
        blank_BT = torch.cat([torch.zeros_like(blank_BT[:, :1]), blank_BT], 1)
        first_B = torch.zeros_like(memory.lengths_B)
        return CTCPrefix(
            torch.full_like(blank_BT, FORBIDDEN),
            blank_BT,
            first_B + NO_LABEL,
            torch.zeros_like(blank_BT[:, 0]),
            first_B.bool(),
        )

    def step(self, tokens_R: Tensor, state: CTCPrefix, memory: CTCMemory) -> tuple[Tensor, CTCPrefix, None]:
        """log p(next token | labels, x), and the prefix with these tokens; a first token is that of the beginning."""
        copies = len(tokens_R) // len(memory.lengths_B)
        log_p_RTV = memory.log_p_BTV.repeat_interleave(copies, 0)
        lengths_R = memory.lengths_B.repeat_interleave(copies)
        longer = self._extended(tokens_R, state, log_p_RTV, lengths_R)
        state = CTCPrefix(*(_where(state.has_begun_R, new, old) for new, old in zip(longer, state, strict=True)))
        state = state._replace(has_begun_R=torch.ones_like(state.has_begun_R))
        log_RV = self._begins(state, log_p_RTV, lengths_R)
        whole_RT = torch.logaddexp(state.label_RT, state.blank_RT)
        log_RV[:, self.end] = whole_RT.gather(1, lengths_R[:, None])[:, 0]
        log_RV[:, self.blank] = FORBIDDEN
        impossible_R1 = state.total_R.isneginf()[:, None]  # no path gives these labels: nothing may follow
        return (log_RV - state.total_R[:, None]).masked_fill(impossible_R1, FORBIDDEN), state, None

    def _begins(self, state: CTCPrefix, log_p_RTV: Tensor, lengths_R: Tensor) -> Tensor:
        """(R, V) log ψ(g·c) = log Σ_t φ_{t−1}(g, c) p_t(c) of every next label c."""
        any_RT = torch.logaddexp(state.label_RT, state.blank_RT)[:, :-1]
        blank_RT = state.blank_RT[:, :-1]
        padding_RT = torch.arange(any_RT.shape[1], device=any_RT.device) >= lengths_R[:, None]
        log_p_RTV = log_p_RTV.masked_fill(padding_RT[:, :, None], FORBIDDEN)
        scores_RV = (any_RT[:, :, None] + log_p_RTV).logsumexp(1)
        last_R1 = state.last_R.clamp(min=0)[:, None]
        log_p_RT = log_p_RTV.gather(2, last_R1[:, None].expand(-1, log_p_RTV.shape[1], 1))[:, :, 0]
        repeated_R1 = (blank_RT + log_p_RT).logsumexp(1, keepdim=True)
        repeated_R1 = torch.where(state.last_R[:, None] == NO_LABEL, scores_RV.gather(1, last_R1), repeated_R1)
        return scores_RV.scatter(1, last_R1, repeated_R1)

    def _extended(self, tokens_R: Tensor, state: CTCPrefix, log_p_RTV: Tensor, lengths_R: Tensor) -> CTCPrefix:
        """The prefixes with one more label: ν and β, frame by frame."""
        any_RT = torch.logaddexp(state.label_RT, state.blank_RT)
        entering_RT = torch.where((tokens_R == state.last_R)[:, None], state.blank_RT, any_RT)  # φ
        total_R = self._begins(state, log_p_RTV, lengths_R).gather(1, tokens_R[:, None])[:, 0]
        log_label_RT = log_p_RTV.gather(2, tokens_R[:, None, None].expand(-1, log_p_RTV.shape[1], 1))[:, :, 0]
        log_blank_RT = log_p_RTV[:, :, self.blank]
        label_R = blank_R = torch.full_like(total_R, FORBIDDEN)
        labels, blanks = [label_R], [blank_R]
        for time in range(log_label_RT.shape[1]):
            blank_R = torch.logaddexp(blank_R, label_R) + log_blank_RT[:, time]
            label_R = torch.logaddexp(label_R, entering_RT[:, time]) + log_label_RT[:, time]
            labels.append(label_R)
            blanks.append(blank_R)
        return CTCPrefix(torch.stack(labels, 1), torch.stack(blanks, 1), tokens_R, total_R, state.has_begun_R)


def joint_scores(attention_RV: Tensor, ctc_RV: Tensor, weight: float) -> Tensor:
    """(1 − λ) log p_attention + λ log p_CTC of the next token: Watanabe et al. 2017, eq. 15."""
    return (1 - weight) * attention_RV.log_softmax(-1) + weight * ctc_RV if weight else attention_RV.log_softmax(-1)


def _where(chosen_R: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(chosen_R.view(-1, *[1] * (old.dim() - 1)), new, old)
