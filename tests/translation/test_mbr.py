from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import SearchError
from weft.translation.mbr import expected_utilities


def alike(hypothesis: str, reference: str) -> float:
    """Not symmetric, so that an exchange of the two does not go unseen."""
    return len(set(hypothesis) & set(reference)) / (1 + len(set(hypothesis)))


def slow(texts: list[str], weights: list[float]) -> list[float]:
    """Every text against every text."""
    total = sum(weights)
    return [
        sum(weight * alike(hypothesis, reference) for reference, weight in zip(texts, weights, strict=True)) / total
        for hypothesis in texts
    ]


TEXTS = st.lists(st.text("abc", max_size=3), min_size=1, max_size=9)


@given(TEXTS)
def test_the_definition(texts: list[str]) -> None:
    assert expected_utilities(texts, alike) == pytest.approx(slow(texts, [1.0] * len(texts)))


@given(TEXTS, st.data())
def test_the_definition_with_weights(texts: list[str], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.floats(0, 10), min_size=len(texts), max_size=len(texts)))
    weights[0] += 0.5
    assert expected_utilities(texts, alike, weights=weights) == pytest.approx(slow(texts, weights))


def test_each_pair_is_asked_for_once() -> None:
    asked: Counter[tuple[str, str]] = Counter()

    def utility(hypothesis: str, reference: str) -> float:
        asked[hypothesis, reference] += 1
        return 0.0

    expected_utilities(["a", "b", "a", "a", "c"], utility)
    assert asked == Counter({(one, other): 1 for one in "abc" for other in "abc"})


def test_equality_is_a_majority_vote() -> None:
    assert expected_utilities(["x", "y", "y", "z"], lambda one, other: float(one == other)) == [0.25, 0.5, 0.5, 0.25]


def test_the_most_probable_need_not_win() -> None:
    """Three that are nearly the same beat the one that is most often said."""
    texts = ["zzz", "zzz", "abcd", "abce", "abcf"]
    expected = expected_utilities(texts, lambda one, other: len(set(one) & set(other)) / 4)
    assert texts[expected.index(max(expected))] == "abcd"


def test_one_and_none() -> None:
    assert expected_utilities(["a"], lambda *_: 0.7) == [0.7]
    assert expected_utilities([], alike) == []


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "minimum risk: 2 texts but 1 weights; expected one for each text"),
        ([1.0, -1.0], "minimum risk: the weight of 'b' is -1.0; expected 0 or more"),
        ([1.0, float("nan")], "minimum risk: the weight of 'b' is nan; expected 0 or more"),
        ([0.0, 0.0], "minimum risk: every weight is 0; expected at least one that is not"),
    ],
)
def test_what_is_refused(weights: list[float], message: str) -> None:
    with pytest.raises(SearchError) as refused:
        expected_utilities(["a", "b"], alike, weights=weights)
    assert str(refused.value) == message
