"""Beam search: k hypotheses side by side.

The policy, in full. At each step every hypothesis is extended by every token; the 2k best extensions are looked at.
Those among the first k that end are *set aside* as finished; the k best that do not end go on. Finished hypotheses
are ranked by ``ranking`` (log p(y|x) / |y|^α, the end mark counting in both); those cut off by the limit come after all
finished ones. A sentence is done at its length limit, or before it

    finished   when ``finish`` hypotheses (never fewer than asked for) have been set aside
    provable   when nothing that is still going on can reach the score of the n-th best finished one: log p only falls
    steps      never

So a beam of one is not greedy search: it sets an ending aside and goes on only where ``finish`` > 1, and then can
find a better one. With ``groups`` (diverse beam search; Vijayakumar et al. 2018) the beam is parted: at each step a
group sees the tokens that the groups before it have just chosen ``diversity`` lower for each time they were chosen;
that steers the choice and is forgotten afterwards.

Rules, forced prefixes and least lengths change what a token is *rated*; log p stays the model's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.errors import SearchError
from weft.search.backtrace import BeamStep, Looked, trace_back
from weft.search.constraints import LogitsConstraint
from weft.search.interface import Hypothesis, StepModel
from weft.search.ranking import Ranking, coverage
from weft.search.state import Limits, SearchState, StepLoop, apply_constraints, top_extensions
from weft.search.top_k import Extensions, best, best_extensions
from weft.tree import repeat

STOPS = ("finished", "provable", "steps")
NEVER = float("-inf")


class Found(NamedTuple):
    """What a beam knows of its sentences between two steps."""

    totals_BK: Tensor
    """log p of every hypothesis."""
    ratings_BK: Tensor
    """What it is chosen by: log p unless a rule changed it; −∞ for an empty slot."""
    ended_BG: Tensor
    """How many were set aside, by group."""
    best_BN: Tensor
    """For a provable stop: the scores of the n best finished ones, best first."""
    looked_BKS: Tensor | None
    """How much each source token was looked at so far, for the coverage penalty."""


class _Key(NamedTuple):
    """What a beam's step depends on."""

    model: StepModel
    end: int
    size: int
    ranking: Ranking
    finish: int
    n_best: int
    stop: str
    groups: int
    diversity: float
    rules: tuple[LogitsConstraint, ...]
    weights: bool
    trace: bool


class _Beam:
    """The settings of a beam, and its step."""

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.model, self.end, self.size, self.ranking, self.finish, self.n_best, self.stop = key[:7]
        self.groups, self.diversity, self.rules, self.weights, self.trace = key[7:]
        self.quick = self.groups == 1 and not self.trace and all(rule.forbids for rule in self.rules)
        """Whether the best extensions can be found without log p of all the others; ratings then are log p."""

    def advance(self, live: SearchState) -> tuple[SearchState, BeamStep]:
        """One step of all sentences; a tensor for a tensor, so that it can be recorded."""
        found: Found = live.found
        rows, size = found.totals_BK.shape
        logits_RV, state, looked_RS = self.model.step(live.tokens_R, live.state, live.memory)
        looked_BKS = None
        if looked_RS is not None and found.looked_BKS is not None:
            looked_BKS = found.looked_BKS + looked_RS.float().view(rows, size, -1)
        looked = None
        if self.quick:
            best_C = top_extensions(logits_RV, found.ratings_BK, 2 * size, live, self.rules, self.end)
            chosen = _part(best_C, best_C.ratings_BC, size, self.end)
        else:
            log_RV = logits_RV.log_softmax(-1, dtype=torch.float32)
            rated_RV = apply_constraints(log_RV, live, self.rules, self.end)
            chosen = self._choose(rated_RV, log_RV, found)
            looked = self._looked(rated_RV, log_RV, found, live.time_1 + 1) if self.trace else None

        length_1 = live.time_1 + 1
        end_scores_BK = chosen.end_ratings_BK / self.ranking.penalties(length_1)
        if looked_BKS is not None:
            covered_BK = coverage(looked_BKS).gather(1, chosen.end_parents_BK)
            end_scores_BK = end_scores_BK + self.ranking.beta * covered_BK
        ends_BK = chosen.ends_BK & ~live.done_B[:, None]
        end_scores_BK = end_scores_BK.masked_fill(~ends_BK, NEVER)
        best_BN = found.best_BN
        ended_BG = found.ended_BG + ends_BK.unflatten(1, (self.groups, -1)).sum(2)
        over_B = (live.bounds.limit_B <= length_1) | chosen.ratings_BK.isneginf().all(1)
        if self.stop == "finished":
            over_B = over_B | (ended_BG >= self.finish // self.groups).all(1)
        elif self.stop == "provable":
            best_BN = torch.cat([found.best_BN, end_scores_BK], 1).topk(self.n_best).values
            bound_B = chosen.ratings_BK.amax(1) / self.ranking.penalties(live.bounds.limit_B)
            over_B = over_B | (bound_B <= best_BN[:, -1])
        done_B = live.done_B | over_B

        rows_R = (chosen.parents_BK + torch.arange(rows, device=live.done_B.device)[:, None] * size).flatten()
        if looked_BKS is not None:
            looked_BKS = looked_BKS.flatten(0, 1).index_select(0, rows_R).view(looked_BKS.shape)
        tokens_R = chosen.tokens_BK.flatten()
        after = live.take(state, rows_R, tokens_R)._replace(
            found=Found(chosen.totals_BK, chosen.ratings_BK, ended_BG, best_BN, looked_BKS), done_B=done_B
        )
        step = BeamStep(
            parents_BK=chosen.parents_BK,
            tokens_BK=chosen.tokens_BK,
            totals_BK=chosen.totals_BK,
            scores_BK=chosen.ratings_BK / self.ranking.penalties(length_1),
            ends_BK=ends_BK,
            end_parents_BK=chosen.end_parents_BK,
            end_totals_BK=chosen.end_totals_BK,
            end_scores_BK=end_scores_BK,
            over_B=over_B & ~live.done_B,
            weights_BKS=looked_RS.view(rows, size, -1) if looked_RS is not None and self.weights else None,
            looked=looked,
        )
        return after, step

    def _choose(self, rated_RV: Tensor, log_RV: Tensor, found: Found) -> _Chosen:
        """Every hypothesis by every token: the best, parted into those that end and those that go on."""
        if self.groups == 1:
            return _extend(rated_RV, log_RV, found.ratings_BK, found.totals_BK, self.end)
        rows, size = found.totals_BK.shape
        share = size // self.groups
        said_BV = log_RV.new_zeros(rows, log_RV.shape[-1])
        parts: list[_Chosen] = []
        rated_BKV, log_BKV = rated_RV.view(rows, size, -1), log_RV.view(rows, size, -1)
        for first in range(0, size, share):
            own = slice(first, first + share)
            lowered_RV = (rated_BKV[:, own] - self.diversity * said_BV[:, None]).flatten(0, 1)
            part = _extend(
                lowered_RV, log_BKV[:, own].flatten(0, 1), found.ratings_BK[:, own], found.totals_BK[:, own], self.end
            )
            back_BK = said_BV.gather(1, part.tokens_BK) * self.diversity  # what steered the choice is forgotten
            part = part._replace(
                ratings_BK=part.ratings_BK + back_BK,
                end_ratings_BK=part.end_ratings_BK + (said_BV[:, self.end] * self.diversity)[:, None],
                parents_BK=part.parents_BK + first,
                end_parents_BK=part.end_parents_BK + first,
            )
            alive_BK = (~part.ratings_BK.isneginf()).to(said_BV.dtype)
            said_BV = said_BV.scatter_add(1, part.tokens_BK, alive_BK)
            parts.append(part)
        return _Chosen(*(torch.cat(pieces, 1) for pieces in zip(*parts, strict=True)))

    def _looked(self, rated_RV: Tensor, log_RV: Tensor, found: Found, length_1: Tensor) -> Looked:
        """For a trace: the best extensions of every hypothesis, best first."""
        rows, size = found.totals_BK.shape
        values_RC, tokens_RC = best(rated_RV, 2 * size)
        logs_RC = log_RV.gather(1, tokens_RC)
        count = tokens_RC.shape[1]
        ratings_BC = (found.ratings_BK.flatten()[:, None] + values_RC).view(rows, -1)
        totals_BC = (found.totals_BK.flatten()[:, None] + logs_RC).view(rows, -1)
        parents_BC = torch.arange(size, device=log_RV.device).repeat_interleave(count).expand(rows, -1)
        order_BC = ratings_BC.argsort(dim=1, descending=True, stable=True)
        return Looked(
            tokens_RC.view(rows, -1).gather(1, order_BC),
            parents_BC.gather(1, order_BC),
            logs_RC.view(rows, -1).gather(1, order_BC),
            totals_BC.gather(1, order_BC),
            ratings_BC.gather(1, order_BC) / self.ranking.penalties(length_1),
        )


class _Chosen(NamedTuple):
    parents_BK: Tensor
    tokens_BK: Tensor
    totals_BK: Tensor
    ratings_BK: Tensor
    ends_BK: Tensor
    end_parents_BK: Tensor
    end_totals_BK: Tensor
    end_ratings_BK: Tensor


def _extend(rated_RV: Tensor, log_RV: Tensor, ratings_BK: Tensor, totals_BK: Tensor, end: int) -> _Chosen:
    rows, size = ratings_BK.shape
    found = best_extensions(rated_RV, ratings_BK, 2 * size)
    places_BC = found.parents_BC * log_RV.shape[-1] + found.tokens_BC
    totals_BC = totals_BK.gather(1, found.parents_BC) + log_RV.view(rows, -1).gather(1, places_BC)
    return _part(found, totals_BC, size, end)


def _part(found: Extensions, totals_BC: Tensor, size: int, end: int) -> _Chosen:
    """Those that end, and those that go on."""
    best_BC, parents_BC, tokens_BC = found
    ended_BC = tokens_BC == end
    onward_BK, there_BK = _first_that_go_on(ended_BC, size)
    onward_ratings_BK = best_BC.gather(1, onward_BK).masked_fill(~there_BK, NEVER)
    ends_BK = ended_BC[:, :size] & ~best_BC[:, :size].isneginf()
    return _Chosen(
        parents_BC.gather(1, onward_BK),
        tokens_BC.gather(1, onward_BK),
        totals_BC.gather(1, onward_BK),
        onward_ratings_BK,
        _wide(ends_BK, size),
        _wide(parents_BC[:, :size], size),
        _wide(totals_BC[:, :size], size),
        _wide(best_BC[:, :size], size, NEVER),
    )


def _first_that_go_on(ended_BC: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The places of the first ``size`` extensions that do not end, in order, and whether there are so many."""
    before_BC = (~ended_BC).cumsum(1)
    slots_K = torch.arange(size, device=ended_BC.device)
    places_BK = (before_BC[:, None] <= slots_K[:, None]).sum(2).clamp(max=ended_BC.shape[1] - 1)
    return places_BK, before_BC[:, -1:] > slots_K


def _wide(values_BK: Tensor, size: int, fill: float = 0.0) -> Tensor:
    """Empty slots, where a vocabulary is smaller than the beam."""
    missing = size - values_BK.shape[1]
    return values_BK if not missing else torch.nn.functional.pad(values_BK, (0, missing), value=fill)


@torch.no_grad()
def beam(
    model: StepModel,
    memory: Any,
    limits: Sequence[int],
    *,
    begin: int,
    end: int,
    size: int = 5,
    ranking: Ranking = Ranking(),
    finish: int | None = None,
    n_best: int = 1,
    stop: str = "finished",
    groups: int = 1,
    diversity: float = 0.5,
    rules: Sequence[LogitsConstraint] = (),
    least: Sequence[int] | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
    weights: bool = False,
    trace: bool = False,
    device: torch.device | str = "cpu",
    loop: StepLoop | None = None,
) -> list[list[Hypothesis]]:
    """The ``n_best`` hypotheses of every row, best first, each of at most ``limits[row]`` tokens.

    ``least``: tokens before a row may end; ``prefixes``: what a row must begin with.
    """
    if size < 1:
        raise SearchError(f"search.size: {size}; a beam holds at least 1 hypothesis")
    if groups < 1 or size % groups:
        raise SearchError(f"search.groups: {groups}; a beam of {size} cannot be parted into so many equal groups")
    if stop not in STOPS:
        raise SearchError(f"search.stop: {stop!r} is not known; use {', '.join(STOPS)}")
    if not limits:
        return []
    finish = -(-max(finish or size, n_best) // groups) * groups
    rest = (n_best, stop, groups, diversity, tuple(rules), weights, trace)
    settings = _Beam(_Key(model, end, size, ranking, finish, *rest))
    bounds = Limits.of(limits, least, prefixes, device=device)
    rows = len(limits)
    ratings_BK = torch.full((rows, size), NEVER, device=device)
    ratings_BK[:, :: size // groups] = 0.0
    live = SearchState.begin(
        repeat(model.start(memory), size), memory, bounds, begin=begin, rows=size, rules=rules, device=device
    )
    looked_BKS = None
    if ranking.beta:
        width = model.step(live.tokens_R[::size], model.start(memory), memory)[2]
        if width is None:
            raise SearchError("search.coverage_penalty: this model has no attention, so nothing is known of coverage")
        looked_BKS = torch.zeros(rows, size, width.shape[1], device=device)
    found = Found(
        totals_BK=torch.zeros_like(ratings_BK),
        ratings_BK=ratings_BK,
        ended_BG=torch.zeros(rows, groups, dtype=torch.int64, device=device),
        best_BN=torch.full((rows, n_best), NEVER, device=device),
        looked_BKS=looked_BKS,
    )
    steps = (loop or StepLoop()).run(
        settings.advance, live._replace(found=found), key=settings.key, looks=weights or looked_BKS is not None
    )
    return trace_back(steps, rows, size, end=end, n_best=n_best, distinct=groups > 1, trace=trace)
