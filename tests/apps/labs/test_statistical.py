"""The statistical lab: where curves cross, and what a trial measures."""

from __future__ import annotations

import pytest

from weft.apps.labs.statistical import KINDS, Condition, crossing, trial


@pytest.mark.parametrize(
    ("statistical", "neural", "title"),
    [
        ([10, 20, 30], [5, 25, 40], "The curves cross between 100 and 300 pairs"),
        ([10, 20, 30], [5, 15, 40], "The curves cross between 300 and 1,000 pairs"),
        ([10, 20, 30], [5, 15, 20], "The statistical translator is ahead with every number of pairs"),
        ([10, 20, 30], [15, 25, 40], "The neural translator is ahead with every number of pairs"),
        ([10, 20, 30], [15, 15, 40], "The curves cross more than once"),
    ],
)
def test_where_the_curves_cross(statistical: list[float], neural: list[float], title: str) -> None:
    kinds = zip(KINDS, (statistical, neural), strict=True)
    bleu = {kind: {size: [v] for size, v in zip((100, 300, 1_000), values, strict=True)} for kind, values in kinds}
    assert crossing(bleu) == title


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial(kind: str) -> None:
    result = trial(Condition(kind, 50, 1, 4), 1)
    assert 0 <= result["bleu"] <= 100 and 0 <= result["exact"] <= 100 and len(result["examples"]) == 3


def test_more_pairs_make_it_better() -> None:
    few, many = (trial(Condition("statistical", pairs, 1, 50), 1)["bleu"] for pairs in (50, 2_000))
    assert many > few + 10
