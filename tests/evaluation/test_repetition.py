"""Loops and repetition: known answers, and a literal search over every stretch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import DataError
from weft.evaluation.repetition import Loop, find_loop, repeat_curve, repetition

quick = settings(deadline=None, max_examples=200)


def every_loop(tokens: list[int], *, max_phrase: int, min_copies: int, min_tokens: int) -> list[Loop[int]]:
    """Every phrase at every place, with as many copies as follow each other."""
    found = []
    for length in range(1, max_phrase + 1):
        for first in range(len(tokens) - length + 1):
            phrase, count = tokens[first : first + length], 0
            while tokens[first + count * length : first + (count + 1) * length] == phrase:
                count += 1
            if count >= min_copies and count * length >= min_tokens:
                found.append(Loop(tuple(phrase), first, count))
    return found


@quick
@given(
    st.lists(st.integers(0, 2), max_size=30),
    st.integers(1, 5),
    st.integers(2, 4),
    st.integers(0, 9),
)
def test_find_loop(tokens: list[int], longest: int, copies: int, least: int) -> None:
    sizes = {"max_phrase": longest, "min_copies": copies, "min_tokens": least}
    loops = every_loop(tokens, **sizes)
    expected = min(loops, key=lambda one: (-one.copies * len(one.phrase), len(one.phrase), one.start), default=None)
    assert find_loop(tokens, **sizes) == expected


def test_a_loop_is_named() -> None:
    words = ["he", "said", "that", "the", "man", "that", "the", "man", "that", "the", "man", "that", "the"]
    assert find_loop(words) == Loop(("that", "the", "man"), 2, 3)
    assert find_loop([7, 3, 3, 3, 3, 3, 3, 3, 3, 5]) == Loop((3,), 1, 8)
    assert find_loop("10000000") is None and find_loop("100000000") == Loop(("0",), 1, 8)
    assert find_loop(["very", "very", "very", "very", "good"]) is None
    assert find_loop([]) is None


def test_the_longest_run_wins_then_the_shortest_phrase_then_the_first() -> None:
    assert find_loop("aaaaaaaaa" + "xyzxyzxyzxyz") == Loop(("x", "y", "z"), 9, 4)
    assert find_loop("ababababab") == Loop(("a", "b"), 0, 5)
    assert find_loop("aaaaaaaabbbbbbbb") == Loop(("a",), 0, 8)
    assert find_loop("xyzxyzxyz", min_copies=4) is None and find_loop("xyzxyzxyz", max_phrase=2) is None


def values(outputs: list[str]) -> dict[str, float]:
    return {score.name: score.value for score in repetition(outputs)}


def test_repetition_by_hand() -> None:
    """a b a b a: 5 words of which 2 differ, 4 pairs of which 2 differ; c d: 2 and 2, 1 and 1."""
    found = values(["a b a b a", "c d"])
    assert found["rep-1"] == pytest.approx(100 * (1 - 4 / 7))
    assert found["rep-2"] == pytest.approx(100 * (1 - 3 / 5))
    assert found["rep-3"] == pytest.approx(100 * (1 - 2 / 3))
    assert found["rep-4"] == 0.0
    assert found["outputs with a loop"] == 0.0


def test_a_loop_in_every_fourth_output() -> None:
    assert values(["no no no no no no no no no", "a b", "", "c"])["outputs with a loop"] == 25.0


def test_an_ngram_of_another_output_is_no_repetition() -> None:
    assert set(values(["a b c d", "a b c d"]).values()) == {0.0}


def test_without_spaces_characters_count() -> None:
    found = repetition(["哈哈哈哈哈哈哈哈", "你好\n"])
    assert [score.value for score in found[:2]] == [50.0, pytest.approx(100 * (1 - 3 / 10))]
    assert all("unit:code point" in score.signature for score in found)
    assert values(["Mississippi", "a river"])["rep-1"] == 0.0, "one output of words: all are read as words"


def test_empty_outputs_repeat_nothing() -> None:
    assert set(values(["", ""]).values()) == {0.0}


def test_signatures_say_how() -> None:
    loops, *rates = repetition(["a b"])
    assert loops.signature.startswith(
        "longest:16|copies:3|tokens:8|outputs:1|case:mixed|unit:white-space token|version:"
    )
    assert [rate.signature.split("|")[0] for rate in rates] == ["n:1", "n:2", "n:3", "n:4"]
    assert {score.better for score in (loops, *rates)} == {"lower"}


def test_repeat_curve() -> None:
    assert repeat_curve([-3.0, -1.0, -1.0, -0.5, -0.25, -0.25], 2) == [-2.0, -0.75, -0.25]
    assert repeat_curve([-3.0, -1.0], 1) == [-3.0, -1.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: repetition([]), "repetition: no lines to measure; expected at least 1 output"),
        (lambda: repetition("a b"), "repetition: outputs are a sequence of lines, not one string"),
        (
            lambda: find_loop([1], min_copies=1),
            "find_loop: phrases of up to 16 tokens, 1 copies; expected at least 1",
        ),
        (lambda: repeat_curve([-1.0] * 5, 2), "repeat_curve: 5 tokens are not whole copies of a phrase of 2; expected"),
        (lambda: repeat_curve([], 2), "repeat_curve: 0 tokens are not whole copies of a phrase of 2"),
        (lambda: repeat_curve([-1.0], 0), "repeat_curve: 1 tokens are not whole copies of a phrase of 0"),
    ],
)
def test_errors(make, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()
