"""Searches with one hypothesis at a time: greedy search and sampling.

    greedy    y_t = argmax p(y | y_<t, x)
    sampling  y_t ~ p(y | y_<t, x), with a temperature and filters (`SamplingFilter`), several samples a sentence on
              request

A draw depends on the seed, the sentence's rng key, the number of the sample and the step: never on the other sentences
of the batch. A hypothesis is scored by the given ranking as in a beam (`weft.search.beam`): constraints count, filters
and the temperature do not; log p stays the model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from weft.runtime.replaceable import replaceable
from weft.search.constraints import LogitsConstraint, apply_constraints, top_k, top_k_constrained
from weft.search.interface import FORBIDDEN, Hypothesis, SearchRequest, StepModel
from weft.search.loop import SearchInputs, SearchStart, SearchState, StepLoop, history_window, steps_for
from weft.search.paths import PathCandidates, PathRecord, path_hypotheses
from weft.search.ranking import Ranking
from weft.search.sampling_filters import SamplingFilter, draw, uniforms
from weft.tree import Tree


class TokenChooser(Protocol):
    """Chooses the next token."""

    def filter(self, scores_RV: Tensor) -> Tensor:
        """The scores with −∞ for the tokens that are not chosen from."""

    def choose(self, scores_RV: Tensor, rng_keys_R: Tensor, samples_R: Tensor, length_1: Tensor) -> Tensor:
        """The next token of each row, by filtered scores."""


class Greedy:
    """The most likely token; of equals the one with the smallest id."""

    def filter(self, scores_RV: Tensor) -> Tensor:
        return scores_RV

    def choose(self, scores_RV: Tensor, rng_keys_R: Tensor, samples_R: Tensor, length_1: Tensor) -> Tensor:
        return scores_RV.argmax(-1)


@dataclass(frozen=True)
class Sampler:
    """A random token among those that the filters keep."""

    filters: SamplingFilter = field(default_factory=SamplingFilter)
    seed: int = 1

    def filter(self, scores_RV: Tensor) -> Tensor:
        return self.filters(scores_RV)

    def choose(self, scores_RV: Tensor, rng_keys_R: Tensor, samples_R: Tensor, length_1: Tensor) -> Tensor:
        return draw(scores_RV, uniforms(self.seed, rng_keys_R, samples_R, length_1.expand_as(rng_keys_R)))


GREEDY = Greedy()


ChosenTokens = tuple[Tensor, Tensor, Tensor | None, PathCandidates | None]


class PathState(NamedTuple):
    """The hypotheses of all sentences between two steps."""

    active_BK: Tensor
    """Whether the hypothesis has not ended."""


@replaceable
def greedy_search(
    model: StepModel, request: SearchRequest, ranking: Ranking = Ranking("none")
) -> Sequence[list[Hypothesis]]:
    """One hypothesis for every sentence."""
    return _search(model, request, GREEDY, ranking)


def sample(
    model: StepModel, request: SearchRequest, sampler: Sampler, ranking: Ranking = Ranking("none")
) -> Sequence[list[Hypothesis]]:
    """``request.n_best`` hypotheses for every sentence, in the order they were drawn."""
    return _search(model, request, sampler, ranking)


@torch.no_grad()
def _search(
    model: StepModel, request: SearchRequest, chooser: TokenChooser, ranking: Ranking
) -> Sequence[list[Hypothesis]]:
    if not request.max_lengths:
        return []
    return_attention = request.return_attention or bool(ranking.beta)
    model = steps_for(model, request, rows=request.n_best, return_attention=return_attention)
    candidates = request.traced_candidates if request.return_trace else 0
    loop = request.loop or StepLoop()
    step = PathStep(model, chooser, request.end, request.constraints, return_attention, candidates, loop.is_observed)
    start = PathStart(model, request.begin, request.n_best, history_window(request), request.device)
    records = loop.search(step, start, SearchInputs.of(request, draws=True), return_attention=return_attention)
    return path_hypotheses(records, request, ranking, with_gap=chooser is GREEDY)


@dataclass(frozen=True)
class PathStart(SearchStart):
    """All hypotheses before their first token."""

    def extra(self, inputs: SearchInputs) -> PathState:
        shape = (len(inputs.limits.max_lengths_B), self.rows)
        return PathState(torch.ones(shape, dtype=torch.bool, device=self.device))


@dataclass(frozen=True)
class PathStep:
    """One step of all hypotheses, each independently of the others."""

    model: StepModel
    chooser: TokenChooser
    end: int
    constraints: tuple[LogitsConstraint, ...]
    return_attention: bool
    traced_candidates: int
    """0: no trace is kept."""
    is_observed: bool = False
    """Whether an observer reads the record of each step as it is taken."""

    def __call__(self, state: SearchState) -> tuple[SearchState, PathRecord]:
        logits_RV, model_state, attention_RS = self.model.step(state.tokens_R, state.model_state, state.memory)
        return self.update(state, logits_RV, model_state, attention_RS)

    @replaceable
    def update(
        self, state: SearchState, logits_RV: Tensor, model_state: Tree, attention_RS: Tensor | None
    ) -> tuple[SearchState, PathRecord]:
        """All hypotheses after one more token, from what the model has returned."""
        return self.extended(state, self._choose(logits_RV, state), model_state, attention_RS)

    def extended(
        self, state: SearchState, chosen: ChosenTokens, model_state: Tree, attention_RS: Tensor | None
    ) -> tuple[SearchState, PathRecord]:
        """All hypotheses with their next tokens."""
        paths: PathState = state.extra
        shape = paths.active_BK.shape
        tokens_R, log_probs_R, scores_R, candidates = chosen
        tokens_BK, log_probs_BK = tokens_R.view(shape), log_probs_R.view(shape)
        scores_BK = None if scores_R is None else scores_R.view(shape)
        continues_BK = paths.active_BK & ~log_probs_BK.isneginf()  # where no token may follow, a hypothesis ends
        below_limit_B = state.limits.max_lengths_B > state.length_1 + 1
        active_BK = continues_BK & (tokens_BK != self.end) & below_limit_B[:, None]
        attention_BKS = None
        if attention_RS is not None and self.return_attention:
            attention_BKS = attention_RS.view(*shape, -1)
        after = state.advance(model_state, None, tokens_R)
        after = after._replace(extra=PathState(active_BK), done_B=~active_BK.any(1))
        return after, PathRecord(tokens_BK, log_probs_BK, continues_BK, scores_BK, attention_BKS, candidates)

    def _choose(self, logits_RV: Tensor, state: SearchState) -> ChosenTokens:
        """The next token of each row, its log p (−∞ where no token may follow), its score where that is another, and
        what a trace shows."""
        scores_are_log_p = all(constraint.forbids for constraint in self.constraints)
        if self.chooser is GREEDY and not self.traced_candidates and scores_are_log_p:
            totals_R1 = logits_RV.new_zeros(len(logits_RV), 1, dtype=torch.float32)
            best = top_k_constrained(logits_RV, totals_R1, 1, state, self.constraints, self.end)
            return best.tokens_BC[:, 0], best.scores_BC[:, 0], None, None
        shape, rng_keys_B = state.extra.active_BK.shape, state.inputs.rng_keys_B
        assert rng_keys_B is not None
        log_probs_RV = logits_RV.log_softmax(-1, dtype=torch.float32)
        constrained_RV = apply_constraints(log_probs_RV, state, self.constraints, self.end)
        scores_RV = self.chooser.filter(constrained_RV)
        samples_BK = torch.arange(shape[1], device=log_probs_RV.device).expand(shape)
        rng_keys_R = rng_keys_B.repeat_interleave(shape[1])
        tokens_R = self.chooser.choose(scores_RV, rng_keys_R, samples_BK.flatten(), state.length_1)
        log_probs_R = log_probs_RV.gather(1, tokens_R[:, None])[:, 0]
        log_probs_R = log_probs_R.masked_fill(scores_RV.amax(-1).isneginf(), FORBIDDEN)
        scores_R = None if scores_are_log_p else constrained_RV.gather(1, tokens_R[:, None])[:, 0]
        candidates = self._candidates(scores_RV, log_probs_RV, tokens_R, shape) if self.traced_candidates else None
        return tokens_R, log_probs_R, scores_R, candidates

    def _candidates(
        self, scores_RV: Tensor, log_probs_RV: Tensor, tokens_R: Tensor, shape: torch.Size
    ) -> PathCandidates:
        """The most likely candidates of each row, the chosen one among them."""
        sampler = self.chooser if isinstance(self.chooser, Sampler) else None
        temperature = sampler.filters.temperature if sampler else 1.0
        probabilities_RV = (log_probs_RV / temperature).softmax(-1)
        kept_RV = ~scores_RV.isneginf()
        if sampler is None:
            kept_RV = torch.zeros_like(kept_RV).scatter(1, tokens_R[:, None], True)
        tokens_RC = top_k(log_probs_RV, min(self.traced_candidates, log_probs_RV.shape[1]))[1]
        missing_R = (tokens_RC != tokens_R[:, None]).all(1)
        tokens_RC[:, -1] = torch.where(missing_R, tokens_R, tokens_RC[:, -1])
        return PathCandidates(
            tokens_RC.view(*shape, -1),
            probabilities_RV.gather(1, tokens_RC).view(*shape, -1),
            log_probs_RV.gather(1, tokens_RC).view(*shape, -1),
            kept_RV.gather(1, tokens_RC).view(*shape, -1),
            probabilities_RV.masked_fill(~kept_RV, 0.0).sum(1).view(shape),
            kept_RV.sum(1).view(shape),
        )
