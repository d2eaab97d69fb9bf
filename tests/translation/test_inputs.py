"""What users give in place of a text, several texts or pairs: an answer where it is obvious, else one line."""

from __future__ import annotations

import numpy as np
import pytest

from weft.data.pairs import Pair
from weft.errors import DataError
from weft.translation.inputs import as_pairs, as_source, as_sources, as_text, as_texts

PAIR = Pair("a b", "b a")


@pytest.mark.parametrize(
    "given",
    [["a", "b"], ("a", "b"), iter(["a", "b"]), (one for one in "ab"), np.array(["a", "b"]), {"a": 1, "b": 2}.keys()],
)
def test_texts_from_anything_that_yields_them(given):
    assert as_texts(given, "source") == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a b", "source: 'a b' (str) was given, expected several texts; put it in a list"),
        (None, "source: None was given, expected a list of texts (str)"),
        (3, "source: 3 (int) was given, expected a list of texts (str)"),
        (b"a", "source: b'a' (bytes) was given, expected a list of texts (str)"),
        ({"a": 1}, "source: a dict was given, expected a list of texts (str)"),
        (["a", None], "source[1]: None was given, expected a text (str)"),
        (["a", float("nan")], "source[1]: nan (float) was given, expected a text (str)"),
        ([b"a"], "source[0]: b'a' (bytes) was given, expected a text (str); decode it: value.decode('utf-8')"),
        ([["a"]], "source[0]: a list was given, expected a text (str)"),
    ],
)
def test_other_things_than_texts(given, message):
    with pytest.raises(DataError) as refusal:
        as_texts(given, "source")
    assert str(refusal.value) == message


def test_sources_of_several_columns():
    assert as_sources([("a", "b"), "c\td", ("e\tf", "")], "source", columns=2) == ["a\tb", "c\td", "e f\t"]
    assert as_sources(("a", "b"), "source") == ["a", "b"]
    assert as_source(("a", "b", "c"), "source", columns=3) == "a\tb\tc"
    with pytest.raises(DataError, match=r"^source\[1\]: a tuple of 1 column was given, expected 2$"):
        as_sources(["a\tb", ("c",)], "source", columns=2)
    with pytest.raises(DataError, match=r"^source\[1\]: None was given, expected a text \(str\)$"):
        as_source(("c", None), "source", columns=2)
    with pytest.raises(DataError, match=r"^source: a tuple was given, expected a text \(str\)$"):
        as_source(("c", "d"), "source")


def test_a_long_value_is_shortened():
    with pytest.raises(DataError) as refusal:
        as_text(b"a" * 1000, "source")
    assert len(str(refusal.value)) < 150


@pytest.mark.parametrize("given", [[PAIR], (PAIR,), iter([PAIR]), [("a b", "b a")], [["a b", "b a"]]])
def test_pairs_from_anything_that_yields_them(given):
    assert as_pairs(given) == [PAIR] and isinstance(as_pairs([("a", "b")])[0], Pair)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (PAIR, "pairs: one pair was given, expected several; put it in a list"),
        ("a\tb", "pairs: 'a\\tb' (str) was given, expected a list of pairs"),
        (None, "pairs: None was given, expected a list of pairs"),
        (["a\tb"], "pairs[0]: 'a\\tb' (str) was given, expected a pair: weft.Pair(source, target)"),
        ([("a",)], "pairs[0]: a tuple of 1 was given, expected a pair: weft.Pair(source, target)"),
        ([PAIR, ("a", None)], "pairs[1].target: None was given, expected a text (str)"),
        ([Pair(3, "a")], "pairs[0].source: 3 (int) was given, expected a text (str)"),
    ],
)
def test_other_things_than_pairs(given, message):
    with pytest.raises(DataError) as refusal:
        as_pairs(given)
    assert str(refusal.value) == message
