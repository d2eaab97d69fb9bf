"""`weft.back_translate`: sources for monolingual targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.errors import DataError, RecipeError
from weft.translation import pipeline
from weft.translation.resumable_output import ResumableOutput
from weft.translation.translator import Translator

TARGETS = ["a b", "c a", "", "b", "d e a", "e e", "c\tc"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("targets.txt").write_text("\n".join(TARGETS) + "\n", "utf-8")


def test_pairs_with_a_tag(teacher: Path, copier: Translator) -> None:
    written = weft.back_translate(teacher, "targets.txt", "pairs.tsv", tag="<bt>")
    expected = [f"<bt> {copier.translate(text).text}\t{text}" for text in TARGETS if text and "\t" not in text]
    assert Path("pairs.tsv").read_text("utf-8").splitlines() == expected
    assert (written.rows, written.left_out) == (5, 1), "a target with a tab is not written to a table"


def test_json_lines_keep_every_text(teacher: Path) -> None:
    weft.back_translate([teacher, teacher], Path("targets.txt"), "pairs.jsonl", n_best=2)
    rows = [json.loads(line) for line in Path("pairs.jsonl").read_text("utf-8").splitlines()]
    assert {row["target"] for row in rows} >= {"a b", "c\tc"} and len(rows) > 6


@pytest.mark.parametrize("kind", ["beam", "sample"])
def test_an_interrupted_call_is_continued(kind: str, teacher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "WINDOW_LINES", 2)
    search = {"kind": kind, "temperature": 2.0}
    weft.back_translate(teacher, "targets.txt", "whole.tsv", search=search)
    add, calls = ResumableOutput.add, []

    def failing(self: ResumableOutput, *arguments: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        add(self, *arguments, **more)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ResumableOutput, "add", failing)
        weft.back_translate(teacher, "targets.txt", "pairs.tsv", search=search)
    with pytest.raises(DataError, match=r"pairs\.tsv\.part: written with other options: tag"):
        weft.back_translate(teacher, "targets.txt", "pairs.tsv", search=search, tag="<bt>")
    weft.back_translate(teacher, "targets.txt", "pairs.tsv", search=search)
    assert Path("pairs.tsv").read_bytes() == Path("whole.tsv").read_bytes()


def test_bad_input(teacher: Path, speaker: Translator) -> None:
    with pytest.raises(DataError, match=r"missing\.txt: no such file; expected monolingual text, a target on every"):
        weft.back_translate(teacher, "missing.txt", "pairs.tsv")
    with pytest.raises(RecipeError, match="language model"):
        weft.back_translate(str(speaker.folder), "targets.txt", "pairs.tsv")
    with pytest.raises(RecipeError, match="tag=' ': expected a text without tabs, such as '<bt>'"):
        weft.back_translate(teacher, "targets.txt", "pairs.tsv", tag=" ")
    with pytest.raises(RecipeError, match="n_best=0: expected a whole number from 1 on"):
        weft.back_translate(teacher, "targets.txt", "pairs.tsv", n_best=0)
    Path("pairs.tsv").write_text("a\tb\n", "utf-8")
    with pytest.raises(DataError, match=r"pairs\.tsv: already exists; remove it, or choose another out"):
        weft.back_translate(teacher, "targets.txt", "pairs.tsv")
    Path("blank.txt").write_text("\n\n", "utf-8")
    with pytest.raises(DataError, match=r"new\.tsv: no pairs: there is no source"):
        weft.back_translate(teacher, "blank.txt", "new.tsv")
