"""``weft distill``: what it prints, that an interruption can be continued, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.apps.cli.commands.distill import targets_line
from weft.pairs.distillation.corpora import TargetsWritten
from weft.translation.resumable_output import ResumableOutput
from weft.translation.translator import Translator

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")  # hardly trained
SHORT = ("--set", "training.steps=3", "--set", "data.train_size=30")


def test_from_the_teacher_to_the_student(command: Callable[..., Any], copier: Translator, tmp_path: Path) -> None:
    out = tmp_path / "student"
    arguments = ("distill", str(copier.folder), "--student", "small", "--beam", "2", "--out", out, *SHORT)
    said = command(*arguments)
    assert f"{out}.distillation/train-1.jsonl: " in said.stderr and "finished at step 3" in said.stderr
    assert said.stdout.startswith("Test set: 20 items") and said.stdout.splitlines()[-1] == str(out)
    again = command(*arguments, "--no-evaluate")
    assert again.stdout == f"{out}\n"


def test_an_interruption(
    command: Callable[..., Any], copier: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    arguments = ("distill", str(copier.folder), "--out", tmp_path / "student", "--no-evaluate", *SHORT)
    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutput, "add", interrupt)
        said = command(*arguments, check=130)
    assert said.stderr.splitlines()[-1] == "weft: interrupted; repeat the command to continue"
    assert command(*arguments).stdout == f"{tmp_path / 'student'}\n"


def test_refusals(refusal: Callable[..., str], copier: Translator, tmp_path: Path) -> None:
    teacher, out = str(copier.folder), ("--out", tmp_path / "student")
    assert "missing: no such run folder" in refusal("distill", tmp_path / "missing", *out)
    assert refusal("distill", teacher, "--student", "huge", *out).startswith("--student huge: unknown student")
    assert refusal("distill", teacher, "--method", "words", *out).startswith("--method words: unknown method")
    assert refusal("distill", teacher, "--references", "2", *out).startswith("--references 2: expected a number")
    assert "no such file" in refusal("distill", teacher, "--monolingual", tmp_path / "none.txt", *out)


def test_lines() -> None:
    assert targets_line(TargetsWritten(0, "f.jsonl", 2_000)) == "f.jsonl: 2,000 pairs, complete"
    line = targets_line(TargetsWritten(0, "f.jsonl", 1, left_out=2, seconds=3.2))
    assert line == "f.jsonl: 1 pair in 3 s; left out: 2 sources without a usable output"
