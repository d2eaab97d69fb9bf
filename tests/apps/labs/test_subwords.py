"""The subwords lab: its words, its verdict on made-up numbers, and a world in which its claim is false."""

from __future__ import annotations

from random import Random

import pytest

from weft.apps.labs import subwords
from weft.apps.labs.subwords import inflect, invent, judge_units, tie_note

EXACT = {
    "words": [0.0, 0.0, 0.0],
    "BPE": [55.0, 60.0, 65.0],
    "BPE-dropout": [30.0, 35.0, 40.0],
    "characters": [97.0, 98.0, 99.0],
}


def test_words_and_their_plurals() -> None:
    assert inflect("one", "mimen")[:2] == ("one mimen", "mimen")
    assert inflect("two", "mimen").target == "mimenes" and inflect("two", "mime").target == "mimes"
    words = invent(Random(1), 200)
    assert len(set(words)) == 200 and all(4 <= len(word) <= 7 for word in words)
    assert words == invent(Random(1), 200)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "held"),
        ({"BPE": [1.0, 2.0, 0.0]}, "did not hold"),
        ({"words": [99.0, 98.0, 97.0]}, "did not hold"),
        ({"BPE": [5.0, 60.0, 20.0]}, "inconclusive"),
    ],
)
def test_the_verdict(changes: dict[str, list[float]], outcome: str) -> None:
    assert judge_units(EXACT | changes).outcome == outcome


def test_the_tie_of_the_lectures() -> None:
    note = tie_note()
    assert "6 pairs are tied at 2: l o, o w, w e, e s, s t, t </w>" in note
    assert "e s, l o, t </w> by that of weft" in note


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_known_words_do_not_need_subwords() -> None:
    result = subwords(2, unseen=False)
    assert result.verdict.outcome == "did not hold"
