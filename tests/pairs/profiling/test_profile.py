"""The profile of an input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.data.columns.rows import PairInput
from weft.errors import DataError
from weft.pairs.profiling.profile import profile_pairs, profile_parts


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
    assert profile.first_error == f"{tmp_path / 'a.tsv'}:52: 1 column, expected 2"


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
    assert (profile.pairs, profile.bad_rows, profile.is_complete) == (50, 50, True)
    assert profile.first_error == f"{tmp_path / 'a.tsv'}:2: an empty line"
    assert profile.source.alphabet == 11 and profile.columns.is_plain


def test_the_delimiter_of_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("".join(f'"a, {n}";b {n}\n' for n in range(50)))
    profile = profile_pairs(PairInput(str(tmp_path / "a.csv")))
    assert profile.pairs == 50
    corpus = {"file": str(tmp_path / "a.csv"), "source": [1], "target": [2], "delimiter": ";"}
    assert profile.columns.corpus(profile.input) == corpus


def _rows(path: Path, rows: list[dict[str, object]]) -> PairInput:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return PairInput(str(path))


PAIRS: list[dict[str, object]] = [{"s": f"word {n}", "t": f"Wort {n}"} for n in range(30)]


@pytest.mark.parametrize("row", [{"s": None, "t": "x"}, {"t": "x"}, {"s": ["a"], "t": "x"}, {"s": {"a": 1}, "t": "x"}])
@pytest.mark.parametrize("place", [0, 10])
def test_rows_without_text_are_left_out_and_counted(place: int, row: dict[str, object], tmp_path: Path) -> None:
    profile = profile_pairs(_rows(tmp_path / "a.jsonl", [*PAIRS[:place], row, *PAIRS[place:]]))
    assert (profile.pairs, profile.count.rows, profile.bad_rows, profile.blank) == (30, 31, 1, 0)
    assert profile.first_error == f"{tmp_path / 'a.jsonl'}:{place + 1}: column 's' is missing, null or not text"
    assert profile.columns.corpus(profile.input) == {
        "file": str(tmp_path / "a.jsonl"),
        "source": ["s"],
        "target": ["t"],
    }


def test_a_field_that_only_later_rows_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.pairs.profiling.profile.FIRST_ROWS", 4)
    rows = [*({"t": f"x {n}"} for n in range(20)), *PAIRS]
    profile = profile_pairs(_rows(tmp_path / "a.jsonl", rows), columns=("s", "t"))
    assert (profile.pairs, profile.bad_rows) == (30, 20)
    with pytest.raises(DataError, match=r"a\.jsonl: no column 'u'; it has s, t$"):
        profile_pairs(_rows(tmp_path / "a.jsonl", rows), columns=("u", "t"))


def test_an_instruction_without_an_input(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"instruction": f"do {n}", "input": f"this {n}" if n % 2 else None, "output": f"done {n}"} for n in range(30)
    ]
    profile = profile_pairs(_rows(tmp_path / "a.jsonl", rows))
    assert (profile.pairs, profile.bad_rows, profile.columns.instructions) == (30, 0, True)
    test = _rows(tmp_path / "test.jsonl", [{"instruction": "do 1", "output": "done"}])
    assert profile_parts({"train": PairInput(str(tmp_path / "a.jsonl")), "test": test}).part_errors == {}


DIALOGUES = 'for dialogues write a recipe with train = {dialogues = FILE, turns = "d"}'
CONVERTED = "if the pairs are in it, `jq -c '.d[]'` converts the file"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"d": [{"content": "a"}]}], f"the field 'd' is a list, expected text; {DIALOGUES}"),
        ([{"d": [{"s": "a", "t": "b"}]}], f"the field 'd' is a list, expected text; {CONVERTED}"),
        ([{"d": ["a", "b"]}], "the field 'd' is a list, expected text"),
        ([{"d": None}], "no pair with text on both sides"),
        ([{"text": "a"}], "one field of text, 'text'; expected two"),
        ([{"text": "a", "d": []}], "one field of text, 'text'; expected two; the field 'd' is a list, expected text"),
    ],
)
def test_json_without_two_texts(rows: list[dict[str, object]], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        profile_pairs(_rows(tmp_path / "a.jsonl", rows * 3))
    assert str(caught.value) == f"{tmp_path / 'a.jsonl'}: {message}"


QUOTES = "its cells are in quotes, which TSV does not have; name it .csv, tabs are found there"
SPACES = "a space before the quotes of its cells, which makes them text; remove the space"
ONE_ROW = "one row, 'one, two'; expected pairs, below a header or without one"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "source\ttarget\n", ": no pairs; its only row is a header: source, target"),
        ("a.csv", "source,target\n", ": no pairs; its only row is a header: source, target"),
        ("a.csv", "one,two\n", f": {ONE_ROW}"),
        ("a.csv", "one\ntwo\n", ": 1 column; expected two, separated by a comma, a semicolon, a tab or |"),
        ("a.tsv", '"a"\t"b"\n' * 9, f": {QUOTES}"),
        (
            "a.csv",
            '"a", "b"\n' * 9,
            ": a space before the quotes of its cells, which makes them text; remove the space",
        ),
        (
            "a.csv",
            "source,target\na,b\n" + "a,b,c\n" * 9,
            ":3: 3 columns, expected 2 as in the header; only 1 row can be read, and 9 cannot",
        ),
        ("a.jsonl", "{}\n[]\n", ":2: is a list, expected a JSON object ({…}) in each line"),
    ],
)
def test_tables_that_would_be_misread(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        profile_pairs(PairInput(str(tmp_path / name)))
    assert str(caught.value) == f"{tmp_path / name}{message}"


def test_quotes_of_some_rows_and_one_pair(tmp_path: Path) -> None:
    """A quoted text may stand in TSV, and one pair is enough there."""
    assert profile_pairs(_file(tmp_path / "a.tsv", [['"a"', '"b"'], ["c", "d"]])).pairs == 2
    assert profile_pairs(_file(tmp_path / "a.tsv", [['"a"', '"b"']])).pairs == 1
    (tmp_path / "a.csv").write_text('a, "b"\nc,d\n')
    assert profile_pairs(PairInput(str(tmp_path / "a.csv"))).pairs == 2
    (tmp_path / "a.jsonl").write_text('{"s": "a", "t": "b"}\n\n\n\n')
    assert profile_pairs(PairInput(str(tmp_path / "a.jsonl"))).bad_rows == 3, "blank lines are no reason to refuse it"


def test_as_many_bad_rows_as_good_ones(tmp_path: Path) -> None:
    bad: dict[str, object] = {"s": "a", "t": None}
    assert profile_pairs(_rows(tmp_path / "a.jsonl", [*PAIRS, *[bad] * 30])).bad_rows == 30
    with pytest.raises(DataError, match=r":31: column 't' is .*; only 30 rows can be read, and 31 cannot"):
        profile_pairs(_rows(tmp_path / "a.jsonl", [*PAIRS, *[bad] * 31]))


def test_blank_lines_before_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n,\nsource,target\na b,c d\ne f,g h\n")
    profile = profile_pairs(PairInput(str(tmp_path / "a.csv")))
    assert (profile.columns.header, profile.pairs, profile.bad_rows) == (("source", "target"), 2, 0)
    assert profile.is_complete


def test_parts_by_the_names_of_their_columns(tmp_path: Path) -> None:
    train = _rows(tmp_path / "train.jsonl", PAIRS)
    other = [{"id": 7, "t": row["t"], "s": row["s"]} for row in PAIRS[20:]]
    test = _rows(tmp_path / "test.jsonl", [*other, {"s": "new", "t": "neu"}, {"s": "null", "t": None}])
    profile = profile_parts({"train": train, "test": test})
    assert profile.overlaps == {"test": pytest.approx(10 / 11)}
    first = f"{tmp_path / 'test.jsonl'}:12: column 't' is missing, null or not text"
    assert profile.part_errors == {"test": f"1 row that cannot be read is left out: {first}"}
    (tmp_path / "train.csv").write_text("source,target\n" + "".join(f"a {n},b {n}\n" for n in range(9)))
    (tmp_path / "valid.csv").write_text("\ntarget;id;source\nb 1;1;a 1\nx;2;y\n")
    parts = {"train": PairInput(str(tmp_path / "train.csv")), "valid": PairInput(str(tmp_path / "valid.csv"))}
    assert profile_parts(parts).overlaps == {"valid": 0.5}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": no pairs; the file is empty"),
        ("\n\n", ": no pairs; the file is empty"),
        ("source,target\n", ": no pair with text on both sides"),
        ("source,text\na,b\n", ":1: no column 'target'; did you mean 'text'?"),
        ("a 1,b 1\na 2,b 2\n", ":1: no column 'source'; choose one of a 1, b 1"),
    ],
)
def test_parts_that_cannot_be_used(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("source,target\n" + "".join(f"a {n},b {n}\n" for n in range(9)))
    (tmp_path / "test.csv").write_text(content)
    parts = {part: PairInput(str(tmp_path / f"{part}.csv")) for part in ("train", "test")}
    with pytest.raises(DataError) as caught:
        profile_parts(parts)
    assert str(caught.value) == f"{tmp_path / 'test.csv'}{message}"


def test_the_columns_of_a_profile_of_parts_are_those_that_are_given(tmp_path: Path) -> None:
    for part in ("train", "test"):
        rows = [f"{part} {number}\tb {number}\tc {number}" for number in range(30)]
        (tmp_path / f"{part}.tsv").write_text("\n".join(rows) + "\n")
    parts = {part: PairInput(str(tmp_path / f"{part}.tsv")) for part in ("train", "test")}
    profile = profile_parts(parts, columns=("3", "2"))
    assert (profile.columns.source, profile.columns.target) == ((2,), (1,))
    assert profile.overlaps == {"test": 1.0} and profile_parts(parts).overlaps == {"test": 0.0}


def symbols_to_words(folder: Path, *, word: str = "fon", single: int = 100, symbol: str = "f") -> PairInput:
    """100 pairs of three symbols and a word, a different one in each; but for ``single`` of them, of two words."""
    rows = [f"{symbol} o n\t{word}{n if len(word) > 2 else ''}{'' if n < single else ' x'}" for n in range(100)]
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n")
    return PairInput(str(folder / "pairs.tsv"))


@pytest.mark.parametrize(
    ("changes", "is_swapped"),
    [
        ({}, True),
        ({"single": 96}, True),
        ({"single": 95}, False),
        ({"word": "ab"}, False),  # words of two characters
        ({"symbol": "fffff"}, True),  # 7 characters in 3 tokens
        ({"symbol": "ffffff"}, False),
    ],
)
def test_sides_that_look_swapped(changes: dict[str, Any], is_swapped: bool, tmp_path: Path) -> None:
    assert profile_pairs(symbols_to_words(tmp_path, **changes)).looks_swapped == is_swapped


@pytest.mark.parametrize(
    ("lengths", "is_sorted"),
    [
        ([*range(1, 21)], True),
        ([*range(20, 0, -1)], True),
        ([*range(1, 20)], False),  # fewer than twenty
        ([1] * 10 + [2] * 10, False),  # two lengths
        ([1] * 10 + [2] * 9 + [3], True),
        ([*range(1, 51), 1], True),  # 49 of 50 steps
        ([*range(1, 50), 1], False),  # 48 of 49
    ],
)
def test_pairs_that_are_sorted_by_length(lengths: list[int], is_sorted: bool, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{'a' * n}\tb\n" for n in lengths))
    assert profile_pairs(PairInput(str(tmp_path / "pairs.tsv"))).sorted_by_length == is_sorted


def test_rows_whose_features_are_no_list_are_left_out(tmp_path: Path) -> None:
    rows = [f"lemma{n}\t{('V;SG', 'V;PL')[n % 2]}\tform{n}" for n in range(50)]
    rows += ["lemma\tV;ACC(PL\tform", "lemma\t\tform"]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n")
    profile = profile_pairs(PairInput(str(tmp_path / "pairs.tsv")))
    assert profile.columns.tags == (1,)
    assert (profile.bad_rows, profile.first_error) == (
        1,
        f"{tmp_path / 'pairs.tsv'}:51: a list of features such as 'N;ACC(PL)' was expected",
    )
