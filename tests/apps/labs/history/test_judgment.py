"""Claims on made-up numbers: true, false and too noisy."""

from __future__ import annotations

from typing import Any

import pytest

from weft.apps.labs.history.judgment import judge_history

DIAGONAL = [22.0, 22.1, 22.3]
Rows = list[dict[str, Any]]


def outcomes(results: dict[str, Rows]) -> list[str]:
    return [verdict.outcome for _, verdict in judge_history(results, DIAGONAL)]


def test_all_claims_hold(results: dict[str, Rows]) -> None:
    claims = judge_history(results, DIAGONAL)
    assert [verdict.outcome for _, verdict in claims] == ["held"] * 4
    assert "60 points" in claims[0].verdict.sentence and "Bahdanau 2015" in claims[0].verdict.sentence
    assert len(claims[1].verdict.checks) == 4


def test_attention_that_does_not_help(results: dict[str, Rows]) -> None:
    assert outcomes(results | {"bahdanau2015": results["cho2014"]})[0] == "did not hold"


def test_attention_that_aligns_worse_than_the_diagonal(results: dict[str, Rows]) -> None:
    worse = [{**row, "error": 60.0} for row in results["luong2015"]]
    assert outcomes(results | {"luong2015": worse})[1] == "did not hold"


def test_the_order_of_models_is_judged_not_assumed(results: dict[str, Rows]) -> None:
    swapped = results | {"transformer2017": results["today"], "today": results["transformer2017"]}
    assert outcomes(swapped)[2:] == ["held", "did not hold"]


def test_noise_is_no_evidence(results: dict[str, Rows]) -> None:
    noisy = [{**row, "exact": [value] * 5} for row, value in zip(results["today"], (20.0, 99.0, 80.0), strict=True)]
    assert outcomes(results | {"today": noisy})[3] == "inconclusive"


def test_one_seed_is_no_evidence(results: dict[str, Rows]) -> None:
    claims = judge_history({key: rows[:1] for key, rows in results.items()}, DIAGONAL[:1])
    assert {verdict.outcome for _, verdict in claims} == {"inconclusive"}


@pytest.mark.parametrize(
    ("keys", "number"), [(("cho2014",), 0), (("luong2015",), 1), (("transformer2017", "today"), 2)]
)
def test_only_models_that_were_trained_are_judged(results: dict[str, Rows], keys: tuple[str, ...], number: int) -> None:
    assert len(outcomes({key: results[key] for key in keys})) == number
