"""``weft course``: its output, exit codes and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from fixtures.course_solutions import RIGHT

Command = Callable[..., tuple[str, str]]


def test_list(command: Command) -> None:
    lines = command("course", "list")[0].splitlines()
    assert lines[0].split() == ["chapter", "file", "exercise"] and lines[3].split()[:2] == ["6", "attention.py"]
    rows = json.loads(command("course", "list", "--json")[0])
    assert len(rows) >= 8 and rows[2] == {"chapter": 6, "file": "attention.py", "title": "scaled dot-product attention"}


def test_start_then_check(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "sampling.py"
    assert f"weft course check {path}" in command("course", "start", "1", "--to", tmp_path)[0]
    assert command("course", "start", "1", "--to", tmp_path)[0] == f"{path}: exists, left as it is\n"
    text = command("course", "check", path, check=1)[0]
    assert "nucleus is not written yet" in text and text.endswith("0 of 11 cases passed\n")
    path.write_text(RIGHT["sampling"], "utf-8")
    assert command("course", "check", path)[0].endswith("all 11 cases passed\n")


def test_as_json(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(RIGHT["sampling"].replace("/ total", "/ p"), "utf-8")
    record = json.loads(command("course", "check", path, "--exercise", "sampling", "--json", check=1)[0])
    assert not record["passed"] and record["error"] is None and "divided by p" in record["hints"][0]
    assert {"case", "passed", "problem"} == set(record["cases"][0])


def test_refusals(refusal: Callable[..., str], tmp_path: Path) -> None:
    assert "has no programming exercise" in refusal("course", "start", "99")
    assert "no such file" in refusal("course", "check", tmp_path / "attention.py")
