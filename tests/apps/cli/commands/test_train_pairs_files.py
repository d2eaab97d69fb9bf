"""Files as people have them: ``weft train``, ``data recommend`` and ``data show`` read them, or say why not."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.data.preparation import prepare, read_corpus
from weft.recipe import make_recipe

Command = Callable[..., tuple[str, str]]
Refusal = Callable[..., str]
PAIRS = [(f"the word {n}", f"das Wort {n * 7 % 11} {n}") for n in range(40)]
CSV = "".join(f"{source},{target}\n" for source, target in PAIRS)
TSV = CSV.replace(",", "\t")


def _json(first: dict[str, Any] | None = None, later: dict[str, Any] | None = None) -> str:
    rows: list[dict[str, Any]] = [{"s": source, "t": target} for source, target in PAIRS]
    rows = [*([first] if first else []), *rows[:20], *([later] if later else []), *rows[20:]]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


READ = {
    "a null": ("a.jsonl", _json(later={"s": None, "t": "x"}), {"columns": 1}),
    "a missing field": ("a.jsonl", _json(later={"t": "x"}), {"columns": 1}),
    "a list": ("a.jsonl", _json(later={"s": ["a", "b"], "t": "x"}), {"type": 1}),
    "an object": ("a.jsonl", _json(later={"s": {"a": "b"}, "t": "x"}), {"type": 1}),
    "a missing field in the first row": ("a.jsonl", _json(first={"t": "x"}), {"columns": 1}),
    "a null in the first row": ("a.jsonl", _json(first={"s": None, "t": "x"}), {"columns": 1}),
    "an object in the first row": ("a.jsonl", _json(first={"s": {"a": "b"}, "t": "x"}), {"type": 1}),
    "one more field": ("a.jsonl", _json().replace('0"}', '0", "note": "x"}', 1), {}),
    "JSON of Windows": ("a.jsonl", "\ufeff" + _json().replace("\n", "\r\n"), {}),
    "nested JSON": (
        "a.jsonl",
        "".join(json.dumps({"id": n, "x": {"y": {"en": s, "de": t}}}) + "\n" for n, (s, t) in enumerate(PAIRS)),
        {},
    ),
    "other names in the header": ("a.csv", "a,b\n" + CSV, {}),
    "semicolons": ("a.csv", "a;b\n" + CSV.replace(",", ";"), {}),
    "a header in TSV": ("a.tsv", "a\tb\n" + TSV, {}),
    "CSV of Excel": (
        "a.csv",
        "\ufeffsep=;\r\n" + ("source;target\n" + CSV.replace(",", ";")).replace("\n", "\r\n"),
        {},
    ),
    "a byte order mark in the header": ("a.csv", "source, \ufefftarget\n" + CSV, {}),
    "a blank line before the header": ("a.csv", "\nsource,target\n" + CSV, {}),
    "ragged rows": ("a.csv", "source,target\n" + CSV + "a,b,c\nonly\n", {"columns": 2}),
    "a delimiter at the end": ("a.csv", "source,target,\n" + CSV.replace("\n", ",\n"), {}),
    "quotes, tabs and line ends in cells": (
        "a.csv",
        "source,target\n" + "".join(f'"{source}","{target}"\n' for source, target in PAIRS),
        {},
    ),
}


@pytest.mark.parametrize("kind", READ)
def test_it_is_read_and_the_recipe_says_how(command: Command, kind: str) -> None:
    name, content, left_out = READ[kind]
    Path(name).write_bytes(content.encode())
    text = command("data", "recommend", name)[0]
    recipe = make_recipe(tomllib.loads(text))
    errors: Counter[str] = Counter()
    pairs = [pair[:2] for split in ("train", "valid", "test") for pair in read_corpus(recipe, split, errors)]
    assert sorted(pairs) == sorted(PAIRS) and errors == left_out
    assert recipe.data.bad_rows == ("skip" if left_out else "error")
    assert ("left out" in text) == bool(left_out) and f"pairs: {len(PAIRS)} " in text
    assert prepare(recipe).pairs == len([*read_corpus(recipe, "train")])
    shown = json.loads(command("data", "show", name, "--json")[0])
    assert shown["pairs"] == len(PAIRS)
    assert {error: found["rows"] for error, found in shown["bad_rows"].items()} == left_out


def test_parquet_with_nulls_and_a_date(command: Command) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    sources, targets = zip(*PAIRS, strict=True)
    days = pyarrow.array(range(len(PAIRS) + 1), pyarrow.date32())
    table = pyarrow.table({"day": days, "s": pyarrow.array([None, *sources]).dictionary_encode(), "t": ["x", *targets]})
    parquet.write_table(table, "a.parquet")
    recipe = make_recipe(tomllib.loads(command("data", "recommend", "a.parquet")[0]))
    assert recipe.data.bad_rows == "skip"
    pairs = [pair[:2] for split in ("train", "valid", "test") for pair in read_corpus(recipe, split)]
    assert sorted(pairs) == sorted(PAIRS)


NOT_CLOSED = "column 1 has a quote that is never closed (41 lines to the file's end)"
NO_UTF_8 = "is UTF-16 text, expected UTF-8; convert it, e.g. with iconv -f UTF-16 -t UTF-8"
GZIP = "is compressed with gzip, though its name does not say so; decompress it, or rename it to end in .gz"
REFUSED: dict[str, tuple[str, str | bytes, str]] = {
    "a quote that is never closed": ("a.csv", 'source,target\n"a,b\n' + CSV, f":2: {NOT_CLOSED}"),
    "the same in the middle": ("a.csv", CSV + '"a,b\n' + CSV, f":41: {NOT_CLOSED}"),
    "UTF-16": ("a.csv", CSV.encode("utf-16"), f": {NO_UTF_8}"),
    "UTF-16 without a mark": ("a.jsonl", _json().encode("utf-16-le"), f": {NO_UTF_8.replace('-16', '-16LE')}"),
    "a header alone": ("a.csv", "source,target\n", ": no pairs; its only row is a header: source, target"),
    "gzip": ("a.csv", gzip.compress(CSV.encode()), f": {GZIP}"),
    "a list of objects": (
        "a.json",
        json.dumps([{"s": "a", "t": "b"}] * 9),
        ":1: is a list, expected a JSON object ({…}) in each line; `jq -c '.[]'` converts it",
    ),
    "lists": (
        "a.jsonl",
        json.dumps({"messages": [{"content": "a"}, {"content": "b"}]}) + "\n",
        ": the field 'messages' is a list, expected text; for dialogues write a recipe with train = "
        '{dialogues = FILE, turns = "messages"}',
    ),
    "one column": (
        "a.csv",
        "one\n" * 9,
        ": 1 column; expected two, separated by a comma, a semicolon, a tab or |",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_it_is_refused_in_a_line(refusal: Refusal, kind: str) -> None:
    name, content, message = REFUSED[kind]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for command in (["train"], ["data", "recommend"], ["data", "show"]):
        assert refusal(*command, name) == f"{name}{message}", command


def test_a_named_field_that_the_first_row_lacks(command: Command) -> None:
    Path("a.jsonl").write_text(_json(first={"t": "x", "note": "y"}))
    text = command("data", "recommend", "a.jsonl", "--source", "s", "--target", "t")[0]
    assert "pairs: 40 (a.jsonl)" in text and 'bad_rows = "skip"' in text


def test_parts_of_a_folder_are_checked_too(command: Command, refusal: Refusal) -> None:
    Path("parts").mkdir()
    Path("parts/train.csv").write_text("source,target\n" + CSV)
    test = Path("parts/test.csv")
    test.write_text("")
    assert refusal("train", "parts") == "parts/test.csv: no pairs; the file is empty"
    test.write_text("source,label\na,b\n")
    assert refusal("train", "parts").startswith("parts/test.csv:1: no column 'target'; ")
    test.write_text("target;source\na;b\nonly\n")
    text = command("data", "recommend", "parts")[0]
    assert (
        "# warning: test pairs: 1 row that cannot be read is left out: parts/test.csv:3: 1 column, expected 2" in text
    )
    recipe = make_recipe(tomllib.loads(text))
    assert [pair[:2] for pair in read_corpus(recipe, "test")] == [("b", "a")] and recipe.data.bad_rows == "skip"


def test_a_test_file_of_a_recipe_is_read_before_training(refusal: Refusal) -> None:
    Path("train.tsv").write_text(TSV)
    Path("test.tsv").write_text("")
    Path("mine.toml").write_text('[data]\ntrain = "train.tsv"\ntest = "test.tsv"\n')
    assert refusal("train", "mine.toml") == "data.test: no pairs in test.tsv"
    Path("test.tsv").write_text("one column\n")
    assert ":1: 1 column, expected 2 (source, tab, target); fix it, or set" in refusal("train", "mine.toml")
    assert not Path("runs").exists()
