"""What the sides of pairs say about each other's words."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from weft.data.pairs import Pair
from weft.evaluation.ibm1 import EMPTY, fit_ibm1
from weft.pairs.cleaning import word_evidence as module
from weft.pairs.cleaning.word_evidence import Evidence, Judge, judged_halves, shortened


def corpus(count: int = 200) -> list[Pair]:
    random = Random(3)
    rows = ([random.randrange(7) for _ in range(random.randrange(2, 6))] for _ in range(count))
    return [Pair(" ".join(f"s{n}" for n in row), " ".join(f"t{n}" for n in row)) for row in rows]


def test_words_with_and_without_counterparts() -> None:
    judge = Judge(corpus())
    targets, sources = judge.evidence(Pair("s1 s2", "t1 t5"))
    assert targets[0] > 0.3 > 0 > targets[1] and sources[0] > 0.3 > 0 > sources[1]
    assert judge.evidence(Pair("s1 zzz", "t1")).sources[1] == 0.0, "a word that the half lacks says nothing"


def test_the_equation() -> None:
    training = corpus(30)
    t = fit_ibm1(training, iterations=module.ITERATIONS).probabilities
    words = [word for pair in training for word in pair.target.split()]
    [ratio, other] = Judge(training).evidence(Pair("s1 s2 s3", "t1 t6")).targets
    for word, value in (("t1", ratio), ("t6", other)):
        mean = sum(t.get((source, word), 0.0) for source in (EMPTY, "s1", "s2", "s3")) / 4
        expected = 0.9 * mean / (words.count(word) / len(words)) + 0.1
        assert value == pytest.approx(math.log(expected))


def test_no_pair_is_judged_by_models_that_it_trained() -> None:
    pairs = [Pair(f"s{number}", f"t{number}") for number in range(40)]
    calls: list[int] = []
    halves = list(judged_halves(pairs, [number != 7 for number in range(40)], on_progress=lambda: calls.append(1)))
    assert sorted(np.concatenate([rows for rows, _ in halves]).tolist()) == list(range(40)) and len(calls) == 4
    for rows, judge in halves:
        assert all(judge.evidence(pairs[row]) == Evidence([0.0], [0.0]) for row in rows), "its words are unknown"
        others = set(range(40)) - set(rows.tolist()) - {7}
        assert all(judge.evidence(pairs[row]).targets[0] > 0 for row in others)


def test_few_pairs_and_long_ones() -> None:
    long = shortened(Pair("A " * 500, "b " * 500))
    assert long.source == " ".join(["a"] * module.MAX_WORDS)
    assert Judge([]).evidence(long) == Evidence([0.0] * module.MAX_WORDS, [0.0] * module.MAX_WORDS)
