"""Beam search: k hypotheses side by side, from the first token to the ranked outputs.

The policy, in full. At each step every hypothesis is extended by every token; the 2k best extensions are considered.
Those among the first k that end are *set aside* as finished; the k best that do not end stay in the beam. Finished
hypotheses are ranked by ``ranking`` (log p(y|x) / |y|^α, the end token counting in both); those cut off by the length
limit come after all finished ones. A sentence is done at its length limit, or earlier:

    finished   when ``finish`` hypotheses (never fewer than requested) have been set aside
    outranked  when that many have been set aside and, at its present length, nothing in the beam ranks above the n-th
               best of them: endings that a model finds unlikely cannot crowd out an output that is still to end
    outranked_by_all
               compared with the last of those that have to be set aside instead, as Hugging Face's `generate` does
               unless ``early_stopping`` is set
    provable   when nothing in the beam can reach the score of the n-th best finished one: log p only falls
    steps      never

So a beam of one is not greedy search: it sets an ending aside and continues only where ``finish`` > 1, and then can
find a better one. A beam may be divided into ``groups`` (`weft.search.diverse_beam`). Sentences may have terms that
their outputs contain (`weft.search.constrained_beam`).

For every hypothesis that has ended the beam knows a bound on how much better any other output can be (`Hypothesis.gap`,
see `weft.search.ranking`), unless it is divided into groups or has terms.

Constraints, forced prefixes and minimum lengths change the *scores* that hypotheses are compared by; log p stays the
model's.

Each step leaves a `BeamRecord`: the parent of every slot. `backtrace` follows the best hypotheses back along them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.errors import SearchError
from weft.runtime.replaceable import replaceable
from weft.search.constraints import (
    Extensions,
    LogitsConstraint,
    apply_constraints,
    top_k_constrained,
    top_k_extensions,
)
from weft.search.interface import FORBIDDEN, Hypothesis, SearchRequest, StepModel
from weft.search.loop import (
    SearchInputs,
    SearchStart,
    SearchState,
    StepLoop,
    StepRecords,
    history_window,
    stack_attention,
    steps_for,
    steps_of,
)
from weft.search.ranking import (
    BY_CONSTRAINTS,
    BY_END,
    BY_LENGTH,
    DEFAULT_RANKING,
    NO_ATTENTION,
    HypothesisArrays,
    Ranking,
    beam_bounds,
    coverage_score,
    gaps,
)
from weft.tree import Tree, map_tree

if TYPE_CHECKING:
    from weft.search.beam_trace import Candidates
    from weft.search.required import TermProgress

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
    """Scores of the n best finished hypotheses, best first, for stopping criteria that compare them."""
    coverage_BKS: Tensor | None
    """Attention weights summed over all steps, for a coverage penalty."""
    progress: TermProgress | None
    """How many of the required terms occurred, in rows of hypotheses; None: nothing is required."""


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
    """By group, the score of the first extension after the k best: nothing that was discarded has a higher one."""
    attention_BKS: Tensor | None
    """The weights with which each slot was extended."""
    candidates: Candidates | None = None
    """For a trace: the extensions that were considered."""


@replaceable
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
            progress=None if inputs.limits.required is None else inputs.limits.required.start(size),
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
        attention_BKS = None if attention_RS is None else attention_RS.view(sentences, size, -1)
        coverage_BKS = coverage_BK = None
        if beam.coverage_BKS is not None and attention_BKS is not None:
            coverage_BKS = beam.coverage_BKS + attention_BKS.float()
            coverage_BK = self.options.ranking.beta * coverage_score(coverage_BKS, state.inputs.source_lengths_B)

        # The 2k best extensions: those that end are set aside, the others stay
        progress = None
        if state.limits.required is None:
            chosen, candidates = self._choose(logits_RV, state)
        else:
            from weft.search.constrained_beam import choose_by_bank

            candidates = None
            chosen, progress = choose_by_bank(self, logits_RV, state)
        penalty_1 = self.options.ranking.penalties(state.length_1 + 1)
        ends_BK = chosen.ends_BK & ~state.done_B[:, None]
        end_ranking_BK = _rank(chosen.end_scores_BK, chosen.end_parents_BK, penalty_1, coverage_BK)
        end_ranking_BK = end_ranking_BK.masked_fill(~ends_BK, FORBIDDEN)
        finished_BG = beam.finished_BG + ends_BK.unflatten(1, (self.options.groups, -1)).sum(2)
        stopped_B, best_BN = self._stop(state, chosen.scores_BK, finished_BG, end_ranking_BK)

        # The rows of the next step: each hypothesis takes over the state of its parent
        offsets_B1 = torch.arange(sentences, device=state.done_B.device)[:, None] * size
        parents_R = (chosen.parents_BK + offsets_B1).flatten()
        if coverage_BKS is not None:
            coverage_BKS = coverage_BKS.flatten(0, 1).index_select(0, parents_R).view(coverage_BKS.shape)
        after = state.advance(model_state, parents_R, chosen.tokens_BK.flatten())._replace(
            extra=BeamState(chosen.totals_BK, chosen.scores_BK, finished_BG, best_BN, coverage_BKS, progress),
            done_B=state.done_B | stopped_B,
        )
        ranking_BK = _rank(chosen.scores_BK, chosen.parents_BK, penalty_1, coverage_BK)
        if progress is not None:  # those with the most required tokens are what a length limit cuts off
            met_BK = progress.met_R.masked_fill(chosen.scores_BK.isneginf(), -1)
            ranking_BK = ranking_BK.masked_fill(met_BK < met_BK.amax(1, keepdim=True), FORBIDDEN)
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
            attention_BKS=attention_BKS if self.return_attention else None,
            candidates=candidates,
        )
        return after, record

    def _choose(self, logits_RV: Tensor, state: SearchState) -> tuple[Chosen, Candidates | None]:
        """The extensions that end and those that stay in the beam; for a trace, all that were considered."""
        beam: BeamState = state.extra
        # Where constraints only forbid, scores are log p: the best are found without log p of all the others.
        if self.options.groups == 1 and not self.return_trace and all(one.forbids for one in self.constraints):
            best = top_k_constrained(
                logits_RV, beam.scores_BK, 2 * self.options.size, state, self.constraints, self.end
            )
            return _divide(best, best.scores_BC, self.options.size, self.end), None
        log_probs_RV = logits_RV.log_softmax(-1, dtype=torch.float32)
        scores_RV = apply_constraints(log_probs_RV, state, self.constraints, self.end)
        if self.options.groups == 1:
            chosen = extend(scores_RV, log_probs_RV, beam.scores_BK, beam.totals_BK, self.end)
        else:
            from weft.search.diverse_beam import choose_by_group

            chosen = choose_by_group(scores_RV, log_probs_RV, beam, self.options, self.end)
        if not self.return_trace:
            return chosen, None
        from weft.search.beam_trace import best_candidates

        candidates = best_candidates(scores_RV, log_probs_RV, beam.scores_BK, beam.totals_BK)
        penalty_1 = self.options.ranking.penalties(state.length_1 + 1)
        return chosen, candidates._replace(scores_BC=candidates.scores_BC / penalty_1)

    def _stop(
        self, state: SearchState, scores_BK: Tensor, finished_BG: Tensor, end_ranking_BK: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The sentences that are done, and the scores of the best finished hypotheses."""
        options, best_BN = self.options, state.extra.best_BN
        max_lengths_B = state.limits.max_lengths_B
        stopped_B = (max_lengths_B <= state.length_1 + 1) | scores_BK.isneginf().all(1)
        terms = state.limits.required
        if options.stop in ("outranked", "outranked_by_all", "provable") or terms is not None:
            best_BN = torch.cat([best_BN, end_ranking_BK], 1).topk(best_BN.shape[1]).values
        if options.stop in ("finished", "outranked", "outranked_by_all"):
            needed = options.finished_needed(self.n_best) // options.groups
            enough_B = (finished_BG >= needed).all(1)
            if options.stop != "finished":
                ranking_B = scores_BK.amax(1) / options.ranking.penalties(state.length_1 + 1)
                enough_B = enough_B & (ranking_B <= best_BN[:, -1])
            if terms is not None:
                ranking_B = scores_BK.amax(1) / options.ranking.penalties(state.length_1 + 1)
                outranked_B = ~best_BN[:, -1].isneginf() & (ranking_B <= best_BN[:, -1])
                enough_B = torch.where(terms.totals_B > 0, outranked_B, enough_B)
            stopped_B = stopped_B | enough_B
        elif options.stop == "provable":
            bound_B = scores_BK.amax(1) / options.ranking.penalties(max_lengths_B)
            stopped_B = stopped_B | (bound_B <= best_BN[:, -1])
        return stopped_B, best_BN


class Chosen(NamedTuple):
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


def extend(scores_RV: Tensor, log_probs_RV: Tensor, scores_BK: Tensor, totals_BK: Tensor, end: int) -> Chosen:
    """Every hypothesis by every token: the 2k best, with their log p."""
    sentences, size = scores_BK.shape
    best = top_k_extensions(scores_RV, scores_BK, 2 * size)
    indices_BC = best.parents_BC * log_probs_RV.shape[-1] + best.tokens_BC
    totals_BC = totals_BK.gather(1, best.parents_BC) + log_probs_RV.view(sentences, -1).gather(1, indices_BC)
    return _divide(best, totals_BC, size, end)


def _divide(best: Extensions, totals_BC: Tensor, size: int, end: int) -> Chosen:
    """The extensions that end, and those that stay in the beam."""
    scores_BC, parents_BC, tokens_BC = best
    ends_BC = tokens_BC == end
    stay_BK, exists_BK = _first_without_end(ends_BC, size)
    ends_BK = ends_BC[:, :size] & ~scores_BC[:, :size].isneginf()
    return Chosen(
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


def _rank(scores_BK: Tensor, parents_BK: Tensor, penalty_1: Tensor, coverage_BK: Tensor | None) -> Tensor:
    """The scores of hypotheses of this length; see `Ranking`. ``coverage_BK``: the coverage penalty of the parents."""
    ranking_BK = scores_BK / penalty_1
    return ranking_BK if coverage_BK is None else ranking_BK + coverage_BK.gather(1, parents_BK)


# From back-pointers to hypotheses: all sentences together, one step at a time


class _Endings(NamedTuple):
    """The hypotheses chosen for every sentence, (B, N): the step each ended at, and the slot it came from."""

    exists: np.ndarray
    finished: np.ndarray
    time: np.ndarray
    slot: np.ndarray
    """Slot of the parent if it ended by itself, of the last token if the limit cut it off."""
    total: np.ndarray
    """log p, if it ended by itself."""
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


@replaceable
def backtrace(
    steps: Sequence[StepRecords], request: SearchRequest, size: int, ranking: Ranking, *, groups: int = 1
) -> Sequence[list[Hypothesis]]:
    """The best hypotheses of every sentence; with several groups no two with the same tokens, and no gaps."""
    steps = [map_tree(Tensor.cpu, part) for part in steps]
    history = _collect(steps, len(request.max_lengths))
    count = request.n_best if groups == 1 else len(history.ends_BK) * size
    endings = _choose_endings(history, request.max_lengths, count)
    paths = _follow_back(history, endings)
    bounds_BN = None
    if groups == 1:
        bounds_BN = np.maximum(_bounds(history, request, ranking)[:, None], endings.next_score)
        bounds_BN[[row for row, terms in enumerate(request.required) if terms]] = np.nan
    arrays = _arrays(endings, paths, bounds_BN)
    has_details = steps[0].records.attention_BKS is not None or request.return_trace
    if groups == 1 and not has_details:
        return arrays
    outputs: list[list[Hypothesis]] = []
    for row in range(len(arrays)):
        ranks = range(int(arrays.counts_B[row])) if groups == 1 else arrays.distinct(row, request.n_best)
        hypotheses = [arrays.hypothesis(row, rank) for rank in ranks]
        if has_details:
            hypotheses = _with_details(hypotheses, steps_of(steps, row), paths.slots[row, list(ranks)], request)
        outputs.append(hypotheses)
    return outputs


def _collect(steps: Sequence[StepRecords], sentences: int) -> Any:
    """The records of all steps as one `BeamRecord` of arrays (T, B, …), B in the order of the request.

    A sentence that took no part in a step has zeros there, and scores of −∞.
    """
    arrays: dict[str, Any] = {"attention_BKS": None}
    for name in BeamRecord._fields[:10]:
        parts = [getattr(part.records, name).numpy() for part in steps]
        fill = FORBIDDEN if name in ("ranking_BK", "end_ranking_BK", "following_BG") else 0
        shape = (sum(map(len, parts)), sentences, *parts[0].shape[2:])
        whole = arrays[name] = np.full(shape, fill, np.float64 if parts[0].dtype.kind == "f" else parts[0].dtype)
        time = 0
        for (rows, _), part in zip(steps, parts, strict=True):
            whole[time : time + len(part), rows.numpy()] = part
            time += len(part)
    return BeamRecord(**arrays)


def _choose_endings(history: Any, max_lengths: Sequence[int], count: int) -> _Endings:
    """Finished hypotheses by score, then those that were cut off by the limit; of equals the earlier first."""
    steps, sentences, size = history.ends_BK.shape
    finished_BN = history.end_ranking_BK.transpose(1, 0, 2).reshape(sentences, -1)
    last_B = history.stopped_B.argmax(0)
    stuck_B = (history.ranking_BK[last_B, np.arange(sentences)] == FORBIDDEN).all(1)
    last_B = np.where(stuck_B, last_B - 1, last_B)  # the step before nothing could follow
    cut_off_B = (last_B >= 0) & (stuck_B | (last_B + 1 >= np.array(max_lengths)))  # else the search stopped early
    cut_off_BK = np.where(cut_off_B[:, None], history.ranking_BK[last_B, np.arange(sentences)], FORBIDDEN)
    scores = np.concatenate([finished_BN, cut_off_BK], 1)
    is_cut_off = np.arange(scores.shape[1]) >= steps * size
    index, next_score = _best(scores, steps * size) if count == 1 else _in_order(scores, is_cut_off, count)
    finished = index < steps * size
    rows = np.arange(sentences)[:, None]
    time = np.where(finished, index // size, last_B[:, None])
    slot = np.where(finished, history.end_parents_BK[time, rows, index % size], index - steps * size)
    total = history.end_totals_BK[time, rows, index % size]
    chosen = np.take_along_axis(scores, index, 1)
    return _Endings(chosen > FORBIDDEN, finished, time, slot, total, chosen, next_score, stuck_B)


def _in_order(scores: np.ndarray, is_cut_off: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, N) the indices of the best, and for each the score of the finished one that follows."""
    order = np.lexsort((-scores, np.broadcast_to(is_cut_off, scores.shape), scores == FORBIDDEN), axis=1)
    in_order = np.take_along_axis(np.where(is_cut_off, FORBIDDEN, scores), order, 1)
    nothing = np.full((len(scores), 1), FORBIDDEN)
    return order[:, :count], np.concatenate([in_order, nothing], 1)[:, 1 : count + 1]


def _best(scores: np.ndarray, finished: int) -> tuple[np.ndarray, np.ndarray]:
    """`_in_order` for the best alone, without sorting. ``finished``: how many of the scores are of finished ones."""
    rows = np.arange(len(scores))
    first_B = scores[:, :finished].argmax(1)
    others = scores[:, :finished].copy()
    none_B = others[rows, first_B] == FORBIDDEN
    others[rows, first_B] = FORBIDDEN
    index_B = np.where(none_B, finished + scores[:, finished:].argmax(1), first_B)
    return index_B[:, None], others.max(1)[:, None]


def _follow_back(history: Any, endings: _Endings) -> _Paths:
    """From the slot where each hypothesis ended to its parents, step by step."""
    times_T11 = np.arange(len(history.tokens_BK))[:, None, None]
    ends_TBN = (endings.time == times_T11) & endings.finished
    continues_TBN = (endings.time >= times_T11) & ~ends_TBN
    slots_TBN = np.empty(continues_TBN.shape, dtype=np.int64)
    parents_TBN = np.empty_like(slots_TBN)
    slot_BN = endings.slot
    for time in reversed(range(len(slots_TBN))):
        slots_TBN[time] = slot_BN
        parents_BN = np.take_along_axis(history.parents_BK[time], slot_BN, 1)
        slot_BN = parents_TBN[time] = np.where(continues_TBN[time], parents_BN, slot_BN)
    tokens_TBN = np.take_along_axis(history.tokens_BK, slots_TBN, 2)
    totals_TBN = np.where(ends_TBN, endings.total, np.take_along_axis(history.totals_BK, slots_TBN, 2))
    return _Paths(*(array.transpose(1, 2, 0) for array in (tokens_TBN, totals_TBN, parents_TBN)))


def _bounds(history: Any, request: SearchRequest, ranking: Ranking) -> np.ndarray:
    """(B,) upper bounds on the scores of all outputs that were not found."""
    stops_B = history.stopped_B.argmax(0)
    rows_B = np.arange(len(stops_B))
    exists_BK = history.ranking_BK[stops_B, rows_B] > FORBIDDEN
    unfinished_B = np.where(exists_BK, history.totals_BK[stops_B, rows_B], FORBIDDEN).max(1)
    return beam_bounds(history.following_BG[:, :, 0], unfinished_B, stops_B, request.max_lengths, ranking)


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


def _with_details(
    hypotheses: Sequence[Hypothesis],
    positions: Sequence[tuple[BeamRecord, tuple[int, int]]],
    slots_NT: np.ndarray,
    request: SearchRequest,
) -> list[Hypothesis]:
    """The hypotheses of one sentence with their attention weights and, the best of them, with a trace."""
    detailed: list[Hypothesis] = []
    for rank, hypothesis in enumerate(hypotheses):
        slots = slots_NT[rank, : len(hypothesis.token_scores)].tolist()
        weights = [
            record.attention_BKS[position][slot].float()
            for (record, position), slot in zip(positions, slots, strict=False)
            if record.attention_BKS is not None
        ]
        trace = None
        if slots and request.return_trace and not detailed:
            from weft.search.beam_trace import trace_beam

            end = [request.end] * (hypothesis.ended == "end")
            trace = trace_beam(positions, [*hypothesis.tokens, *end], slots, request.end)
        detailed.append(replace(hypothesis, attention_TS=stack_attention(weights) if weights else None, trace=trace))
    return detailed
