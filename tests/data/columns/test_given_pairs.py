"""Pairs given for a run: columns of its recipe, or found ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.data.columns.given_pairs import given_pairs
from weft.data.reading.corpora import read
from weft.errors import DataError
from weft.recipe import make_recipe

PAIRS = [("the dog", "der Hund"), ("a cat", "eine Katze"), ("one bird", "ein Vogel")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _write(name: str, source: str = "en", target: str = "de", *, delimiter: str = ",") -> str:
    if name.endswith(".jsonl"):
        lines = [json.dumps({"id": 7, target: pair[1], source: pair[0]}) for pair in PAIRS]
    elif name.endswith(".parquet"):
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(
            pyarrow.table({target: [pair[1] for pair in PAIRS], source: [pair[0] for pair in PAIRS]}), name
        )
        return name
    else:
        delimiter = "\t" if name.endswith(".tsv") else delimiter
        lines = [delimiter.join(row) for row in [(target, source), *(pair[::-1] for pair in PAIRS)]]
    Path(name).write_text("".join(line + "\n" for line in lines), "utf-8")
    return name


def _read(data: dict[str, Any], file: str, *columns: str, **model: Any) -> list[tuple[str, str]]:
    recipe = make_recipe({"data": data, "model": model})
    given = given_pairs(recipe, file, (columns[0], columns[1]) if columns else None)
    return [pair[:2] for pair in read(given.corpus)]


NAMED = {"file": "train.jsonl", "source": "en", "target": "de"}


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet", "x.csv", "x.tsv"])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_columns_as_the_recipe_names_them(name: str, split: str) -> None:
    data = {"train": "train.tsv", split: NAMED}
    assert _read(data, _write(name)) == PAIRS
    assert _read(data, _write("x.csv", delimiter=";")) == PAIRS


def test_the_test_pairs_come_first() -> None:
    data = {"train": {**NAMED, "source": "fr"}, "test": [{"source": "a", "target": "b"}, NAMED]}
    assert _read(data, _write("x.jsonl")) == PAIRS


def test_the_columns_that_the_command_names() -> None:
    assert _read({"train": NAMED}, _write("x.jsonl", "a", "b"), "a", "b") == PAIRS
    assert _read({"train": "grammar"}, _write("x.csv", delimiter=";"), "en", "de") == PAIRS
    assert _read({"train": "grammar"}, _write("x.tsv"), "2", "1")[1:] == PAIRS
    with pytest.raises(DataError, match=r"x\.jsonl:1: no column 'en'"):
        _read({"train": NAMED}, _write("x.jsonl", "a", "b"))


def test_tsv_is_source_and_target_where_it_lacks_the_columns() -> None:
    Path("x.tsv").write_text("the dog\tder Hund\n", "utf-8")
    three = {"file": "t.tsv", "source": [1, 2], "target": 3, "tags": 2}
    for train in (NAMED, three, "grammar", {"dialogues": "t.tsv"}):
        assert _read({"train": train}, "x.tsv") == PAIRS[:1]
    assert _read({"train": {"file": "t.tsv", "source": 2, "target": 1}}, "x.tsv") == [("der Hund", "the dog")]
    Path("y.tsv").write_text("go\tV;PST\twent\n", "utf-8")
    assert _read({"train": three}, "y.tsv") == [("go <V><PST>", "went")]
    assert _read({"train": "t.tsv"}, "y.tsv", sources={"count": 2}) == [("go\tV;PST", "went")]


def test_numbers_of_columns_cannot_be_those_of_json() -> None:
    numbers = {"train": {"file": "t.csv", "source": 2, "target": 1}}
    assert _read(numbers, _write("x.csv"))[1:] == PAIRS
    given = given_pairs(make_recipe({"data": numbers}), _write("x.jsonl", "source", "target"))
    assert [pair[:2] for pair in read(given.corpus)] == PAIRS
    assert given.found_columns == "source source; target target; not used id (the names of the fields)"


def test_columns_that_are_found() -> None:
    """Where the recipe names no columns, as weft train finds them."""
    given = given_pairs(make_recipe({"data": {"train": "grammar"}}), _write("x.csv", delimiter=";"))
    assert [pair[:2] for pair in read(given.corpus)] == [pair[::-1] for pair in PAIRS]
    assert given.found_columns == "source de; target en (the first row is a header)"
    rows = [{"instruction": "add", "input": "1 2", "output": "3"}, {"instruction": "name a color", "output": "red"}]
    Path("i.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert _read({"train": "grammar"}, "i.jsonl") == [("add\n1 2", "3"), ("name a color", "red")]


def test_instructions_and_dialogues_of_the_recipe() -> None:
    Path("x.jsonl").write_text('{"instruction": "add", "input": "1 2", "output": "3"}\n')
    data: dict[str, Any] = {"train": {"instructions": "t.csv", "template": "{instruction}: {input}"}}
    assert _read(data, "x.jsonl") == [("add: 1 2", "3")]
    Path("d.jsonl").write_text('{"turns": ["hi", "hello"]}\n')
    assert _read({"train": {"dialogues": "t.tsv"}}, "d.jsonl") == [("hi", "hello")]
    Path("d.csv").write_text("x;hi;hello\n")
    assert _read({"train": {"dialogues": "t.tsv", "turns": 2}}, "d.csv") == [("hi", "hello")]


def test_a_file_that_does_not_exist() -> None:
    with pytest.raises(DataError, match=r"^none\.jsonl: no such file$"):
        _read({"train": NAMED}, "none.jsonl")
