"""Units, vocabulary and lengths: a profile on each side of every threshold."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.profiles import made_up_profile
from weft.data.columns.columns import ColumnLayout
from weft.pairs.recommendation.choices import as_tree
from weft.pairs.recommendation.kinds import Kind, TaskProfile, Unit
from weft.pairs.recommendation.units import choose_units

Units = tuple[Unit, Unit]
SIDES = {"symbol": "symbols", "character": "words", "bpe": "text", "word": "text"}
BPE, WORDS, SYMBOLS, CHARACTERS = ("bpe", "bpe"), ("word", "word"), ("symbol", "symbol"), ("character", "character")


def _tree(units: Units, changes: dict[str, Any] | None = None, kind: Kind = "text") -> dict[str, Any]:
    profile = made_up_profile(SIDES[units[0]], SIDES[units[1]], changes)
    return as_tree(choose_units(profile, TaskProfile(kind, *units, "", "", "")))


MANY = {"source.worded.size": 200_000}
"""Words: as many as the largest vocabulary can use."""


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        (MANY | {"pairs": 1_000}, 500),
        (MANY | {"pairs": 1_001}, 1_000),
        (MANY | {"pairs": 5_000}, 1_000),
        (MANY | {"pairs": 5_001}, 4_000),
        (MANY | {"pairs": 20_000}, 4_000),
        (MANY | {"pairs": 20_001}, 8_000),
        (MANY | {"pairs": 1_000_000}, 8_000),
        (MANY | {"pairs": 1_000_001}, 16_000),
        (MANY | {"pairs": 5_000_000}, 16_000),
        (MANY | {"pairs": 5_000_001}, 32_000),
        # at most one for 2.5 words of the side that has more, rounded to 100, but 300
        ({"source.worded.size": 10_000, "target.worded.size": 10_000}, 4_000),
        ({"source.worded.size": 5_100, "target.worded.size": 5_000}, 2_000),
        ({"source.worded.size": 5_000, "target.worded.size": 5_200}, 2_100),
        ({"source.worded.size": 500, "target.worded.size": 500}, 300),
        ({"sampled": 2_500, "source.worded.size": 5_000, "source.worded.growth": 0.5, "target.worded.size": 1}, 4_000),
        ({"sampled": 5_000, "source.worded.size": 5_000, "source.worded.growth": 0.0, "target.worded.size": 1}, 2_000),
        # room for the characters of both sides
        ({"source.alphabet": 1_975, "target.alphabet": 1_900}, 4_000),
        ({"source.alphabet": 1_976}, 4_002),
        ({"target.alphabet": 2_000}, 4_050),
    ],
)
def test_the_size_of_a_bpe_vocabulary(changes: dict[str, Any], size: int) -> None:
    assert _tree(BPE, changes)["tokenizer"]["size"] == size


@pytest.mark.parametrize(("pairs", "minimum"), [(499, 1), (500, 3), (4_999, 3), (5_000, 10)])
def test_words_that_are_copied_need_not_be_known(pairs: int, minimum: int) -> None:
    assert _tree(WORDS, {"pairs": pairs}, "copying")["tokenizer"]["minimum_count"] == minimum


def test_a_summary_is_of_frequent_words_and_the_beginning() -> None:
    tree = _tree(WORDS, kind="summary")
    assert (tree["tokenizer"]["size"], tree["tokenizer"]["lowercase"]) == (12_000, True)
    assert tree["data"] == {"pipeline": [{"kind": "truncate", "max": 200}], "max_length": 600}


@pytest.mark.parametrize(
    ("units", "kind", "changes", "joint"),
    [
        (BPE, "text", {}, True),
        (BPE, "text", {"target.scripts": {"Greek": 1.0}}, False),
        (BPE, "correction", {"target.scripts": {"Greek": 1.0}}, True),
        (WORDS, "copying", {}, True),
        (WORDS, "text", {"relations.copied_words": 0.02}, False),
        (WORDS, "text", {"relations.copied_words": 0.021}, True),
        (CHARACTERS, "spelling", {"relations.copied_words": 0.02}, True),
        (("bpe", "symbol"), "formal", {}, False),
        (("symbol", "word"), "formal", {"relations.copied_words": 0.021}, True),
    ],
)
def test_one_vocabulary_or_two(units: Units, kind: Kind, changes: dict[str, Any], joint: bool) -> None:
    assert _tree(units, changes, kind)["tokenizer"]["joint"] is joint


TOKENIZED = {"source.punctuated": 0.009, "target.punctuated": 0.009}


@pytest.mark.parametrize(
    ("units", "changes", "splits"),
    [
        (BPE, TOKENIZED, False),
        (BPE, TOKENIZED | {"source.punctuated": 0.01}, True),
        (BPE, TOKENIZED | {"target.punctuated": 0.01}, True),
        (BPE, TOKENIZED | {"source.tokens.median": 3}, False),
        (BPE, TOKENIZED | {"source.tokens.median": 2}, True),
        (SYMBOLS, {}, False),
        (("bpe", "symbol"), {}, False),
        (("word", "symbol"), {}, True),
        (WORDS, TOKENIZED, True),
    ],
)
def test_punctuation_is_split_unless_spaces_separate_it(units: Units, changes: dict[str, Any], splits: bool) -> None:
    assert _tree(units, changes)["tokenizer"].get("split_punctuation", True) is splits


@pytest.mark.parametrize(
    ("units", "changes", "limit"),
    [
        # 1.5 units in a word, one in a symbol; 1.2 times the longest, in steps of 50, at most 1,000
        (SYMBOLS, {"source.tokens.maximum": 250}, None),
        (SYMBOLS, {"source.tokens.maximum": 251}, 350),
        (SYMBOLS, {"target.tokens.maximum": 292}, 350),
        (SYMBOLS, {"target.tokens.maximum": 293}, 400),
        (SYMBOLS, {"target.tokens.maximum": 1_000}, 1_000),
        (BPE, {"source.tokens.maximum": 166}, None),
        (BPE, {"source.tokens.maximum": 168}, 350),
        (CHARACTERS, {"target.characters.maximum": 250, "target.tokens.maximum": 300}, None),
        (CHARACTERS, {"target.characters.maximum": 251}, 350),
    ],
)
def test_the_longest_pair(units: Units, changes: dict[str, Any], limit: int | None) -> None:
    assert _tree(units, changes).get("data", {}).get("max_length") == limit


def test_kinds_tags_and_letters() -> None:
    assert _tree(SYMBOLS)["tokenizer"]["kind"] == "word" and "target_kind" not in _tree(SYMBOLS)["tokenizer"]
    phones: Units = ("character", "symbol")
    assert (_tree(phones)["tokenizer"]["kind"], _tree(phones)["tokenizer"]["target_kind"]) == ("character", "word")
    tagged = {"columns": ColumnLayout((0, 1), (2,), features=(1,), tags=(1,))}
    assert [_tree(units, tagged)["tokenizer"]["tags"] for units in (CHARACTERS, phones, BPE)] == [True, True, False]
    assert "tags" not in _tree(CHARACTERS)["tokenizer"]
    korean = [{f"{side}.scripts": {"Hangul": 1.0}} for side in ("source", "target")]
    decomposed = [_tree(phones, changes)["tokenizer"].get("decompose", False) for changes in korean]
    assert decomposed == [True, False]


def test_marks_stay_whole_where_punctuation_is_split() -> None:
    marked = {
        "source.spaced.top": ("<n>", "a", "<" + 20 * "x" + ">", "<" + 21 * "x" + ">"),
        "target.spaced.top": ("<u>",),
    }
    assert _tree(BPE, marked)["tokenizer"]["symbols"] == ["<n>", "<" + 20 * "x" + ">", "<u>"]
    for units, changes in ((CHARACTERS, marked), (BPE, marked | TOKENIZED), (BPE, {})):
        assert "symbols" not in _tree(units, changes)["tokenizer"]
    assert "symbols" in _tree(("character", "word"), marked)["tokenizer"]
