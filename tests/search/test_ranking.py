"""What hypotheses are ranked by, against the formulas written out."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fixtures.search_requests import beam
from fixtures.table_model import Table, table
from weft.search.ranking import MIN_COVERAGE, Ranking, coverage_score


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_normalisations(alpha: float, length: int) -> None:
    assert Ranking("power", alpha).score(-6.0, length) == pytest.approx(-6.0 / length**alpha)
    assert Ranking("gnmt", alpha).score(-6.0, length) == pytest.approx(-6.0 / ((5 + length) / 6) ** alpha)
    assert Ranking("none", alpha).score(-6.0, length) == -6.0
    for kind in ("power", "gnmt", "none"):
        ranking = Ranking(kind, alpha)  # type: ignore[arg-type]
        assert ranking.penalties(torch.tensor([length])).item() == pytest.approx(ranking.penalty(length))


@given(st.floats(-50, 0), st.integers(1, 30), st.integers(0, 30), st.floats(0, 20), st.sampled_from([0.0, 0.5, 1.0]))
def test_nothing_that_goes_on_beats_the_bound(total: float, length: int, more: int, fall: float, alpha: float) -> None:
    for kind in ("power", "gnmt", "none"):
        ranking = Ranking(kind, alpha, 0.3)  # type: ignore[arg-type]
        later = ranking.score(total - fall, length + more, coverage=-fall)
        assert later <= ranking.bound(total, length + more) + 1e-9


def test_coverage() -> None:
    covered = torch.tensor([[0.25, 3.0, 1.0, 0.0], [1e-9, 0.5, 0.5, 0.0]])
    least = math.log(MIN_COVERAGE)
    expected = [math.log(0.25), least + 2 * math.log(0.5)]
    assert coverage_score(covered[:, :3]).tolist() == pytest.approx(expected)
    assert coverage_score(covered).tolist() == pytest.approx([value + least for value in expected])


def test_padding_is_not_covered() -> None:
    """Of two sentences with two hypotheses each: a weight of 0 is padding only where the source has ended."""
    rows_BKS = torch.tensor([[[0.5, 0.0, 0.0], [1.0, 1.0, 0.0]], [[0.0, 0.5, 0.25], [1.0, 0.0, 0.0]]])
    least = math.log(MIN_COVERAGE)
    scores_BK = coverage_score(rows_BKS, torch.tensor([2, 3]))
    assert scores_BK[0].tolist() == pytest.approx([math.log(0.5) + least, 0.0])
    assert scores_BK[1].tolist() == pytest.approx([least + math.log(0.125), 2 * least])
    assert coverage_score(rows_BKS, torch.tensor([0, 9])).tolist()[0] == [0.0, 0.0]


def test_a_beam_is_ranked_by_coverage() -> None:
    memory = table(4, 6, seed=11)
    ranking = Ranking("gnmt", 0.8, 0.7)
    for found in beam(Table(), memory, [6] * 4, size=4, n_best=4, ranking=ranking, return_attention=True):
        for one in found:
            assert one.attention_TS is not None
            penalty = sum(math.log(min(max(total, MIN_COVERAGE), 1.0)) for total in one.attention_TS.sum(0).tolist())
            length = len(one.token_scores)
            expected = one.log_probability / ((5 + length) / 6) ** 0.8 + 0.7 * penalty
            assert one.score == pytest.approx(expected, abs=1e-4)
