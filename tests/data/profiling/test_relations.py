"""Copied words and common subsequences."""

from __future__ import annotations

import random
from functools import cache

import pytest

from weft.data.profiling.relations import common_subsequence, relate


def _slow_common_subsequence(first: str, second: str) -> int:
    """The length of the longest common subsequence by its recursive definition."""

    @cache
    def length(i: int, j: int) -> int:
        if not i or not j:
            return 0
        if first[i - 1] == second[j - 1]:
            return 1 + length(i - 1, j - 1)
        return max(length(i - 1, j), length(i, j - 1))

    return length(len(first), len(second))


def test_common_subsequences() -> None:
    draw = random.Random(1)
    for _ in range(200):
        first, second = ("".join(draw.choices("abcd", k=draw.randrange(0, 12))) for _ in range(2))
        assert common_subsequence(first, second) == _slow_common_subsequence(first, second)


def test_copied_words_and_their_order() -> None:
    sources = ["call Anna now", "call Bert now", "go home", "say hello"]
    targets = ["now ( Anna )", "now ( Bert )", "home", "hi"]
    relations = relate(sources, targets)
    assert relations.copied_words == pytest.approx(5 / 6)
    assert relations.copied_words_by_chance == 0
    assert relations.monotone == pytest.approx(3 / 5)
    assert relations.identical == 0


def test_equal_sides() -> None:
    texts = ["one two", "three", "four five"]
    relations = relate(texts, texts)
    assert (relations.identical, relations.common_characters, relations.monotone) == (1, 1, 1)
    assert relations.common_characters_by_chance < 1


def test_one_pair() -> None:
    assert relate(["a"], ["b"]).copied_words == 0
