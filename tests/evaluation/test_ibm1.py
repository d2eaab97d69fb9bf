"""IBM Model 1: against the literal version, and on pairs whose answer is known."""

from __future__ import annotations

import pytest

import weft
from oracles.ibm1 import ibm1
from weft.evaluation.ibm1 import EMPTY, fit_ibm1
from weft.tasks import generate
from weft.text.words import words

HOUSE = [weft.Pair("the house", "la maison"), weft.Pair("the flower", "la fleur"), weft.Pair("house", "maison")]


@pytest.mark.parametrize("iterations", [0, 1, 5])
def test_fit_equals_the_literal_version(iterations: int) -> None:
    pairs = [*generate("grammar", "train", 37, seed=1, options={"max_words": 7}), *HOUSE]
    expected = ibm1([(words(pair.source), words(pair.target)) for pair in pairs], iterations)
    assert fit_ibm1(pairs, iterations=iterations).probabilities == pytest.approx(expected)


def test_probabilities_of_a_source_word_sum_to_one() -> None:
    probabilities = fit_ibm1(HOUSE).probabilities
    for source in (EMPTY, "the", "house", "flower"):
        assert sum(value for (word, _), value in probabilities.items() if word == source) == pytest.approx(1)


def test_words_that_translate_each_other_are_linked() -> None:
    model = fit_ibm1(HOUSE)
    assert model.links(weft.Pair("the house", "la maison"))[-1] == (1, 1)
    assert model.links(weft.Pair("the flower", "la fleur"))[-1] == (1, 1)


def test_unknown_words_have_no_link() -> None:
    assert fit_ibm1(HOUSE).links(weft.Pair("a dog", "un chien")) == []
