"""Lengths, scripts and vocabularies of one side."""

from __future__ import annotations

import pytest

from weft.data.profiling.sides import Lengths, Vocabulary, profile_side


def test_lengths() -> None:
    assert Lengths.of([*range(1, 101)]) == Lengths(50.5, 50, 95, 99, 100)
    assert Lengths.of([]) == Lengths(0.0, 0, 0, 0, 0)
    assert Lengths.of([7]) == Lengths(7.0, 7, 7, 7, 7)


def test_a_closed_and_an_open_vocabulary() -> None:
    closed = Vocabulary.of([["a", "b", "c"]] * 100)
    assert (closed.size, closed.tokens, closed.unseen, closed.growth) == (3, 300, 0.0, 0.0)
    opened = Vocabulary.of([[str(n)] for n in range(100)])
    assert (opened.size, opened.unseen, opened.growth) == (100, 1.0, pytest.approx(1.0))
    assert closed.at(8) == (3.0, 0.0)
    assert opened.at(8) == (pytest.approx(800), pytest.approx(1.0))


def test_a_side() -> None:
    side = profile_side(["Привет, мир.", "a 12"])
    assert list(side.scripts) == ["Cyrillic", "Latin"]
    assert side.scripts["Cyrillic"] == pytest.approx(0.9)
    assert (side.tokens.maximum, side.single, side.distinct) == (2, 0.0, 1.0)
    assert side.digits == pytest.approx(2 / 14)
    assert side.punctuated == pytest.approx(2 / 4)
    assert side.worded.size == 6


@pytest.mark.parametrize("texts", [[""], ["1"], ["😀 😀"], ["שלום עולם"], [" "]])
def test_unusual_texts(texts: list[str]) -> None:
    side = profile_side(texts)
    assert side.script in ("Common", "Hebrew")
    assert 0 <= side.spaced.unseen <= 1
