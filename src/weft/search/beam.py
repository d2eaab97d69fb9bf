"""Beam search: k hypotheses side by side.

The policy, in full. At each step every hypothesis is extended by every token; the 2k best extensions are considered.
Those among the first k that end are *set aside* as finished; the k best that do not end stay in the beam. Finished
hypotheses are ranked by ``ranking`` (log p(y|x) / |y|^α, the end token counting in both); those cut off by the length
limit come after all finished ones. A sentence is done at its length limit, or earlier:

    finished   when ``finish`` hypotheses (never fewer than requested) have been set aside
    outranked  when that many have been set aside and, at its present length, nothing in the beam ranks above the n-th
               best of them: endings that a model finds unlikely cannot crowd out an output that is still to end
    outranked_by_all
               the same, but compared with the last of those that have to be set aside: what Hugging Face's `generate`
               does unless ``early_stopping`` is set
    provable   when nothing in the beam can reach the score of the n-th best finished one: log p only falls
    steps      never

So a beam of one is not greedy search: it sets an ending aside and continues only where ``finish`` > 1, and then can
find a better one. With ``groups`` (diverse beam search; Vijayakumar et al. 2018) the beam is divided: at each step a
group sees the tokens that the groups before it have just chosen ``diversity`` lower for each time they were chosen;
that steers the choice and is undone afterwards.

Of every hypothesis that has ended the beam knows a bound on how much better any other output can be (`Hypothesis.gap`,
see `weft.search.ranking`), unless it is divided into groups.

Constraints, forced prefixes and minimum lengths change the *scores* that hypotheses are compared by; log p stays the
model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.errors import SearchError
from weft.runtime.replaceable import replaceable
from weft.search.backtrace import BeamRecord, Candidates, backtrace
from weft.search.constraints import (
    Extensions,
    LogitsConstraint,
    apply_constraints,
    top_k,
    top_k_constrained,
    top_k_extensions,
)
from weft.search.interface import FORBIDDEN, Hypothesis, SearchRequest, StepModel, steps_for
from weft.search.loop import SearchInputs, SearchStart, SearchState, StepLoop, history_window
from weft.search.ranking import DEFAULT_RANKING, NO_ATTENTION, Ranking, coverage_score
from weft.tree import Tree

STOPS = ("finished", "outranked", "outranked_by_all", "provable", "steps")
LARGE_BEAM = 64


@dataclass(frozen=True)
class BeamOptions:
    """The settings of a beam search."""

    size: int = 5
    """k: hypotheses in the beam."""
    ranking: Ranking = DEFAULT_RANKING
    stop: str = "finished"
    finish: int = 0
    """Hypotheses that are set aside before the search stops; 0: as many as the beam holds."""
    groups: int = 1
    diversity: float = 0.5

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SearchError(f"search.size: {self.size}; a beam holds at least 1 hypothesis")
        if self.groups < 1 or self.size % self.groups:
            raise SearchError(
                f"search.groups: {self.groups}; a beam of {self.size} cannot be divided into that many equal groups"
            )
        if self.stop not in STOPS:
            raise SearchError(f"search.stop: {self.stop!r} is not known; use {', '.join(STOPS)}")

    def compared(self, n_best: int) -> int:
        """The number of best finished scores that a stop compares with."""
        return self.finished_needed(n_best) if self.stop == "outranked_by_all" else n_best

    def finished_needed(self, n_best: int) -> int:
        """Hypotheses to set aside, the same number in each group."""
        return -(-max(self.finish or self.size, n_best) // self.groups) * self.groups


class BeamState(NamedTuple):
    """The beams of all sentences between two steps."""

    totals_BK: Tensor
    """log p of every hypothesis."""
    scores_BK: Tensor
    """The scores by which hypotheses are compared: log p unless a constraint changed it; −∞ for an empty slot."""
    finished_BG: Tensor
    """The number of hypotheses set aside, by group."""
    best_BN: Tensor
    """For stops that compare scores: those of the n best finished ones, best first."""
    coverage_BKS: Tensor | None
    """For a coverage penalty: the attention weights of all steps, summed."""


@torch.no_grad()
def beam_search(
    model: StepModel, request: SearchRequest, options: BeamOptions = BeamOptions()
) -> Sequence[list[Hypothesis]]:
    """The best hypotheses of every sentence, best first."""
    if not request.max_lengths:
        return []
    return_attention = request.return_attention or bool(options.ranking.beta)
    model = steps_for(model, request, rows=options.size, return_attention=return_attention)
    loop = request.loop or StepLoop()
    step = BeamStep(
        model,
        options,
        end=request.end,
        n_best=request.n_best,
        constraints=request.constraints,
        return_attention=request.return_attention,
        return_trace=request.return_trace,
        is_observed=loop.is_observed,
    )
    window = history_window(request)
    start = BeamStart(model, request.begin, options.size, window, request.device, options, request.n_best)
    inputs = SearchInputs.of(request, covers=bool(options.ranking.beta))
    records = loop.search(step, start, inputs, return_attention=return_attention)
    return backtrace(records, request, options.size, options.ranking, groups=options.groups)


@dataclass(frozen=True)
class BeamStart(SearchStart):
    """The beams of all sentences before the first step: one hypothesis in each group."""

    options: BeamOptions
    n_best: int

    def extra(self, inputs: SearchInputs) -> BeamState:
        sentences, size, device = len(inputs.limits.max_lengths_B), self.options.size, self.device
        scores_BK = torch.full((sentences, size), FORBIDDEN, device=device)
        scores_BK[:, :: size // self.options.groups] = 0.0
        coverage_BKS = None
        if self.options.ranking.beta:
            begin_B = torch.full((sentences,), self.begin, device=device)
            attention_BS = self.model.step(begin_B, self.model.start(inputs.memory), inputs.memory)[2]
            if attention_BS is None:
                raise SearchError(NO_ATTENTION)
            coverage_BKS = torch.zeros(sentences, size, attention_BS.shape[1], device=device)
        return BeamState(
            totals_BK=torch.zeros_like(scores_BK),
            scores_BK=scores_BK,
            finished_BG=torch.zeros(sentences, self.options.groups, dtype=torch.int64, device=device),
            best_BN=torch.full((sentences, self.options.compared(self.n_best)), FORBIDDEN, device=device),
            coverage_BKS=coverage_BKS,
        )


@dataclass(frozen=True)
class BeamStep:
    """One step of all sentences; the shapes of the state do not change, so that it can be captured in a CUDA graph."""

    model: StepModel
    options: BeamOptions
    end: int
    n_best: int
    constraints: tuple[LogitsConstraint, ...]
    return_attention: bool
    return_trace: bool
    is_observed: bool = False
    """Whether an observer reads the record of each step as it is taken."""

    def __call__(self, state: SearchState) -> tuple[SearchState, BeamRecord]:
        logits_RV, model_state, attention_RS = self.model.step(state.tokens_R, state.model_state, state.memory)
        return self.update(state, logits_RV, model_state, attention_RS)

    @replaceable
    def update(
        self, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
    ) -> tuple[SearchState, BeamRecord]:
        """The beams of all sentences after one more token, from what the model has returned."""
        beam: BeamState = state.extra
        sentences, size = beam.totals_BK.shape
        coverage_BKS = None
        if attention_RS is not None and beam.coverage_BKS is not None:
            coverage_BKS = beam.coverage_BKS + attention_RS.float().view(sentences, size, -1)
        chosen, candidates = self._choose(logits_RV, state)

        penalty_1 = self.options.ranking.penalties(state.length_1 + 1)
        end_ranking_BK = chosen.end_scores_BK / penalty_1
        ranking_BK = chosen.scores_BK / penalty_1
        if coverage_BKS is not None:
            coverage_BK = self.options.ranking.beta * coverage_score(coverage_BKS, state.inputs.source_lengths_B)
            end_ranking_BK = end_ranking_BK + coverage_BK.gather(1, chosen.end_parents_BK)
            ranking_BK = ranking_BK + coverage_BK.gather(1, chosen.parents_BK)
        ends_BK = chosen.ends_BK & ~state.done_B[:, None]
        end_ranking_BK = end_ranking_BK.masked_fill(~ends_BK, FORBIDDEN)
        finished_BG = beam.finished_BG + ends_BK.unflatten(1, (self.options.groups, -1)).sum(2)
        stopped_B, best_BN = self._stop(state, chosen.scores_BK, finished_BG, end_ranking_BK)

        offsets_B1 = torch.arange(sentences, device=state.done_B.device)[:, None] * size
        parents_R = (chosen.parents_BK + offsets_B1).flatten()
        if coverage_BKS is not None:
            coverage_BKS = coverage_BKS.flatten(0, 1).index_select(0, parents_R).view(coverage_BKS.shape)
        after = state.advance(model_state, parents_R, chosen.tokens_BK.flatten())._replace(
            extra=BeamState(chosen.totals_BK, chosen.scores_BK, finished_BG, best_BN, coverage_BKS),
            done_B=state.done_B | stopped_B,
        )
        attention_BKS = None
        if attention_RS is not None and self.return_attention:
            attention_BKS = attention_RS.view(sentences, size, -1)
        record = BeamRecord(
            parents_BK=chosen.parents_BK,
            tokens_BK=chosen.tokens_BK,
            totals_BK=chosen.totals_BK,
            ranking_BK=ranking_BK,
            ends_BK=ends_BK,
            end_parents_BK=chosen.end_parents_BK,
            end_totals_BK=chosen.end_totals_BK,
            end_ranking_BK=end_ranking_BK,
            stopped_B=stopped_B & ~state.done_B,
            following_BG=chosen.following_B1,
            attention_BKS=attention_BKS,
            candidates=candidates,
        )
        return after, record

    def _choose(self, logits_RV: Tensor, state: SearchState) -> tuple[_Chosen, Candidates | None]:
        """The extensions that end and those that stay in the beam; for a trace, all that were considered."""
        beam: BeamState = state.extra
        size = self.options.size
        # Where constraints only forbid, scores are log p: the best are found without log p of all the others.
        if self.options.groups == 1 and not self.return_trace and all(one.forbids for one in self.constraints):
            best = top_k_constrained(logits_RV, beam.scores_BK, 2 * size, state, self.constraints, self.end)
            return _divide(best, best.scores_BC, size, self.end), None
        log_probs_RV = logits_RV.log_softmax(-1, dtype=torch.float32)
        scores_RV = apply_constraints(log_probs_RV, state, self.constraints, self.end)
        candidates = None
        if self.options.groups == 1:
            chosen = _extend(scores_RV, log_probs_RV, beam.scores_BK, beam.totals_BK, self.end)
        else:
            chosen = self._choose_by_group(scores_RV, log_probs_RV, beam)
        if self.return_trace:
            candidates = self._candidates(scores_RV, log_probs_RV, beam, state.length_1 + 1)
        return chosen, candidates

    def _choose_by_group(self, scores_RV: Tensor, log_probs_RV: Tensor, beam: BeamState) -> _Chosen:
        """One group after the other, each avoiding the tokens of those before it."""
        sentences, size = beam.totals_BK.shape
        group_size, diversity = size // self.options.groups, self.options.diversity
        counts_BV = log_probs_RV.new_zeros(sentences, log_probs_RV.shape[-1])
        groups: list[_Chosen] = []
        scores_BKV, log_probs_BKV = scores_RV.view(sentences, size, -1), log_probs_RV.view(sentences, size, -1)
        for first in range(0, size, group_size):
            slots = slice(first, first + group_size)
            lowered_RV = (scores_BKV[:, slots] - diversity * counts_BV[:, None]).flatten(0, 1)
            group_log_probs_RV = log_probs_BKV[:, slots].flatten(0, 1)
            group = _extend(
                lowered_RV, group_log_probs_RV, beam.scores_BK[:, slots], beam.totals_BK[:, slots], self.end
            )
            undone_BK = counts_BV.gather(1, group.tokens_BK) * diversity
            group = group._replace(
                scores_BK=group.scores_BK + undone_BK,
                end_scores_BK=group.end_scores_BK + (counts_BV[:, self.end] * diversity)[:, None],
                parents_BK=group.parents_BK + first,
                end_parents_BK=group.end_parents_BK + first,
            )
            used_BK = (~group.scores_BK.isneginf()).to(counts_BV.dtype)
            counts_BV = counts_BV.scatter_add(1, group.tokens_BK, used_BK)
            groups.append(group)
        return _Chosen(*(torch.cat(columns, 1) for columns in zip(*groups, strict=True)))

    def _stop(
        self, state: SearchState, scores_BK: Tensor, finished_BG: Tensor, end_ranking_BK: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which sentences are done now, and the scores of the best finished hypotheses."""
        options, best_BN = self.options, state.extra.best_BN
        max_lengths_B = state.limits.max_lengths_B
        stopped_B = (max_lengths_B <= state.length_1 + 1) | scores_BK.isneginf().all(1)
        if options.stop in ("outranked", "outranked_by_all", "provable"):
            best_BN = torch.cat([best_BN, end_ranking_BK], 1).topk(best_BN.shape[1]).values
        if options.stop in ("finished", "outranked", "outranked_by_all"):
            needed = options.finished_needed(self.n_best) // options.groups
            enough_B = (finished_BG >= needed).all(1)
            if options.stop != "finished":
                ranking_B = scores_BK.amax(1) / options.ranking.penalties(state.length_1 + 1)
                enough_B = enough_B & (ranking_B <= best_BN[:, -1])
            stopped_B = stopped_B | enough_B
        elif options.stop == "provable":
            bound_B = scores_BK.amax(1) / options.ranking.penalties(max_lengths_B)
            stopped_B = stopped_B | (bound_B <= best_BN[:, -1])
        return stopped_B, best_BN

    def _candidates(self, scores_RV: Tensor, log_probs_RV: Tensor, beam: BeamState, length_1: Tensor) -> Candidates:
        """For a trace: the best extensions of every hypothesis, best first."""
        sentences, size = beam.totals_BK.shape
        scores_RC, tokens_RC = top_k(scores_RV, 2 * size)
        log_probs_RC = log_probs_RV.gather(1, tokens_RC)
        scores_BC = (beam.scores_BK.flatten()[:, None] + scores_RC).view(sentences, -1)
        totals_BC = (beam.totals_BK.flatten()[:, None] + log_probs_RC).view(sentences, -1)
        slots_K = torch.arange(size, device=scores_RV.device)
        parents_BC = slots_K.repeat_interleave(tokens_RC.shape[1]).expand(sentences, -1)
        order_BC = scores_BC.argsort(dim=1, descending=True, stable=True)
        return Candidates(
            tokens_RC.view(sentences, -1).gather(1, order_BC),
            parents_BC.gather(1, order_BC),
            log_probs_RC.view(sentences, -1).gather(1, order_BC),
            totals_BC.gather(1, order_BC),
            scores_BC.gather(1, order_BC) / self.options.ranking.penalties(length_1),
        )


class _Chosen(NamedTuple):
    """The extensions that stay in the beam, and the first k, of which some end."""

    parents_BK: Tensor
    tokens_BK: Tensor
    totals_BK: Tensor
    scores_BK: Tensor
    ends_BK: Tensor
    end_parents_BK: Tensor
    end_totals_BK: Tensor
    end_scores_BK: Tensor
    following_B1: Tensor
    """The score of the first one after the k best: nothing that is discarded has a higher one."""


def _extend(scores_RV: Tensor, log_probs_RV: Tensor, scores_BK: Tensor, totals_BK: Tensor, end: int) -> _Chosen:
    """Every hypothesis by every token: the 2k best, with their log p."""
    sentences, size = scores_BK.shape
    best = top_k_extensions(scores_RV, scores_BK, 2 * size)
    indices_BC = best.parents_BC * log_probs_RV.shape[-1] + best.tokens_BC
    totals_BC = totals_BK.gather(1, best.parents_BC) + log_probs_RV.view(sentences, -1).gather(1, indices_BC)
    return _divide(best, totals_BC, size, end)


def _divide(best: Extensions, totals_BC: Tensor, size: int, end: int) -> _Chosen:
    """The extensions that end, and those that stay in the beam."""
    scores_BC, parents_BC, tokens_BC = best
    ends_BC = tokens_BC == end
    stay_BK, exists_BK = _first_without_end(ends_BC, size)
    ends_BK = ends_BC[:, :size] & ~scores_BC[:, :size].isneginf()
    return _Chosen(
        parents_BC.gather(1, stay_BK),
        tokens_BC.gather(1, stay_BK),
        totals_BC.gather(1, stay_BK),
        scores_BC.gather(1, stay_BK).masked_fill(~exists_BK, FORBIDDEN),
        _pad(ends_BK, size),
        _pad(parents_BC[:, :size], size),
        _pad(totals_BC[:, :size], size),
        _pad(scores_BC[:, :size], size, FORBIDDEN),
        _pad(scores_BC[:, size : size + 1], 1, FORBIDDEN),
    )


def _first_without_end(ends_BC: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The indices of the first ``size`` extensions that do not end, in order, and whether there are that many."""
    count_BC = (~ends_BC).cumsum(1)
    slots_K = torch.arange(size, device=ends_BC.device)
    if size <= LARGE_BEAM:
        indices_BK = (count_BC[:, None] <= slots_K[:, None]).sum(2)
    else:  # the same in memory that does not grow with the square of the beam
        indices_BK = torch.searchsorted(count_BC, slots_K.expand(len(count_BC), -1).contiguous(), right=True)
    return indices_BK.clamp(max=ends_BC.shape[1] - 1), count_BC[:, -1:] > slots_K


def _pad(values_BC: Tensor, size: int, fill: float = 0.0) -> Tensor:
    """Empty slots, where the vocabulary is smaller than the beam."""
    missing = size - values_BC.shape[1]
    return values_BC if not missing else pad(values_BC, (0, missing), value=fill)
