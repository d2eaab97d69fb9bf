"""Classifiers of damaged pairs: the damages, the features, the scores."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from weft.data.pairs import Pair
from weft.pairs.cleaning.damages import cut, damage_scores, features_of, misaligned
from weft.pairs.cleaning.word_evidence import Evidence, Judge


def corpus(count: int) -> list[Pair]:
    random = Random(3)
    rows = ([random.randrange(7) for _ in range(random.randrange(2, 6))] for _ in range(count))
    return [Pair(" ".join(f"s{n}" for n in row), " ".join(f"t{n}" for n in row)) for row in rows]


def test_misaligned_pairs_have_targets_of_others() -> None:
    pairs = [Pair(f"s{number}", f"t{number % 5}") for number in range(23)]
    damaged = misaligned(pairs, Random(1))
    targets = {pair.source: pair.target for pair in pairs}
    assert len({pair.source for pair in damaged}) == len(damaged) > 10
    assert all(targets[pair.source] != pair.target for pair in damaged)
    assert misaligned([Pair("a", "t"), Pair("b", "t")], Random(1)) == [] == misaligned([], Random(1))


@pytest.mark.parametrize("side", [0, 1])
def test_cut_pairs_lack_the_end_of_a_side(side: int) -> None:
    pairs = [Pair("a b c d e f g h i j", "k l m n o p q r s t")] * 50
    for pair in cut(pairs, side, Random(1)):
        assert pair[1 - side] == pairs[0][1 - side] and pairs[0][side].startswith(pair[side])
        assert 3 <= len(pair[side].split()) <= 8
    assert cut([Pair("a", "b")], side, Random(1)) == []


def test_the_features_of_a_side() -> None:
    class Fixed:
        def evidence(self, pair: Pair) -> Evidence:
            return Evidence([1.0, -2.0, 0.5, 0.0, -0.25], [])

    features = features_of(Pair("", "abcdefg"), Fixed())  # type: ignore[arg-type]
    assert features[:8] == pytest.approx([-0.15, -0.75, 0.4, -2.25, -0.125, -0.25, 0.0, -1.75])
    assert features[8:16] == [0.0] * 8
    assert features[16:] == pytest.approx([math.log(6), 0.0, math.log(6), math.log(10 / 3)])


def test_scores_separate_the_damages() -> None:
    pairs = corpus(600)
    judge = Judge(pairs[300:])
    wrong = misaligned(pairs[:40], Random(2))
    short = cut([pair for pair in pairs[40:120] if len(pair.source.split()) >= 4], 0, Random(2))
    judged = [*pairs[120:300], *wrong, *short]
    rows = np.arange(len(judged))
    scores = damage_scores(judged, rows, rows, judge)
    right_N, wrong_N = rows < 180, (rows >= 180) & (rows < 180 + len(wrong))
    assert np.median(scores[wrong_N, 0]) > np.quantile(scores[right_N, 0], 0.9)
    assert np.median(scores[180 + len(wrong) :, 1]) > np.quantile(scores[right_N, 1], 0.9)


def test_nothing_to_learn_from() -> None:
    rows = np.arange(2)
    pairs = [Pair("a", "b"), Pair("c", "d")]
    assert not damage_scores(pairs, rows, rows[:0], Judge([])).any()
    assert np.isfinite(damage_scores(pairs, rows, rows[:1], Judge([]))).all()
