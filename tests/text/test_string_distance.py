"""Edit distance and longest common subsequence, against their recursions."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from weft.text.string_distance import common_subsequence, edit_distance


def literal_edit_distance(left: str, right: str) -> int:
    """The recursion as written in textbooks."""

    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        change = 0 if left[i - 1] == right[j - 1] else 1
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + change)

    return distance(len(left), len(right))


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_edit_distance_is_the_recursion(left: str, right: str) -> None:
    assert edit_distance(left, right) == literal_edit_distance(left, right)


@given(st.text("ab", max_size=150), st.text("ab", max_size=150), st.text("ab", max_size=150))
def test_edit_distance_is_a_distance(a: str, b: str, c: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


def test_edit_distance_of_words() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(["a", "b", "c"], ["a", "c", "d"]) == 2


def literal_common_subsequence(left: str | list[str], right: str | list[str]) -> int:
    """The recursion as written in textbooks."""

    @cache
    def length(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return 0
        if left[i - 1] == right[j - 1]:
            return length(i - 1, j - 1) + 1
        return max(length(i - 1, j), length(i, j - 1))

    return length(len(left), len(right))


@given(st.text("abc", max_size=14), st.text("abc", max_size=14))
def test_the_common_subsequence_is_the_recursion(left: str, right: str) -> None:
    assert common_subsequence(left, right) == literal_common_subsequence(left, right)


def test_a_common_subsequence_of_words_longer_than_a_machine_word() -> None:
    assert common_subsequence(["a", "b"] * 100, ["b", "c", "a"] * 100) == 200 - 1
    assert common_subsequence([], ["a"]) == common_subsequence(["a"], []) == 0
