"""Search strategies: the values of ``search.kind``, on the command line and in Python.

A strategy receives a model, a batch (`SearchRequest`) and the settings; it returns the hypotheses of every sentence,
best first. To add one: write such a function and add its line to `weft.recipe.choices.STRATEGIES`. Each imports its
algorithm when it is used, so that loading a run imports none of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import torch

from weft.errors import SearchError, option
from weft.recipe.choices import STRATEGIES, resolve
from weft.recipe.search import SearchSettings
from weft.search.constraints import make_constraints
from weft.search.interface import FORBIDDEN, Hypothesis, SearchRequest, StepModel
from weft.search.ranking import Ranking
from weft.tree import select

Strategy = Callable[[StepModel, SearchRequest, SearchSettings], Sequence[list[Hypothesis]]]


def search(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """The hypotheses of every sentence, best first, by the strategy that the settings name."""
    values = {**dict(settings), "banned": tuple(map(tuple, request.banned))}
    strategy = strategy_named(settings.kind)
    return strategy(model, replace(request, constraints=make_constraints(values)), settings)


@cache
def strategy_named(kind: str) -> Strategy:
    """The strategy of a ``search.kind``."""
    strategy: Strategy = resolve(STRATEGIES, kind)
    return strategy


def greedy(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """The most likely token at every step."""
    if request.n_best > 1:
        raise SearchError(
            f"{option('n_best', request.n_best)}: greedy search finds one output; use search.kind = 'beam' or 'sample'"
        )
    from weft.search.sampling import greedy_search

    return greedy_search(model, request, ranking_of(settings))


def sampling(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """Random tokens, by their probabilities."""
    from weft.search.sampling import Sampler, sample
    from weft.search.sampling_filters import SamplingFilter

    filters = SamplingFilter(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        typical=settings.typical,
    )
    sampler = Sampler(filters, seed=request.seed if settings.seed is None else settings.seed)
    return sample(model, request, sampler, ranking_of(settings))


def beam(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """Several hypotheses side by side; with required phrases, all of which contain them."""
    from weft.search.beam import BeamOptions, beam_search

    size = max(settings.size, request.n_best)
    options = BeamOptions(
        size=-(-size // settings.groups) * settings.groups,
        ranking=ranking_of(settings),
        stop=settings.stop or BeamOptions.stop,
        finish=settings.finish,
        groups=settings.groups,
        diversity=settings.diversity,
    )
    if not any(request.required):
        return beam_search(model, request, options)
    _refuse(settings, "search.required", groups=1)
    if settings.stop not in (None, "finished"):
        raise SearchError("search.stop: with search.required it is always 'finished'; leave it unset")
    if any(request.prefixes):
        raise SearchError("search.required: cannot be used with a forced prefix; require it as a phrase")
    if request.return_trace:
        raise SearchError("search.required: a beam with required phrases keeps no trace")
    from weft.search.constrained_beam import constrained_beam_search

    return constrained_beam_search(model, request, options)


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


def ranking_of(settings: SearchSettings) -> Ranking:
    """The ranking of hypotheses."""
    return Ranking(settings.normalization, settings.length_penalty, settings.coverage_penalty)


def rng_key(ids: Sequence[int]) -> int:
    """A number for a sentence that depends on nothing but its ids."""
    return zlib.crc32(" ".join(map(str, ids)).encode())


def _unconstrained(request: SearchRequest, settings: SearchSettings) -> SearchRequest:
    """The exact searches judge the model itself: refuse what would change its scores; loops are allowed."""
    kind = f"search.kind = '{settings.kind}'"
    _refuse(settings, kind, no_repeat_ngram=0, repetition_penalty=1.0, banned=[], banned_ids=[])
    _refuse(settings, kind, min_length=0, min_ratio=0.0, coverage_penalty=0.0)
    if any(request.prefixes):
        raise SearchError(f"search.prefix: {kind} takes none; use beam")
    if request.return_trace:
        raise SearchError(f"{kind} keeps no trace; use greedy, sample or beam")
    return replace(request, constraints=(), min_lengths=())


def _refuse(settings: SearchSettings, other: str, **expected: object) -> None:
    """Refuse settings that are not at the expected value."""
    for name, value in expected.items():
        if getattr(settings, name) != value:
            raise SearchError(f"search.{name}: cannot be used with {other}; leave it at {value!r}")
