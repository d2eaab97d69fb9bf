"""Which files a name stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.data.profiling.inputs import PairInput, find_inputs
from weft.errors import DataError


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
        (["train.tsv", "test.a", "test.b"], "is of another kind"),
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
