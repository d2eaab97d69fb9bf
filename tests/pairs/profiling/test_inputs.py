"""Which files a name stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.data.columns.rows import PairInput
from weft.errors import DataError
from weft.pairs.profiling.inputs import PairsArgument, find_inputs


def test_a_file_and_two_files(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.de", "a.en"):
        (tmp_path / name).write_text("x\ty\n")
    assert find_inputs(str(tmp_path / "a.tsv")) == {"train": PairInput(str(tmp_path / "a.tsv"))}
    parallel = find_inputs(str(tmp_path / "a.de"), str(tmp_path / "a.en"))["train"]
    assert parallel.format == "parallel"
    assert PairInput("x.jsonl.gz").format == "jsonl"
    assert find_inputs("-")["train"].name == "<standard input>"


def test_a_folder_by_the_beginnings_of_names(tmp_path: Path) -> None:
    for name in ("train.tsv", "dev.tsv", "test.tsv.gz", "README.md", "training_notes.txt"):
        (tmp_path / name).write_text("")
    assert {part: Path(value.file).name for part, value in find_inputs(str(tmp_path)).items()} == {
        "train": "train.tsv",
        "valid": "dev.tsv",
        "test": "test.tsv.gz",
    }


def test_the_sides_of_parallel_files(tmp_path: Path) -> None:
    for name in ("train.tgt", "train.src", "val.tgt", "val.src"):
        (tmp_path / name).write_text("")
    inputs = find_inputs(str(tmp_path))
    assert [Path(inputs["valid"].file).suffix, Path(inputs["valid"].targets or "").suffix] == [".src", ".tgt"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.tsv"], "no file whose name begins with train"),
        (["train.tsv", "train.csv"], "several files begin with train: train.csv, train.tsv"),
        (["train.tsv", "test.a", "test.b"], "its format differs from that of"),
    ],
)
def test_folders_that_are_refused(names: list[str], message: str, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_text("")
    with pytest.raises(DataError, match=message):
        find_inputs(str(tmp_path))


def test_a_missing_file() -> None:
    with pytest.raises(DataError, match=r"nowhere\.tsv: no such file or folder"):
        find_inputs("nowhere.tsv")


def test_the_sides_of_a_folder_by_their_endings(tmp_path: Path) -> None:
    for name in ("train.cs", "train.de.gz", "train.en", "test.de", "test.en", "test.cs"):
        (tmp_path / name).touch()
    parts = PairsArgument(str(tmp_path), "en", ".de").inputs()
    assert parts["train"] == PairInput(str(tmp_path / "train.en"), str(tmp_path / "train.de.gz"))
    assert parts["test"] == PairInput(str(tmp_path / "test.en"), str(tmp_path / "test.de"))
    with pytest.raises(
        DataError, match=r"several files begin with train: .*; leave one file of pairs, or name the end"
    ):
        find_inputs(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "run_name"),
    [("a/b.tsv.gz", "b"), ("b.train.csv", "b"), ("-", "pairs"), ("(x y).tsv", "_x y_"), ("..tsv", "pairs")],
)
def test_the_name_of_a_run(name: str, run_name: str) -> None:
    assert PairsArgument(name).run_name == run_name
    assert PairsArgument(None, name, "x").run_name == run_name


def test_folders_inside_a_folder_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "train.csv").mkdir()
    (tmp_path / "train.tsv").write_text("a\tb\n")
    assert find_inputs(str(tmp_path)) == {"train": PairInput(str(tmp_path / "train.tsv"))}


@pytest.mark.parametrize(
    ("names", "sides", "is_guess"),
    [
        (("de", "en"), ("de", "en"), True),
        (("en", "src"), ("src", "en"), False),
        (("in", "xx"), ("in", "xx"), False),
        (("aa", "tgt"), ("aa", "tgt"), False),
        (("out", "zz"), ("zz", "out"), False),
        (("src.gz", "tgt.gz"), ("src.gz", "tgt.gz"), False),
    ],
)
def test_which_of_two_files_has_the_sources(
    names: tuple[str, str], sides: tuple[str, str], is_guess: bool, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / f"train.{name}").touch()
    source, target = (str(tmp_path / f"train.{side}") for side in sides)
    assert find_inputs(str(tmp_path))["train"] == PairInput(source, target, is_guess=is_guess)


def test_one_file_without_a_known_ending_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "train").touch()
    assert find_inputs(str(tmp_path))["train"] == PairInput(str(tmp_path / "train"))
