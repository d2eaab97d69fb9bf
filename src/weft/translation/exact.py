"""The exact strategies: searches whose outputs are provably the best of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from weft.errors import SearchError
from weft.recipe.search import SearchSettings
from weft.search.interface import FORBIDDEN, Hypothesis, SearchRequest, StepModel
from weft.translation.engines.torch import ranking_of, refuse
from weft.tree import select


def exact(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """The provably best: by a beam where its gaps prove that, else by branch and bound that starts from its scores.

    Where the search gives up, the best of what it and the beam have found, with the smaller of their gaps.
    """
    from weft.search.beam import BeamOptions, beam_search
    from weft.search.exact import ExactOptions, exact_search

    request, n_best = _unconstrained(request, settings), request.n_best
    ranking = ranking_of(settings)
    beam_options = BeamOptions(size=max(BeamOptions.size, n_best), ranking=ranking, stop="provable")
    results = list(beam_search(model, request, beam_options))
    open_rows = [
        row
        for row, hypotheses in enumerate(results)
        if len(hypotheses) < n_best or not all(one.proven for one in hypotheses)
    ]
    scores = [[one.score for one in results[row] if one.ended == "end"] for row in open_rows]
    known_scores = [ended[-1] if len(ended) == n_best else FORBIDDEN for ended in scores]
    options = ExactOptions(ranking, max_nodes=settings.max_nodes)
    by_exact = exact_search(model, _select(request, open_rows), options, known_scores) if open_rows else []
    for row, hypotheses in zip(open_rows, by_exact, strict=True):
        complete = all(one.proven for one in hypotheses)
        results[row] = hypotheses if complete else _best_of(hypotheses, results[row])
    return [hypotheses[:n_best] for hypotheses in results]


def _select(request: SearchRequest, rows: list[int]) -> SearchRequest:
    """The request for some of its sentences."""
    memory = select(request.memory, torch.tensor(rows, dtype=torch.int64, device=request.device))
    loop = None if request.loop is None else request.loop.of_sentences(rows)
    return replace(request, memory=memory, max_lengths=[request.max_lengths[row] for row in rows], loop=loop)


def _best_of(first: list[Hypothesis], second: list[Hypothesis]) -> list[Hypothesis]:
    """The best hypotheses of two searches, without duplicates; those that ended come first.

    What neither has found is within the gaps of both.
    """
    from weft.search.ranking import gap

    ended_last = sorted((*second, *first), key=lambda one: one.ended == "end")  # the same tokens may also be a prefix
    different = {tuple(one.tokens): one for one in ended_last}
    ranked = sorted(different.values(), key=lambda one: (one.ended != "end", -one.score))
    bound = min((one.score + one.gap for one in (*first, *second) if one.gap is not None), default=FORBIDDEN)
    return [replace(one, gap=gap(bound, one.score) if one.ended == "end" else None) for one in ranked]


def exhaustive(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """The best of all outputs there are."""
    from weft.search.exact import ExactOptions, exhaustive_search

    options = ExactOptions(ranking_of(settings), max_space=settings.max_space)
    return exhaustive_search(model, _unconstrained(request, settings), options)


def _unconstrained(request: SearchRequest, settings: SearchSettings) -> SearchRequest:
    """The exact searches judge the model itself: refuse what would change its scores; loops are allowed."""
    kind = f"search.kind = '{settings.kind}'"
    refuse(settings, kind, no_repeat_ngram=0, repetition_penalty=1.0, banned=[], banned_ids=[])
    refuse(settings, kind, min_length=0, min_ratio=0.0, coverage_penalty=0.0)
    if any(request.prefixes):
        raise SearchError(f"search.prefix: {kind} takes none; use beam")
    if request.return_trace:
        raise SearchError(f"{kind} keeps no trace; use greedy, sample or beam")
    return replace(request, constraints=(), min_lengths=())
