"""Gaps against all outputs there are: no other output is better by more, and what is proven is the best."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.search_requests import beam, draw, exact, exhaustive, greedy
from fixtures.table_model import END, Table, TableMemory, script, table
from weft.models.layers import log_entmax15
from weft.search.constraints import BannedPhrases, NoRepeatNgrams, RepetitionPenalty
from weft.search.interface import Hypothesis
from weft.search.ranking import Ranking, gap, gaps, greedy_bound, greedy_bounds
from weft.search.sampling import Sampler

quick = settings(deadline=None, max_examples=30)
VOCABULARY = 5
SEEDS = st.integers(0, 10_000)
LIMITS = st.lists(st.integers(1, 4), min_size=1, max_size=3)
RANKINGS = st.sampled_from(
    [Ranking("none"), Ranking("power", 0.6), Ranking("power", 1.0), Ranking("gnmt", 1.3), Ranking("power", 1.0, 0.5)]
)
SPARSITIES = st.sampled_from([0.0, 2.0, 6.0])
"""0: every token has probability; else what the scores of 1.5-entmax are multiplied by."""


def memory_of(rows: int, seed: int, sparsity: float) -> TableMemory:
    memory = table(rows, VOCABULARY, seed=seed)
    return memory._replace(logits=log_entmax15(memory.logits * sparsity)) if sparsity else memory


def check(found: list[list[Hypothesis]], every: list[list[Hypothesis]]) -> int:
    """How many are proven; ``every``: all outputs there are."""
    proven = 0
    for hypotheses, others in zip(found, every, strict=True):
        scores = {tuple(one.tokens): one.score for one in others if one.ended == "end"}
        for one in hypotheses:
            scores.pop(tuple(one.tokens), None)
            if one.gap is None:
                continue
            assert one.ended == "end" and one.gap >= 0.0 and one.proven == (one.gap == 0.0)
            best = max(scores.values(), default=-math.inf)
            assert best <= one.score + one.gap + 1e-7
            if one.proven:
                proven += 1
                assert best < one.score
    return proven


@quick
@given(
    seed=SEEDS,
    limits=LIMITS,
    ranking=RANKINGS,
    sparsity=SPARSITIES,
    size=st.sampled_from([1, 2, 3, 7]),
    stop=st.sampled_from(["finished", "outranked", "provable", "steps"]),
    finish=st.integers(0, 3),
    n_best=st.integers(1, 3),
    return_trace=st.booleans(),
)
def test_beams(
    seed: int, limits: list[int], ranking: Ranking, sparsity: float, size: int, return_trace: bool, **options: Any
) -> None:
    memory = memory_of(len(limits), seed, sparsity)
    every = exhaustive(Table(), memory, limits, ranking=ranking, n_best=1000)
    size = max(size, options["n_best"])
    found = beam(Table(), memory, limits, ranking=ranking, size=size, return_trace=return_trace, **options)
    check(found, every)
    for hypotheses in found:
        assert all((one.gap is None) == (one.ended != "end") for one in hypotheses)


def test_proofs_are_common() -> None:
    """Of the outputs that end a beam of three proves some, and most where they are sparse; a wide beam proves all."""
    for sparsity, size, share in ((0.0, 3, 0.3), (2.0, 3, 0.8), (6.0, 3, 1.0), (0.0, 100, 1.0)):
        memory = memory_of(20, 3, sparsity)
        every = exhaustive(Table(), memory, [4] * 20, ranking=Ranking("none"), n_best=1000)
        found = beam(Table(), memory, [4] * 20, ranking=Ranking("none"), size=size, stop="steps")
        ended = sum(best.ended == "end" for [best] in found)
        assert check(found, every) >= share * ended > 0


@quick
@given(seed=SEEDS, limits=LIMITS, ranking=RANKINGS, sparsity=SPARSITIES)
def test_greedy_search(seed: int, limits: list[int], ranking: Ranking, sparsity: float) -> None:
    memory = memory_of(len(limits), seed, sparsity)
    every = exhaustive(Table(), memory, limits, ranking=ranking, n_best=1000)
    check(greedy(Table(), memory, limits, ranking), every)


@quick
@given(
    seed=SEEDS,
    limits=LIMITS,
    ranking=RANKINGS,
    sparsity=SPARSITIES,
    max_nodes=st.integers(1, 40),
    n_best=st.integers(1, 3),
    known=st.booleans(),
)
def test_exact_search_that_gives_up(
    seed: int, limits: list[int], ranking: Ranking, sparsity: float, max_nodes: int, n_best: int, known: bool
) -> None:
    memory = memory_of(len(limits), seed, sparsity)
    every = exhaustive(Table(), memory, limits, ranking=ranking, n_best=1000)
    scores = [min((one.score for one in found[:n_best]), default=-math.inf) for found in every] if known else None
    found = exact(Table(), memory, limits, scores, ranking=ranking, n_best=n_best, max_nodes=max_nodes, width=3)
    check(found, every)


CONSTRAINTS = {
    "prefix": {"prefixes": [[3], [4, 0]]},
    "minimum length": {"min_lengths": [2, 1]},
    "banned": {"constraints": (BannedPhrases([[3], [4, 0]]),)},
    "no repetition": {"constraints": (NoRepeatNgrams(1),)},
    "repetition penalty": {"constraints": (RepetitionPenalty(1.5),)},
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("ranking", [Ranking("none"), Ranking()], ids=["sum", "mean"])
def test_under_constraints_of_all_outputs_that_they_allow(name: str, ranking: Ranking) -> None:
    """By the scores that constraints have changed, if they have. A beam that is wide enough finds all outputs."""
    proven = 0
    for seed in range(8):
        memory = memory_of(2, seed, 2.0 * (seed % 2))
        options: dict[str, Any] = {"ranking": ranking, **CONSTRAINTS[name]}
        every = beam(Table(), memory, [4, 4], size=400, n_best=400, stop="steps", **options)
        proven += check(beam(Table(), memory, [4, 4], size=3, **options), every)
    assert proven


def test_searches_that_cannot_tell() -> None:
    memory = table(2, VOCABULARY, seed=1)
    found = [
        *beam(Table(), memory, [4, 4], size=4, groups=2),
        *beam(Table(), memory, [4, 4], size=3, required=[[[[3]]], [[[4]]]]),
        *draw(Table(), memory, [4, 4], Sampler(), n_best=3),
    ]
    assert {one.gap for hypotheses in found for one in hypotheses} == {None}


def test_what_is_discarded_counts() -> None:
    """A beam of one keeps 3, sets the ending aside, and has discarded 4 at the first step: log 0.3."""
    first = {(): {3: 0.6, 4: 0.3, END: 0.1}, (3,): {END: 0.8, 3: 0.2}}
    [[best]] = beam(script(first, vocabulary=6), torch.arange(1), [9], size=1, ranking=Ranking("none"))
    assert best.tokens == [3] and best.score == pytest.approx(math.log(0.48))
    assert best.proven  # 0.3 < 0.48: nothing that begins with 4 can be better
    [[mean]] = beam(script(first, vocabulary=6), torch.arange(1), [9], size=1, ranking=Ranking())
    expected = math.log(0.3) / 9 - math.log(0.48) / 2
    assert mean.gap == pytest.approx(expected, abs=1e-4) and not mean.proven


def test_what_is_left_in_the_beam_counts() -> None:
    """After the first ending a beam of one stops, though what it would continue with may be better."""
    row = {(): {END: 0.55, 3: 0.45}, (3,): {END: 1.0}}
    [[best]] = beam(script(row, vocabulary=6), torch.arange(1), [9], size=1, ranking=Ranking())
    assert best.tokens == [] and best.gap == pytest.approx(math.log(0.45) / 9 - math.log(0.55), abs=1e-4)


def test_rounding_is_a_gap() -> None:
    assert gap(-1.0, -1.0) == pytest.approx(2e-5) and gap(-1.0, -0.5) == 0.0 and gap(-math.inf, -3.0) == 0.0
    assert gap(-0.25, -1.0) == pytest.approx(0.75, abs=2e-5)


def test_the_bound_of_greedy_search() -> None:
    """All other tokens together: 1 − p."""
    scores = [math.log(0.9), math.log(0.8)]
    assert greedy_bound(scores, Ranking("none"), 7) == pytest.approx(math.log(0.9 * 0.2), abs=1e-4)
    assert greedy_bound(scores, Ranking(), 7) == pytest.approx(math.log(0.9 * 0.2) / 7, abs=1e-4)
    assert greedy_bound([], Ranking(), 7) == -math.inf


def test_of_several_outputs_at_once() -> None:
    """Bit for bit what each of them gives alone."""
    rng = np.random.default_rng(3)
    log_probs_TR = np.log(rng.uniform(0.01, 1.0, (7, 5)))
    lengths_R, limits = np.array([7, 1, 0, 4, 6]), [9, 7, 3, 4, 12]
    for ranking in (Ranking(), Ranking("gnmt", 0.6), Ranking("none")):
        expected = [
            greedy_bound(log_probs_TR[:length, row].tolist(), ranking, limit)
            for row, (length, limit) in enumerate(zip(lengths_R.tolist(), limits, strict=True))
        ]
        bounds = greedy_bounds(log_probs_TR, lengths_R, ranking, limits)
        assert bounds.tolist() == expected
        scores = np.array([-1.0, -0.001, 0.0, -2.0, -0.3])
        assert gaps(bounds, scores).tolist() == [gap(*pair) for pair in zip(expected, scores.tolist(), strict=True)]
