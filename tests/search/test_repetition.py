"""One definition of loops: constraint, batch detector and metric are held to the runs of `weft.search.repetition`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.evaluation.repetition import find_loop
from weft.search.constraints import NoLoops
from weft.search.interface import NO_TOKEN
from weft.search.repetition import LoopLimits, has_loop, runs

quick = settings(deadline=None, max_examples=100)
SEQUENCES = st.lists(st.integers(0, 1), max_size=25)
LIMITS = st.builds(LoopLimits, st.integers(1, 5), st.integers(2, 4), st.integers(0, 11))


def loops(tokens: list[int], limits: LoopLimits) -> bool:
    """The definition: a run of some period that is long enough."""
    return any(
        stop - start >= limits.length(period)
        for period in range(1, limits.longest + 1)
        for start, stop in runs(tokens, period)
    )


@quick
@given(SEQUENCES, st.integers(1, 5))
def test_runs_are_maximal_and_cover_everything(tokens: list[int], period: int) -> None:
    found = list(runs(tokens, period))
    for start, stop in found:
        assert all(tokens[position] == tokens[position - period] for position in range(start + period, stop))
        assert stop == len(tokens) or tokens[stop] != tokens[stop - period]
        assert start == 0 or tokens[start + period - 1] != tokens[start - 1]
    repeated = {position for position in range(period, len(tokens)) if tokens[position] == tokens[position - period]}
    assert repeated == {position for start, stop in found for position in range(start + period, stop)}


@quick
@given(st.lists(SEQUENCES, min_size=1, max_size=4), LIMITS)
def test_the_batch_detector(rows: list[list[int]], limits: LoopLimits) -> None:
    """Also where the end of a sequence and the beginning of the next would be a loop together."""
    tokens_N = np.array([token for row in rows for token in row], dtype=np.int64)
    assert has_loop(tokens_N, np.array(list(map(len, rows))), limits).tolist() == [loops(row, limits) for row in rows]


@quick
@given(SEQUENCES, LIMITS)
def test_the_constraint_forbids_the_token_that_completes_a_loop(tokens: list[int], limits: LoopLimits) -> None:
    """So whatever is generated under it has no loop, and nothing else is forbidden."""
    constraint = NoLoops(limits)
    generated: list[int] = []
    for token in tokens:
        history_RW = torch.tensor([[NO_TOKEN, *generated]])
        scores_RV = constraint(torch.zeros(1, 2), history_RW, torch.zeros(1, dtype=torch.int64))
        assert scores_RV[0].isneginf().tolist() == [loops([*generated, other], limits) for other in (0, 1)]
        if scores_RV[0, token].isneginf():
            break
        generated.append(token)
    assert not loops(generated, limits)


@quick
@given(SEQUENCES, LIMITS)
def test_the_metric_finds_loops_of_whole_copies(tokens: list[int], limits: LoopLimits) -> None:
    longest, copies, least = limits
    expected = any(
        (count := (stop - start) // period) >= copies and count * period >= least
        for period in range(1, longest + 1)
        for start, stop in runs(tokens, period)
    )
    found = find_loop(tokens, max_phrase=longest, min_copies=copies, min_tokens=least)
    assert (found is not None) == expected
    if found is not None:
        assert loops(tokens, limits)


@pytest.mark.parametrize(("period", "length"), [(1, 10), (3, 10), (4, 12), (16, 48)])
def test_the_default_limits(period: int, length: int) -> None:
    assert LoopLimits().length(period) == length
