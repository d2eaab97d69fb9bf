"""The repetition lab: its stories, its verdict on made-up numbers, and a world in which its claim is false."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from weft.apps.labs import repetition
from weft.apps.labs.repetition import ANIMALS, judge_loops, story
from weft.evaluation.repetition import find_loop

RISING = [[-1.4, -0.6, -0.5, -0.4], [-1.5, -0.7, -0.58, -0.45], [-1.4, -0.65, -0.55, -0.43]]
LOOPS = {
    "greedy": [100.0, 98.0, 99.0],
    "beam of 5": [99.0, 98.0, 97.0],
    "top-p 0.9": [0.0, 2.0, 1.0],
    "pure sampling": [0.0, 1.0, 0.5],
    "data": [0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("animals", [3, len(ANIMALS)])
def test_stories_do_not_loop(animals: int) -> None:
    random = Random(1)
    for _ in range(50):
        sentences = story(random, animals)
        words = " ".join(sentences).split()
        assert 6 <= len(sentences) <= 10 and find_loop(words) is None
        assert all(first != second for first, second in pairwise(sentences))
        assert len(set(words) & set(ANIMALS)) <= animals


@pytest.mark.parametrize(
    ("curves", "loops", "outcome"),
    [
        (RISING, {}, "held"),
        ([[*curve, -0.9, -1.2] for curve in RISING], {}, "held"),  # later copies are not judged
        ([[-1.4, -0.6, -0.5, -0.51], [-1.5, -0.7, -0.58, -0.5], [-1.4, -0.65, -0.55, -0.5]], {}, "inconclusive"),
        ([[-1.4, -1.4, -1.41, -1.4]] * 3, {}, "did not hold"),
        ([[-1.4, -0.2, -0.4, -0.5]] * 3, {}, "did not hold"),
        ([[-1.4, -1.5, -1.4, -0.2], [-1.4, -1.3, -1.4, -1.5], [-1.4, -1.4, -1.4, -0.9]], {}, "inconclusive"),
        (RISING, {"top-p 0.9": [97.0, 98.0, 99.0]}, "did not hold"),
        (RISING, {"top-p 0.9": [0.0, 30.0, 10.0]}, "inconclusive"),
        (RISING, {"greedy": [1.0, 2.0, 1.0]}, "did not hold"),
    ],
)
def test_the_verdict(curves: list[list[float]], loops: dict[str, Any], outcome: str) -> None:
    assert judge_loops(curves, LOOPS | loops).outcome == outcome


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_where_words_do_not_come_back_nothing_rises() -> None:
    result = repetition(3, animals=len(ANIMALS), prompts=2)
    assert result.verdict.outcome == "did not hold"
