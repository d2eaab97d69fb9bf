"""What the sides of pairs say about each other's words."""

from __future__ import annotations

import math
from random import Random

import pytest

from weft.data.pairs import Pair
from weft.evaluation.ibm1 import EMPTY, fit_ibm1
from weft.pairs.cleaning import word_evidence as module
from weft.pairs.cleaning.word_evidence import word_evidence


def corpus(count: int = 200) -> list[Pair]:
    random = Random(3)
    rows = ([random.randrange(7) for _ in range(random.randrange(2, 6))] for _ in range(count))
    return [Pair(" ".join(f"s{n}" for n in row), " ".join(f"t{n}" for n in row)) for row in rows]


def test_words_with_and_without_counterparts() -> None:
    pairs = [*corpus(), Pair("s1 s2", "t1 t5"), Pair("s1 zzz", "t1")]
    targets, sources = word_evidence(pairs)
    assert targets[-2][0] > 0.3 > 0 > targets[-2][1] and sources[-2][0] > 0.3 > 0 > sources[-2][1]
    assert sources[-1][1] == 0.0, "a word that the other half does not have says nothing"
    assert all(len(row) == len(pair.target.split()) for row, pair in zip(targets, pairs, strict=True))


def test_the_equation() -> None:
    training = corpus(30)
    judge = module._Judge(training)
    t = fit_ibm1(training, iterations=module.ITERATIONS).probabilities
    words = [word for pair in training for word in pair.target.split()]
    [ratio, other] = judge.evidence(Pair("s1 s2 s3", "t1 t6"))
    for word, value in (("t1", ratio), ("t6", other)):
        mean = sum(t.get((source, word), 0.0) for source in (EMPTY, "s1", "s2", "s3")) / 4
        expected = 0.9 * mean / (words.count(word) / len(words)) + 0.1
        assert value == pytest.approx(math.log(expected))


def test_few_pairs_and_long_ones() -> None:
    assert word_evidence([]) == ([], [])
    [[row], [back]] = word_evidence([Pair("a " * 500, "b " * 500)])
    assert row == [0.0] * module.MAX_WORDS and back == [0.0] * module.MAX_WORDS
