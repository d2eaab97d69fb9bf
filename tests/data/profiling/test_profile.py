"""The profile of an input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.data.profiling.inputs import PairInput
from weft.data.profiling.profile import profile_pairs, profile_parts
from weft.errors import DataError


def _file(path: Path, rows: list[list[str]]) -> PairInput:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return PairInput(str(path))


def test_a_profile(tmp_path: Path) -> None:
    rows = [["source", "target"], *([f"word{n} a", f"w {n}"] for n in range(50)), ["", "x"], ["word0 a", "w 0"], ["a"]]
    profile = profile_pairs(_file(tmp_path / "a.tsv", rows))
    assert profile.columns.header == ("source", "target")
    assert (profile.count.rows, profile.sampled, profile.bad_rows) == (53, 51, 1)
    assert profile.blank == pytest.approx(1 / 52)
    assert profile.duplicates == pytest.approx(1 / 51)
    assert profile.several_targets == 0
    assert json.dumps(profile.record())


def test_features_are_not_part_of_the_source(tmp_path: Path) -> None:
    rows = [[f"lemma{n}", f"V;{'SG' if n % 2 else 'PL'}", f"form{n}"] for n in range(50)]
    profile = profile_pairs(_file(tmp_path / "a.tsv", rows))
    assert profile.source.tokens.maximum == 1
    assert [side.spaced.size for side in profile.features] == [3]


def test_sorted_by_length_and_swapped_sides(tmp_path: Path) -> None:
    rows = [["a b c"[: 1 + 2 * (n % 3)] + " d e", "word" + "x" * n] for n in range(60)]
    profile = profile_pairs(_file(tmp_path / "a.tsv", rows))
    assert profile.sorted_by_length
    assert profile.looks_swapped
    assert not profile_pairs(_file(tmp_path / "b.tsv", [row[::-1] for row in rows])).looks_swapped


@pytest.mark.parametrize(("text", "message"), [("", "the file is empty"), ("\t\n", "no pair with text on both sides")])
def test_nothing_to_profile(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(DataError, match=message):
        profile_pairs(PairInput(str(tmp_path / "a.tsv")))


def test_the_number_of_pairs_leaves_out_what_cannot_be_trained_on(tmp_path: Path) -> None:
    rows = [*([f"word{n} a", f"w {n}"] for n in range(50)), ["", "x"], ["a"], ["a", "b", "c"]]
    profile = profile_pairs(_file(tmp_path / "a.tsv", rows))
    assert (profile.pairs, profile.count.rows, profile.bad_rows, profile.is_complete) == (50, 53, 2, True)
    assert profile.first_error == "1 column, expected 2"


def test_what_is_trained_on_and_tested_on(tmp_path: Path) -> None:
    train = _file(tmp_path / "train.tsv", [[f"word{n}", f"w {n}"] for n in range(50)])
    test = _file(tmp_path / "test.tsv", [[f" word{n}", "x"] for n in range(40, 60)])
    assert profile_parts({"train": train, "test": test}).overlaps == {"test": 0.5}


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("".join(f"fünf {n}\tcinq {n}\n" for n in range(50)).encode("latin-1"))
    with pytest.raises(
        DataError, match=r"a\.tsv:1: not valid UTF-8 \(byte 0xfc at column 2\); convert the file, e\.g\. with"
    ):
        profile_pairs(PairInput(str(tmp_path / "a.tsv")))


def test_empty_lines_and_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"\xef\xbb\xbf" + b"".join(b"a%d\tb\r\n\r\n" % n for n in range(50)))
    profile = profile_pairs(PairInput(str(tmp_path / "a.tsv")))
    assert (profile.pairs, profile.bad_rows, profile.first_error) == (50, 50, "an empty line")
    assert profile.source.alphabet == 11 and profile.columns.is_plain


def test_the_delimiter_of_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("".join(f'"a, {n}";b {n}\n' for n in range(50)))
    profile = profile_pairs(PairInput(str(tmp_path / "a.csv")))
    assert profile.pairs == 50
    corpus = {"file": str(tmp_path / "a.csv"), "source": [1], "target": [2], "delimiter": ";"}
    assert profile.columns.corpus(profile.input) == corpus
