"""Searches with one hypothesis at a time: greedy search and sampling.

    greedy    y_t = argmax p(y | y_<t, x)
    sampling  y_t ~ p(y | y_<t, x), with a temperature and filters (`SamplingFilter`), several samples a sentence on
              request

A draw depends on the seed, the sentence's rng key, the number of the sample and the step: never on the other sentences
of the batch. A hypothesis is scored with log p(y|x) by the given ranking, whatever constraints and filters changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from weft.search.backtrace import stack_attention
from weft.search.constraints import LogitsConstraint, apply_constraints
from weft.search.gaps import gap, gaps, greedy_bound, greedy_bounds, penalties
from weft.search.interface import (
    BY_CONSTRAINTS,
    BY_END,
    BY_LENGTH,
    FORBIDDEN,
    Hypothesis,
    HypothesisArrays,
    PendingHypotheses,
    SearchRequest,
    StepModel,
    fastest_steps,
)
from weft.search.loop import ObservedLoop, StepLoop, StepRecords, steps_of
from weft.search.ranking import Ranking, coverage_score
from weft.search.sampling_filters import SamplingFilter, draw, uniforms
from weft.search.state import SearchInputs, SearchStart, SearchState, history_window
from weft.search.top_k import top_k, top_k_constrained
from weft.search.trace import Draw, PathTrace
from weft.search.transfers import HostCopies, to_device
from weft.tree import Tree, map_tree


class TokenChooser(Protocol):
    """How the next token is chosen."""

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


class PathState(NamedTuple):
    """What is kept of every sentence between two steps."""

    active_BK: Tensor
    """Whether the hypothesis has not ended."""
    rng_keys_B: Tensor


class PathRecord(NamedTuple):
    """One step of all hypotheses."""

    tokens_BK: Tensor
    log_probs_BK: Tensor
    active_BK: Tensor
    """Whether the hypothesis had not ended before, and a token could follow."""
    attention_BKS: Tensor | None
    candidates: PathCandidates | None

    @property
    def stays_on_device(self) -> bool:
        """Nothing but tokens and their scores: hypotheses are assembled there."""
        return self.attention_BKS is None and self.candidates is None


class PackedPathRecord(NamedTuple):
    """One step of greedy search, made by a kernel (`weft.kernels.triton.path_update`)."""

    values_B3: Tensor

    @property
    def stays_on_device(self) -> bool:
        return True


class PathCandidates(NamedTuple):
    """For a trace: the most likely tokens of every hypothesis, best first; the chosen one is among them."""

    tokens_BKC: Tensor
    probabilities_BKC: Tensor
    """After the temperature and before any filter."""
    log_probs_BKC: Tensor
    """Of the model itself."""
    kept_BKC: Tensor
    mass_BK: Tensor
    count_BK: Tensor


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
    model = fastest_steps(model, request, rows=request.n_best, return_attention=return_attention)
    candidates = request.traced_candidates if request.return_trace else 0
    loop = request.loop or StepLoop()
    is_observed = isinstance(loop, ObservedLoop)
    step = PathStep(model, chooser, request.end, request.constraints, return_attention, candidates, is_observed)
    start = PathStart(model, request.begin, request.n_best, history_window(request), request.device)
    records = loop.search(step, start, SearchInputs.of(request, draws=True), return_attention=return_attention)
    return _hypotheses(records, request, ranking, with_gap=chooser is GREEDY)


@dataclass(frozen=True)
class PathStart(SearchStart):
    """All hypotheses before their first token."""

    def extra(self, inputs: SearchInputs) -> PathState:
        assert inputs.rng_keys_B is not None
        shape = (len(inputs.rng_keys_B), self.rows)
        return PathState(torch.ones(shape, dtype=torch.bool, device=self.device), inputs.rng_keys_B)


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

    def __call__(self, state: SearchState) -> tuple[SearchState, PathRecord | PackedPathRecord]:
        paths: PathState = state.extra
        shape = paths.active_BK.shape
        logits_RV, model_state, attention_RS = self.model.step(state.tokens_R, state.model_state, state.memory)
        if logits_RV.is_cuda and self._is_fused(logits_RV, state, attention_RS):
            return self._fused(logits_RV, model_state, state)
        tokens_R, log_probs_R, candidates = self._choose(logits_RV, state)
        tokens_BK, log_probs_BK = tokens_R.view(shape), log_probs_R.view(shape)
        continues_BK = paths.active_BK & ~log_probs_BK.isneginf()  # where no token may follow, a hypothesis ends
        below_limit_B = state.limits.max_lengths_B > state.length_1 + 1
        active_BK = continues_BK & (tokens_BK != self.end) & below_limit_B[:, None]
        attention_BKS = None
        if attention_RS is not None and self.return_attention:
            attention_BKS = attention_RS.view(*shape, -1)
        after = state.advance(model_state, None, tokens_R)
        after = after._replace(extra=PathState(active_BK, paths.rng_keys_B), done_B=~active_BK.any(1))
        return after, PathRecord(tokens_BK, log_probs_BK, continues_BK, attention_BKS, candidates)

    def _is_fused(self, logits_RV: Tensor, state: SearchState, attention_RS: Tensor | None) -> bool:
        """Whether most of the step is done by one kernel."""
        from weft.search.fused_steps import allows_fusion

        plain = self.chooser is GREEDY and not self.traced_candidates and not self.is_observed
        plain = plain and state.extra.active_BK.shape[1] == 1 and (attention_RS is None or not self.return_attention)
        return plain and allows_fusion(logits_RV, state, self.constraints, 1)

    def _fused(self, logits_RV: Tensor, model_state: Tree, state: SearchState) -> tuple[SearchState, PackedPathRecord]:
        """The rest of a step of greedy search."""
        from weft.kernels.triton.path_update import path_update
        from weft.search.fused_steps import best_tokens

        log_probs_R1, tokens_R1 = best_tokens(logits_RV, 1, state, self.constraints, self.end)
        paths: PathState = state.extra
        update = path_update(
            log_probs_R1[:, 0],
            tokens_R1[:, 0],
            active_B1=paths.active_BK,
            max_lengths_B=state.limits.max_lengths_B,
            length_1=state.length_1,
            history_RW=state.history_RW,
            end=self.end,
        )
        after = state._replace(
            tokens_R=tokens_R1[:, 0],
            model_state=model_state,
            history_RW=update.history_RW,
            done_B=update.done_B,
            extra=PathState(update.active_B1, paths.rng_keys_B),
            length_1=update.length_1,
        )
        return after, PackedPathRecord(update.record_B3)

    def _choose(self, logits_RV: Tensor, state: SearchState) -> tuple[Tensor, Tensor, PathCandidates | None]:
        """The next token of each row, its log p (−∞ where no token may follow), and what a trace shows."""
        if self.chooser is GREEDY and not self.traced_candidates and all(one.forbids for one in self.constraints):
            totals_R1 = logits_RV.new_zeros(len(logits_RV), 1, dtype=torch.float32)
            best = top_k_constrained(logits_RV, totals_R1, 1, state, self.constraints, self.end)
            return best.tokens_BC[:, 0], best.scores_BC[:, 0], None
        paths: PathState = state.extra
        shape = paths.active_BK.shape
        log_probs_RV = logits_RV.log_softmax(-1, dtype=torch.float32)
        scores_RV = self.chooser.filter(apply_constraints(log_probs_RV, state, self.constraints, self.end))
        samples_BK = torch.arange(shape[1], device=log_probs_RV.device).expand(shape)
        rng_keys_R = paths.rng_keys_B.repeat_interleave(shape[1])
        tokens_R = self.chooser.choose(scores_RV, rng_keys_R, samples_BK.flatten(), state.length_1)
        log_probs_R = log_probs_RV.gather(1, tokens_R[:, None])[:, 0]
        candidates = self._candidates(scores_RV, log_probs_RV, tokens_R, shape) if self.traced_candidates else None
        return tokens_R, log_probs_R.masked_fill(scores_RV.amax(-1).isneginf(), FORBIDDEN), candidates

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


def _hypotheses(
    steps: Sequence[StepRecords], request: SearchRequest, ranking: Ranking, *, with_gap: bool
) -> Sequence[list[Hypothesis]]:
    if not steps[0].records.stays_on_device:
        steps = [map_tree(Tensor.cpu, some) for some in steps]
    joined = _joined(steps, request)
    copies = HostCopies(*joined)

    def compute() -> HypothesisArrays:
        values = copies.arrays()
        tokens, log_probs, active = _unpacked(values[0]) if len(values) == 1 else values
        return _arrays(tokens, log_probs, active, request, ranking, with_gap=with_gap)

    has_attention = len(joined) > 1 and steps[0].records.attention_BKS is not None
    if not has_attention and not request.return_trace:
        return PendingHypotheses(len(request.max_lengths), compute) if joined[0].is_cuda else compute()
    arrays = compute()
    outputs: list[list[Hypothesis]] = []
    for row in range(len(arrays)):
        positions = steps_of(steps, row)
        hypotheses = []
        for number, hypothesis in enumerate(arrays[row]):
            length = len(hypothesis.token_scores)
            if has_attention and length:
                weights = [record.attention_BKS[position][number].float() for record, position in positions[:length]]
                attention_TS = stack_attention(weights)
                hypothesis = _with_coverage(hypothesis, attention_TS, ranking, request.max_lengths[row])
                hypothesis = replace(hypothesis, attention_TS=attention_TS if request.return_attention else None)
            trace = _trace(positions[:length], number) if request.return_trace else None
            hypotheses.append(replace(hypothesis, trace=trace))
        outputs.append(hypotheses)
    return outputs


def _joined(steps: Sequence[StepRecords], request: SearchRequest) -> list[Tensor]:
    """The tokens, their log p and whether they were active, (T, B, K) each, of all steps of all sentences; or one array
    (T, B, 3) of packed records."""
    first: PathRecord | PackedPathRecord = steps[0].records
    parts, sentences = first[:3], len(request.max_lengths)
    if len(steps) == 1 and len(steps[0].sentences) == sentences:
        return list(parts)
    total = sum(len(some.records[0]) for some in steps)
    joined = [part.new_zeros(total, sentences, *part.shape[2:]) for part in parts]
    time = 0
    for sentences_B, records in steps:
        rows, stop = to_device(sentences_B, parts[0].device), time + len(records[0])
        for whole, part in zip(joined, records, strict=False):
            whole[time:stop].index_copy_(1, rows, part)
        time = stop
    return joined


def _unpacked(packed_TB3: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, log p and whether they were active, (T, B, 1) each."""
    tokens, log_probs, active = (np.ascontiguousarray(packed_TB3[:, :, part, None]) for part in range(3))
    return tokens, log_probs.view(np.float32), active > 0


def _arrays(
    tokens: np.ndarray,
    log_probs: np.ndarray,
    active: np.ndarray,
    request: SearchRequest,
    ranking: Ranking,
    *,
    with_gap: bool,
) -> HypothesisArrays:
    """All hypotheses, without attention, of arrays (T, B, K); ``with_gap``: of a greedy search."""
    lengths_BK = active.sum(0)
    log_probs = np.where(active, log_probs.astype(np.float64), 0.0)
    last_BK = np.take_along_axis(tokens, np.maximum(lengths_BK - 1, 0)[None], 0)[0]
    by_end_BK = (lengths_BK > 0) & (last_BK == request.end)
    at_limit_BK = lengths_BK == np.array(request.max_lengths)[:, None]
    totals_BK = np.cumsum(log_probs, 0)[-1]
    scores_BK = totals_BK / penalties(ranking, lengths_BK.ravel()).reshape(lengths_BK.shape)

    def find_gaps() -> np.ndarray:
        gaps_BK = np.full(lengths_BK.shape, np.nan)
        if with_gap:
            bounds_B = greedy_bounds(log_probs[:, :, 0], lengths_BK[:, 0], ranking, request.max_lengths)
            gaps_BK[by_end_BK] = gaps(bounds_B[:, None][by_end_BK], scores_BK[by_end_BK])
        return gaps_BK

    return HypothesisArrays(
        counts_B=np.full(len(lengths_BK), request.n_best),
        tokens_BNT=tokens.transpose(1, 2, 0),
        lengths_BN=lengths_BK,
        ended_BN=np.where(by_end_BK, BY_END, np.where(at_limit_BK, BY_LENGTH, BY_CONSTRAINTS)),
        scores_BN=scores_BK,
        log_probabilities_BN=totals_BK,
        token_scores_BNT=log_probs.transpose(1, 2, 0),
        gaps=find_gaps,
    )


def _with_coverage(hypothesis: Hypothesis, attention_TS: Tensor, ranking: Ranking, max_length: int) -> Hypothesis:
    """The same with a score that counts the coverage, where the ranking does."""
    if not ranking.beta:
        return hypothesis
    coverage = float(coverage_score(attention_TS.sum(0)))
    score = ranking.score(hypothesis.log_probability, len(hypothesis.token_scores), coverage)
    own_gap = hypothesis.gap
    if own_gap is not None:
        own_gap = gap(greedy_bound(hypothesis.token_scores, ranking, max_length), score)
    return replace(hypothesis, score=score, gap=own_gap)


def _trace(positions: Sequence[tuple[PathRecord, tuple[int, int]]], number: int) -> PathTrace:
    return PathTrace([draw_of(record, (*position, number)) for record, position in positions])


def draw_of(record: PathRecord, position: tuple[int, ...]) -> Draw:
    """What a step did with one hypothesis, whose position in the record's tensors is given."""
    candidates = record.candidates
    assert candidates is not None
    tokens = candidates.tokens_BKC[position].tolist()
    return Draw(
        tokens=tokens,
        probabilities=candidates.probabilities_BKC[position].tolist(),
        kept=candidates.kept_BKC[position].tolist(),
        chosen=tokens.index(int(record.tokens_BK[position])),
        mass=float(candidates.mass_BK[position]),
        kept_count=int(candidates.count_BK[position]),
    )
