"""Where two runs differ."""

from __future__ import annotations

import pytest

from weft.evaluation.output_differences import MAX_SHOWN, output_differences, similarity
from weft.evaluation.pairs import EvaluationItems
from weft.evaluation.top_k import is_identical

ITEMS = EvaluationItems(["s1", "s2", "s3", "s4", "s5"], [["abcd"], ["xy", "z"], ["mn"], ["kl"], ["uv"]])
FIRST = ["abcd", "q", "mn", "k", ""]
SECOND = ["abcd", "z", "mm", "l", "uw"]


def test_counts_and_order() -> None:
    found = output_differences(("a", "b"), (FIRST, SECOND), ITEMS, is_identical)
    assert (found.same, found.both_right, found.neither_right) == (1, 1, 2)
    assert (found.only_first_right, found.only_second_right) == (1, 1)
    assert [line.item for line in found.lines] == [2, 3, 5, 4]  # by the size of the gain, then by number
    assert [line.gain for line in found.lines] == pytest.approx([1.0, -0.5, 0.5, 0.0])
    assert found.lines[0].references == ["xy", "z"] and found.lines[0].outputs == ("q", "z")


def test_the_summary_is_bounded() -> None:
    items = EvaluationItems(["s", "t"], [["r"], ["r"]])
    found = output_differences(("a", "b"), (["x" * 1000, "q"], ["y", "q"]), items, is_identical)
    lines = found.summary(5)
    assert lines[:2] == ["b and a: 1 output the same, 1 different", "right: both 0, only a 0, only b 0, neither 2"]
    assert lines[3:] == [
        "source     s   (item 1)",
        "reference  r",
        f"a          {'x' * MAX_SHOWN} …",
        "b          y",
    ]
    assert len(found.summary(0)) == 2 and found.record(0)["lines"] == [] and found.record(0)["different"] == 1


def test_similarity_is_that_of_the_closest_reference() -> None:
    assert similarity("abc", ["abd", "abc"]) == 1 and similarity("", [""]) == 1 and similarity("", ["ab"]) == 0
    assert similarity("abc", ["abd"]) == pytest.approx(2 / 3)
