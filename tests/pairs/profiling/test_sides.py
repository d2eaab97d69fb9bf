"""Lengths, scripts and vocabularies of one side."""

from __future__ import annotations

import unicodedata

import pytest

from weft.pairs.profiling.sides import Lengths, VocabularyProfile, profile_side


def test_lengths() -> None:
    assert Lengths.of([*range(1, 101)]) == Lengths(50.5, 50, 95, 99, 100)
    assert Lengths.of([]) == Lengths(0.0, 0, 0, 0, 0)
    assert Lengths.of([7]) == Lengths(7.0, 7, 7, 7, 7)


def test_a_closed_and_an_open_vocabulary() -> None:
    closed = VocabularyProfile.of([["a", "b", "c"]] * 100)
    assert (closed.size, closed.tokens, closed.unseen, closed.growth) == (3, 300, 0.0, 0.0)
    opened = VocabularyProfile.of([[str(n)] for n in range(100)])
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


@pytest.mark.parametrize(
    ("token", "is_plain"),
    [
        ("house", True),
        ("House", True),
        ("l'homme", True),
        ("well-known", True),
        ("tiếng", True),
        (unicodedata.normalize("NFD", "tiếng"), True),
        ("किताब", True),  # its vowels are marks
        ("HOUSE", False),
        ("iPhone", False),
        ("I_JUMP", False),
        ("x1", False),
        ("12", False),
        ("'", False),
        ("\u0301", False),
    ],
)
def test_plain_words(token: str, is_plain: bool) -> None:
    assert profile_side([token]).plain_words == float(is_plain)


def test_the_shares_of_a_side() -> None:
    side = profile_side(["ab ab.", "b c1", "ab ab.", "z? X!"])
    assert side.alphabet == 10 and side.rare_characters == pytest.approx(6 / 21)  # c 1 z ? X !
    assert (side.characters.maximum, side.characters.median, side.tokens.mean) == (6, 5, 2.0)
    assert side.token_characters == pytest.approx(17 / 8)
    assert side.digits == pytest.approx(1 / 17)
    assert (side.distinct, side.single, side.sentence_ends) == (0.75, 0.0, 0.75)
    assert side.punctuated == pytest.approx(4 / 8)
    assert side.plain_words == pytest.approx(3 / 8)
    assert (side.spaced.size, side.worded.size) == (6, 8)
    assert profile_side(["a", "b c"]).single == 0.5


@pytest.mark.parametrize(
    ("token", "share"), [("a.", 1.0), ("1,", 1.0), (".", 0.0), ("..", 0.0), ("a.b", 0.0), ("a-", 0.0), ("了。", 1.0)]
)
def test_punctuation_that_belongs_to_the_word_before(token: str, share: float) -> None:
    assert profile_side([token]).punctuated == share


def test_is_sentences() -> None:
    assert profile_side(["a b", "c d", "e"]).is_sentences and not profile_side(["a b", "c", "e"]).is_sentences


def test_growth_is_from_the_first_half_to_all() -> None:
    """Every other text is of the half."""
    vocabulary = VocabularyProfile.of([["a", "b"], ["a", "c"], ["a", "b"], ["a", "d"]])
    assert (vocabulary.size, vocabulary.tokens, vocabulary.unseen) == (4, 8, pytest.approx(2 / 8))
    assert vocabulary.growth == pytest.approx(1.0)  # from 2 of 4 tokens to 4 of 8
    assert vocabulary.at(4.0) == (pytest.approx(16.0), pytest.approx(0.25))
    assert vocabulary.top[:2] == ("a", "b")
    assert len(VocabularyProfile.of([[str(n)] for n in range(20)]).top) == 8
    assert VocabularyProfile.of([["a"], []]).growth == 0.0, "the other half is empty"
    assert VocabularyProfile.of([[], ["a"]]).growth == 0.0
