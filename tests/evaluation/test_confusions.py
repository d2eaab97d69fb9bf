"""What is substituted, missing and added."""

from __future__ import annotations

from weft.evaluation.confusions import CHARACTERS, WORDS, choose_units, compare_units, count_confusions


def test_words_are_counted() -> None:
    lines = [
        compare_units("le chat noir", ["le chien noir"], WORDS),
        compare_units("le chat", ["le chien noir", "le chien"], WORDS),
        compare_units("un un chien", ["un chien"], WORDS),
        compare_units("", ["noir"], WORDS),
    ]
    counts = count_confusions(lines, WORDS)
    assert (counts.right, counts.total) == (5, 8)
    (pair,) = counts.substituted
    assert pair == ("chat", "chien", 2, 3) and pair.share == 2 / 3
    assert counts.missing == [(None, "noir", 1, 2)]
    assert counts.added == [("un", None, 1, 2)]
    assert counts.record(1)["missing"] == [{"output": None, "reference": "noir", "times": 1, "occurrences": 2}]


def test_the_most_frequent_come_first_and_ties_are_in_order() -> None:
    lines = [compare_units(output, ["b"], CHARACTERS) for output in "xzyz"]
    assert [item.output for item in count_confusions(lines, CHARACTERS).substituted] == ["z", "x", "y"]


def test_units() -> None:
    assert choose_units(["a b", "c"], "bpe") is WORDS
    assert choose_units(["ab", "c"], "bpe") is CHARACTERS  # one word each
    assert choose_units(["a b"], "character") is CHARACTERS and choose_units(["a b"], "byte") is CHARACTERS
    assert CHARACTERS.split(" ab ") == ["a", "b"]
