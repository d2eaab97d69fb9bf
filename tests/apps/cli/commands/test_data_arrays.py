"""``weft data show`` of pictures and frames: sizes, ink, files that cannot be read, thumbnails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.kinds_of_pictures import frames, lines, write_table

Command = Callable[..., Any]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = lines(30)
    write_table(tmp_path, rows, "train.tsv")
    (tmp_path / rows[2][0]).unlink()
    return Path("train.tsv")


@pytest.mark.parametrize("what", ["train.tsv", "."])
def test_sizes_missing_files_and_thumbnails(what: str, table: Path, command: Command) -> None:
    said = command("data", "show", what, "--samples", "3").stdout
    assert "pictures         24 × " in said and "% ink, gray (all looked at)" in said
    assert "train.tsv:3: " in said and "no such file" in said
    assert "source words" not in said and "target characters" in said
    assert "█" in said or "▓" in said


def test_json(table: Path, command: Command) -> None:
    record = json.loads(command("data", "show", "train.tsv", "--json").stdout.splitlines()[0])
    assert record["bad_rows"]["array"]["rows"] == 1
    assert record["arrays"]["sampled"] == 29 and record["arrays"]["unreadable"] == 0


def test_a_page(table: Path, command: Command) -> None:
    assert command("data", "show", "train.tsv", "--page", "page.html").stdout.rstrip().endswith("page.html")
    assert Path("page.html").read_text("utf-8").count("data:image/png") >= 4
    Path("texts.tsv").write_text("a b\tc d\n" * 20)
    said = command("data", "show", "texts.tsv", "--page", "page.html", check=2)
    assert said.stderr.startswith("weft: --page page.html: a page of pictures, but the sources of texts.tsv are texts")


def test_frames_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, frames(30), "train.tsv")
    said = command("data", "show", "train.tsv", "--samples", "1").stdout
    assert "frames of 24 values" in said and "samples" in said


def test_drawings(command: Command) -> None:
    """A recipe of a built-in corpus, whose pictures are drawn."""
    said = command("data", "show", "drawn-digits", "--samples", "1", "--set", "data.train_size=40").stdout
    assert "pictures         24 × " in said and "(all looked at)" in said
