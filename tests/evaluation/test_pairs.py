"""Which pairs are evaluated: blank ones never, and whether the run was trained on them."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.data.pairs import Pair
from weft.errors import DataError
from weft.evaluation.pairs import find_pairs
from weft.recipe import make_recipe

RECIPE = make_recipe({})
MIXED = [Pair("a", "b"), Pair(" ", ""), Pair("c", "\t"), Pair("", "d"), Pair("e", "f")]


def test_blank_pairs_are_left_out_and_counted() -> None:
    assert find_pairs(RECIPE, MIXED) == ([MIXED[0], MIXED[4]], {"blank": 3})
    assert find_pairs(RECIPE, MIXED, limit=1) == ([MIXED[0]], {"blank": 3})
    language_model = make_recipe({"model": {"kind": "language_model"}})
    assert find_pairs(language_model, MIXED).left_out == {"blank": 2}, "it reads no sources"


def test_pairs_too_long_to_be_tokenized_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.pairs.MAX_TEXT_CHARACTERS", 2)
    pairs = [Pair("aa", "bb"), Pair("aaa", "b"), Pair("a", "bbb")]
    assert find_pairs(RECIPE, pairs) == ([pairs[0]], {"length": 2})


def test_or_are_an_error() -> None:
    strict = make_recipe({"data": {"blank_rows": "error"}})
    with pytest.raises(DataError, match=r"^pair 3: the target is blank; fix it, or set data.blank_rows = 'skip'$"):
        find_pairs(strict, [MIXED[0], MIXED[4], MIXED[2]])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "there are no pairs to evaluate on"),
        (MIXED[1:4], "there are no pairs to evaluate on (3 rows left out)"),
        (["ab"], "pairs[0]: 'ab' (str) was given, expected a pair: weft.Pair(source, target)"),
        (7, "pairs: 7 (int) was given, expected a list of pairs"),
        (b"ab", "pairs: b'ab' (bytes) was given, expected a list of pairs"),
    ],
)
def test_what_cannot_be_evaluated(pairs: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        find_pairs(RECIPE, pairs)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_a_file_a_generator_or_tuples(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\ne\tf\n", "utf-8")
    expected = ([MIXED[0], MIXED[4]], {})
    assert find_pairs(RECIPE, tmp_path / "pairs.tsv") == expected
    assert find_pairs(RECIPE, str(tmp_path / "pairs.tsv")) == expected
    assert find_pairs(RECIPE, (("a", "b"), ("e", "f"))) == expected
    assert find_pairs(RECIPE, (pair for pair in (MIXED[0], MIXED[4]))) == expected


def test_a_split_of_the_recipe(finished: Path) -> None:
    run = weft.load(finished)
    assert len(find_pairs(run.recipe, None).pairs) == 20
    with pytest.raises(DataError, match=r"^split: 'train' was given; use test or valid$"):
        find_pairs(run.recipe, None, split="train")
    with pytest.raises(DataError, match=r"^limit: 0 was given; expected at least 1$"):
        find_pairs(run.recipe, None, limit=0)
