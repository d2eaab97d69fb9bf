"""Files in a child process: right, wrong, broken, endless, and ended by the student's code."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from fixtures.course_solutions import RIGHT, wrong_source
from weft.apps.course import check
from weft.errors import DataError

SAMPLING = RIGHT["sampling"]


def saved(folder: Path, text: str, name: str = "sampling.py") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_a_right_file(tmp_path: Path) -> None:
    result = check(saved(tmp_path, SAMPLING))
    assert result.passed and len(result.verdicts) >= 8 and result.hints == [] and result.broken == ""


def test_an_exercise_that_needs_torch(tmp_path: Path) -> None:
    path = saved(tmp_path, wrong_source("attention", "dim=-1", "dim=0"), "mine.py")
    result = check(path, "attention")
    assert not result.passed and "Over which axis" in result.hints[0]


def test_an_endless_loop_has_its_line(tmp_path: Path) -> None:
    text = "def nucleus(probabilities, p):\n    while True:\n        pass\n\ndef sample(*_):\n    return 0\n"
    result = check(saved(tmp_path, text), seconds=0.3)
    assert {verdict.problem for verdict in result.verdicts[:2]} <= {
        f"line {line}: no result within 0.3 seconds; is there a loop that never ends?" for line in (2, 3)
    }


def test_a_loop_that_catches_everything_is_ended_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.apps.course.checking.GRACE_SECONDS", 0.2)
    text = "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass\n"
    begin = time.monotonic()
    result = check(saved(tmp_path, text), seconds=0.3)
    assert result.broken == "no result within 0.3 seconds; is there a loop that never ends?"
    assert not result.passed and time.monotonic() - begin < 100


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def nucleus(:\n", r"line 1: SyntaxError: invalid syntax"),
        ("import os\n\n1 / 0\n", r"line 3: ZeroDivisionError: division by zero"),
        ("import nothing_like_it\n", r"line 1: ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("while True:\n    pass\n", r"line [12]: no result within 2 seconds; is there a loop that never ends\?"),
        ("import sys\nsys.exit(3)\n", r"line 2: SystemExit: 3"),
        ("import os\nos._exit(7)\n", r"Python ended with exit code 7 while the file was running"),
    ],
)
def test_a_file_that_cannot_be_run(tmp_path: Path, text: str, problem: str) -> None:
    result = check(saved(tmp_path, text), seconds=2 if "while" in text else 60)
    assert not result.passed and result.verdicts == []
    assert re.fullmatch(problem, result.broken)


def test_what_the_file_prints_does_not_disturb(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = f"print('hello from the file')\n{SAMPLING}\nif __name__ == '__main__':\n    1 / 0\n"
    assert check(saved(tmp_path, text)).passed
    assert "hello from the file" in capfd.readouterr().err


def test_a_module_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    saved(tmp_path, SAMPLING, "my_functions.py")
    assert check(saved(tmp_path, "from my_functions import nucleus, sample\n")).passed


def test_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lstm\.py: no such file; weft course start writes"):
        check(tmp_path / "lstm.py")
    with pytest.raises(DataError, match=r"mine\.py: which exercise is it\? give --exercise NAME, one of sampling, "):
        check(saved(tmp_path, "", "mine.py"))
    with pytest.raises(DataError, match="atention: unknown exercise; did you mean 'attention'"):
        check(saved(tmp_path, "", "mine.py"), "atention")
