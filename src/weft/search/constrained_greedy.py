"""Greedy search with required terms: one hypothesis of each sentence, and a further search of those that lack a term.

What a term is, and what counts as its occurrence, is said in `weft.search.constrained_beam`. Let w be the most likely
token of a step, and let a token be plausible if

    log p(token) − log p(w) ≥ −(PATIENCE − PATIENCE_BY_SURPRISE · log p(w))

At each step of a hypothesis that lacks terms

    within a match, the token that continues it is taken, if it is plausible, or whatever it is if a token of the match
    was not the most likely one;
    else, outside of a match, the token that begins a variant of a missing term, if it is plausible;
    else w.

Of several, the most likely one is taken. So a term stands where the model finds it plausible, in place of the word that
it would rather have said, and what was begun for a term becomes one. Where the model is certain of w, often a function
word or the end of a word, a term has to be likely; where it is not, w is one word of several that would do.

Where no such step comes, the output ends without the term. It is searched again: the position of each missing term is
the step where log p(token) − log p(w), its margin, is largest, and the first of these is filled. The tokens up to there
and the term are a forced prefix, and the rest follows as above. Each search adds a term, unless the length limit leaves
no room or a constraint forbids it: that output lacks it.

Most sentences are searched once, in one batch with those that have no terms. Letters as in `weft.search.required`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.search.constraints import constrained_scores, first_largest
from weft.search.interface import FORBIDDEN, Hypothesis, SearchRequest, StepModel
from weft.search.loop import SearchInputs, SearchState, StepLoop, StepRecords, history_window, steps_for
from weft.search.paths import path_hypotheses
from weft.search.ranking import HypothesisArrays, Ranking
from weft.search.required import TermProgress
from weft.search.sampling import GREEDY, PathStart, PathStep, greedy_search
from weft.tree import Tree, map_tree, select

PATIENCE, PATIENCE_BY_SURPRISE = 1.0, 3.0
"""The log p that a step may lose for a term, and how much more for each nat of −log p of the most likely token: 37 % of
the probability of a token that is certain is enough, 5 % of that of a token with p = 0.5."""


class TermPathState(NamedTuple):
    """`PathState` of sentences with terms."""

    active_BK: Tensor
    insists_BK: Tensor
    """Whether a token of the match that the hypothesis is within was not the most likely one."""
    progress: TermProgress


class TermPathRecord(NamedTuple):
    """`PathRecord`, and how plausible it was to begin each term."""

    tokens_BK: Tensor
    log_probs_BK: Tensor
    active_BK: Tensor
    scores_BK: Tensor | None
    attention_BKS: Tensor | None
    candidates: None
    margins_BC: Tensor
    """The margin of the token that begins the most likely variant of each term; −∞ where it is not missing."""
    variants_BC: Tensor
    """The number of that variant."""


@torch.no_grad()
def greedy_search_with_terms(
    model: StepModel, request: SearchRequest, ranking: Ranking = Ranking("none")
) -> Sequence[list[Hypothesis]]:
    """One hypothesis for every sentence."""
    if not any(request.required):
        return greedy_search(model, request, ranking)
    hypotheses, prefixes = _search_once(model, request, ranking)
    rows = list(range(len(request.max_lengths)))
    while prefixes:
        lacking = list(prefixes)
        rows, request = [rows[index] for index in lacking], _of_sentences(request, prefixes)
        again, prefixes = _search_once(model, request, ranking)
        hypotheses = _with(hypotheses, rows, again)
    return hypotheses


def _of_sentences(request: SearchRequest, prefixes: dict[int, list[int]]) -> SearchRequest:
    """The request for some of its sentences, with forced prefixes."""
    rows = list(prefixes)
    names = ("max_lengths", "source_lengths", "min_lengths", "required")
    values: dict[str, Any] = {
        name: [getattr(request, name)[row] for row in rows] for name in names if len(getattr(request, name))
    }
    loop = None if request.loop is None else request.loop.of_sentences(rows)
    memory = select(request.memory, torch.tensor(rows, device=request.device))
    return replace(request, memory=memory, prefixes=list(prefixes.values()), loop=loop, **values)


def _with(
    all_hypotheses: Sequence[list[Hypothesis]], rows: list[int], others: Sequence[list[Hypothesis]]
) -> Sequence[list[Hypothesis]]:
    """All hypotheses, those of some sentences replaced."""
    if isinstance(all_hypotheses, HypothesisArrays) and isinstance(others, HypothesisArrays):
        return all_hypotheses.replaced(rows, others)
    replaced = dict(zip(rows, others, strict=True))
    return [replaced.get(row, hypotheses) for row, hypotheses in enumerate(all_hypotheses)]


def _search_once(
    model: StepModel, request: SearchRequest, ranking: Ranking
) -> tuple[Sequence[list[Hypothesis]], dict[int, list[int]]]:
    """The hypotheses, and a longer prefix for each sentence that lacks a term and has room for it."""
    return_attention = request.return_attention or bool(ranking.beta)
    stepped = steps_for(model, request, rows=1, return_attention=return_attention)
    loop = request.loop or StepLoop()
    step = TermPathStep(stepped, GREEDY, request.end, request.constraints, return_attention, 0, loop.is_observed)
    start = TermPathStart(stepped, request.begin, 1, history_window(request), request.device)
    steps = loop.search(step, start, SearchInputs.of(request), return_attention=return_attention)
    steps = [map_tree(Tensor.cpu, part) for part in steps]
    return path_hypotheses(steps, request, ranking, with_gap=False), longer_prefixes(steps, request)


@dataclass(frozen=True)
class TermPathStart(PathStart):
    """All hypotheses before their first token."""

    def extra(self, inputs: SearchInputs) -> Any:
        assert inputs.limits.required is not None
        active_BK = super().extra(inputs).active_BK
        return TermPathState(active_BK, torch.zeros_like(active_BK), inputs.limits.required.start(1))


@dataclass(frozen=True)
class TermPathStep(PathStep):
    """One step of all hypotheses."""

    def update(
        self, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
    ) -> tuple[SearchState, Any]:
        paths: TermPathState = state.extra
        terms = state.limits.required
        assert terms is not None
        progress: TermProgress = map_tree(lambda leaf: leaf.flatten(0, 1), paths.progress)
        log_probs_RV, scores_RV, sums_R1 = constrained_scores(logits_RV, state, self.constraints, self.end)
        best_R1 = first_largest(scores_RV)
        begin_RX, continue_RX = terms.next_tokens(progress)
        candidates_RX = torch.cat((best_R1, begin_RX, continue_RX), 1)
        best_scores_R1, margins_RX = _margins(scores_RV, candidates_RX)
        begin_margins_RX, continue_margins_RX = margins_RX.chunk(2, 1)
        begin_margin_R1, begin_R1 = begin_margins_RX.max(1, keepdim=True)
        continue_margin_R1, continue_R1 = continue_margins_RX.max(1, keepdim=True)
        surprise_R1 = (sums_R1 - best_scores_R1).masked_fill(best_scores_R1.isneginf(), 0)
        least_R1 = -(PATIENCE + PATIENCE_BY_SURPRISE * surprise_R1)
        is_within_R1 = (continue_RX >= 0).any(1, keepdim=True)
        insists_R1 = paths.insists_BK & ~continue_margin_R1.isneginf()
        continues_R1 = insists_R1 | (continue_margin_R1 >= least_R1)
        begins_R1 = ~is_within_R1 & (begin_margin_R1 >= least_R1)
        chosen_R1 = (1 + begin_R1) * begins_R1
        chosen_R1 = torch.where(continues_R1, 1 + begin_RX.shape[1] + continue_R1, chosen_R1)
        tokens_R1 = candidates_RX.gather(1, chosen_R1)
        insists_R1 = (continues_R1 & insists_R1) | ((continues_R1 | begins_R1) & (tokens_R1 != best_R1))
        scores_R1 = scores_RV.gather(1, tokens_R1)
        log_probs_R1 = (log_probs_RV.gather(1, tokens_R1) - sums_R1).masked_fill(scores_R1.isneginf(), FORBIDDEN)
        chosen = tokens_R1[:, 0], log_probs_R1[:, 0], None if log_probs_RV is scores_RV else scores_R1[:, 0], None
        after, record = self.extended(state, chosen, model_state, attention_RS)
        progress = map_tree(lambda leaf: leaf[:, None], terms.take(progress, tokens_R1[:, 0]))
        margins_BC, variants_BC = begin_margins_RX.unflatten(1, terms.lengths_BCA.shape[1:]).max(2)
        after = after._replace(extra=TermPathState(after.extra.active_BK, insists_R1, progress))
        return after, TermPathRecord(*record[:5], None, margins_BC, variants_BC)


def _margins(scores_RV: Tensor, tokens_RX: Tensor) -> tuple[Tensor, Tensor]:
    """(R, 1) the score of the first of several tokens, and how much more the others have; −∞ for `NOTHING`."""
    scores_RX = scores_RV.gather(1, tokens_RX.clamp(min=0)).float()
    first_R1, margins_RX = scores_RX[:, :1], scores_RX[:, 1:] - scores_RX[:, :1]
    return first_R1, margins_RX.masked_fill((tokens_RX[:, 1:] < 0) | first_R1.isneginf(), FORBIDDEN)


class _Steps(NamedTuple):
    """All steps of all sentences as arrays."""

    tokens_BT: np.ndarray
    lengths_B: np.ndarray
    margins_BTC: np.ndarray
    variants_BTC: np.ndarray

    @classmethod
    def of(cls, steps: Sequence[StepRecords], sentences: int) -> _Steps:
        time = sum(len(part.records.tokens_BK) for part in steps)
        terms = steps[0].records.margins_BC.shape[-1]
        arrays = cls(
            np.zeros((sentences, time), dtype=np.int64),
            np.zeros(sentences, dtype=np.int64),
            np.full((sentences, time, terms), FORBIDDEN),
            np.zeros((sentences, time, terms), dtype=np.int64),
        )
        start = 0
        for rows, record in steps:
            rows_N, stop = rows.numpy(), start + len(record.tokens_BK)
            arrays.tokens_BT[rows_N, start:stop] = record.tokens_BK[..., 0].numpy().T
            arrays.lengths_B[rows_N] += record.active_BK[..., 0].numpy().sum(0)
            arrays.margins_BTC[rows_N, start:stop] = record.margins_BC.numpy().swapaxes(0, 1)
            arrays.variants_BTC[rows_N, start:stop] = record.variants_BC.numpy().swapaxes(0, 1)
            start = stop
        return arrays


def longer_prefixes(steps: Sequence[StepRecords], request: SearchRequest) -> dict[int, list[int]]:
    """The next prefix of each sentence that lacks a term: its tokens up to where the first term fits best, and that.

    ``steps``: those of `TermPathStep`, on the CPU.
    """
    arrays = _Steps.of(steps, len(request.max_lengths))
    prefixes: dict[int, list[int]] = {}
    for row, listed in enumerate(request.required):
        length, limit = int(arrays.lengths_B[row]), request.max_lengths[row]
        start = len(request.prefixes[row]) if request.prefixes else 0
        tokens = arrays.tokens_BT[row, :length].tolist()
        terms = Counter(tuple(map(tuple, variants)) for variants in listed)  # in the order of `RequiredTerms`
        continuations: list[tuple[int, list[int]]] = []
        for number, (variants, times) in enumerate(terms.items()):
            if occurrences(tokens, variants) >= times:
                continue
            lengths_T = np.array([*map(len, variants)])[arrays.variants_BTC[row, :length, number]]
            margins_T = arrays.margins_BTC[row, :length, number]
            has_room_T = (np.arange(length) >= start) & (np.arange(length) + lengths_T <= limit)
            margins_T = np.where(has_room_T, margins_T, FORBIDDEN)
            time = int(margins_T.argmax()) if length else 0
            if length and margins_T[time] > FORBIDDEN:
                continuations.append((time, list(variants[arrays.variants_BTC[row, time, number]])))
        if continuations:
            time, variant = min(continuations)
            prefixes[row] = [*tokens[:time], *variant]
    return prefixes


def occurrences(tokens: Sequence[int], variants: Sequence[Sequence[int]]) -> int:
    """How often one of the variants occurs, from the left, no two of them sharing a token."""
    count = start = 0
    last_tokens = {one[-1] for one in variants}
    for stop, token in enumerate(tokens, 1):
        if token in last_tokens and any(
            stop - len(one) >= start and tuple(tokens[stop - len(one) : stop]) == tuple(one) for one in variants
        ):
            count, start = count + 1, stop
    return count
