"""Windows that are searched while others are tokenized and written, as on a GPU: the output is the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.translation import pipeline, text_warnings
from weft.translation.resumable_output import ResumableOutput

LINES = [b"a b c", b"", b"d", b"b a c d e", b"e", b"c c", b"a", b"b \xff", b"", b"d e a", b"c " * 51, b"b", b"a a a a"]
Command = Callable[..., Any]
Runs = Callable[[str], Path]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pipeline, "WINDOW_LINES", 2)
    monkeypatch.setattr(pipeline, "GPU_WINDOWS", 1)
    monkeypatch.setattr(text_warnings, "warn_of_cut_off", lambda *_: None)
    path = tmp_path / "source.txt"
    path.write_bytes(b"\n".join(LINES) + b"\n")
    return path


@pytest.fixture
def overlapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.Pipeline, "overlaps", lambda _: True)


@pytest.mark.parametrize("form", [[], ["--n-best", "2", "--align"], ["--json", "--search", "greedy"]], ids=str)
def test_the_same_output(
    command: Command, runs: Runs, source: Path, monkeypatch: pytest.MonkeyPatch, form: list[str]
) -> None:
    asked = ["translate", runs("learned"), source, *form, "--bad-lines", "skip"]
    expected = command(*asked, check=3)
    monkeypatch.setattr(pipeline.Pipeline, "overlaps", lambda _: True)
    assert command(*asked, check=3) == expected


@pytest.mark.usefixtures("overlapping")
def test_stopped_and_resumed(command: Command, runs: Runs, source: Path, tmp_path: Path) -> None:
    """What was searched ahead is not in the output, and is searched again."""
    out = tmp_path / "out.txt"
    asked = ["translate", runs("learned"), source, "--bad-lines", "skip"]
    whole = command(*asked, check=3).stdout
    add, left = ResumableOutput.add, [3]

    def stop(self: ResumableOutput, *arguments: Any, **keywords: Any) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        add(self, *arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResumableOutput, "add", stop)
        said = command(*asked, "--output", out, check=130)
    assert "weft: 6 lines done; continue with --resume\n" in said.stderr
    assert "weft-search" not in {thread.name for thread in threading.enumerate()}
    part = out.with_name("out.txt.part").read_text("utf-8")
    assert whole.startswith(part) and part.count("\n") == 6
    assert command(*asked, "--output", out, "--resume", check=3).stderr.startswith("weft: 6 lines done; continuing\n")
    assert out.read_text("utf-8") == whole


@pytest.mark.usefixtures("overlapping")
def test_an_error_comes_after_the_lines_before_it(command: Command, runs: Runs, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    said = command("translate", runs("learned"), source, "--output", out, check=2)
    assert said.stderr.startswith(f"weft: {source}:8: not valid UTF-8")
    assert out.with_name("out.txt.part").read_text("utf-8").count("\n") == 6
