"""Copied words and their order."""

from __future__ import annotations

from itertools import product

import pytest

from weft.pairs.profiling.relations import relate


def test_copied_words_and_their_order() -> None:
    sources = ["call Anna now", "call Bert now", "go home", "say hello"]
    targets = ["now ( Anna )", "now ( Bert )", "home", "hi"]
    relations = relate(sources, targets)
    assert relations.copied_words == pytest.approx(5 / 6)
    assert relations.copied_words_by_chance == 0
    assert relations.monotone == pytest.approx(3 / 5)
    assert relations.identical == 0


def test_words_have_a_letter_or_a_digit() -> None:
    assert relate(["3.5 !"], ["3.5 a-b ! ?"]).copied_words == 0.5


def test_equal_sides() -> None:
    texts = ["one two", "three", "four five"]
    relations = relate(texts, texts)
    assert (relations.identical, relations.common_characters, relations.monotone) == (1, 1, 1)
    assert relations.common_characters_by_chance < 1


def test_one_pair() -> None:
    assert relate(["a"], ["b"]).copied_words == 0
    same = relate(["a"], ["a"])
    assert (same.copied_words, same.copied_rare_words, same.rare_words, same.monotone) == (1, 1, 1, 1)
    assert (same.common_characters, same.identical, same.length_ratio) == (1, 1, 1)


def test_the_beginning_of_long_texts_is_compared() -> None:
    """Of characters 300, of words those of 6,000 characters."""
    target = "x" * 300 + "y" * 99
    assert relate([target[:300]], [target]).common_characters == 1
    assert relate([target[:299]], [target]).common_characters == pytest.approx(299 / 300)
    assert relate([target[::-1]], [target]).common_characters == pytest.approx(201 / 300)
    text = "aaaa " * 1_200
    assert relate(["bbbb"], [text + "bbbb"]).copied_words == 0
    assert relate(["bbbb"], [text[5:] + "bbbb"]).copied_words == pytest.approx(1 / 1_200)


def test_rare_words_are_in_at_most_three_targets() -> None:
    """A word that is in three targets is rare, in four not; how often it is in one of them does not matter."""
    three = ["rare rare rare rare", "rare", "rare", "x1", "x2"]
    four = ["often", "often", "often", "often", "x3"]
    relations = relate([*three[:3], *["none"] * 7], [*three, *four])
    assert relations.rare_words == pytest.approx((6 + 3) / (6 + 3 + 4))
    assert relations.copied_rare_words == pytest.approx(6 / 9)


def test_every_pair_of_a_small_sample_is_compared() -> None:
    """And every k-th of a large one, from the first on."""
    sources = [f"{n:04}" for n in range(2_000)]
    targets = [source if n % 2 == 0 else "xxxx" for n, source in enumerate(sources)]
    assert relate(sources, targets).common_characters == 1
    assert relate(sources[:1_999], targets[:1_999]).common_characters == pytest.approx(1_000 / 1_999, abs=1e-3)


def test_ratio_of_lengths_and_chance() -> None:
    relations = relate(["aaaa", "bb"], ["ccc", "bb"])
    assert relations.length_ratio == pytest.approx(5 / 6) and relations.identical == 0.5
    assert relations.common_characters == pytest.approx(2 / 5) and relations.common_characters_by_chance == 0
    assert relate(["b", "a"], ["a", "b"]).copied_words_by_chance == 1, "those of the other half"
    assert relate([], []).length_ratio == 0


class TestAligned:
    """What the source character at a relative position tells of the target unit at the same position."""

    SOURCES = tuple("".join(letters) for letters in product("abcd", repeat=4))

    def test_a_transcription_follows_its_source(self) -> None:
        relations = relate(self.SOURCES, [" ".join(source.upper()) for source in self.SOURCES])
        assert relations.aligned == pytest.approx(1) and relations.units_per_character == 1

    def test_reversed_letters_do_not(self) -> None:
        relations = relate(self.SOURCES, [source[::-1] for source in self.SOURCES])
        assert relations.aligned == pytest.approx(0, abs=0.01)

    def test_a_letter_that_becomes_two_units(self) -> None:
        doubled = [" ".join(2 * letter for letter in source) for source in self.SOURCES]
        assert relate(self.SOURCES, [text.replace("", " ") for text in doubled]).units_per_character == 2
        assert relate(self.SOURCES, [text.replace("", " ") for text in doubled]).aligned == pytest.approx(1)

    def test_chance_is_that_of_other_pairs(self) -> None:
        """Few pairs of many letters determine each other by chance."""
        sources, targets = ["abcdefgh", "ijklmnop"], ["1 2 3 4 5 6 7 8", "8 7 6 5 4 3 2 1"]
        relations = relate(sources, targets)
        assert relations.aligned == relations.aligned_by_chance == pytest.approx(1)

    def test_korean_syllables_are_two_or_three_letters(self) -> None:
        assert relate(["가각"] * 2, ["k a k a k"] * 2).units_per_character == 1

    def test_without_units_or_characters(self) -> None:
        relations = relate(["", "a"], ["x", ""])
        assert (relations.aligned, relations.aligned_by_chance) == (0, 0)
