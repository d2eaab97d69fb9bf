"""Copied words and their order."""

from __future__ import annotations

import pytest

from weft.data.profiling.relations import relate


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
