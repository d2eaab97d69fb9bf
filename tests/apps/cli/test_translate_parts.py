"""A file in parts, by several commands, and merged: every line once, in order, whatever is killed; and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.translation import pipeline
from weft.translation.translator import Translator

LINES = ["a b c", "", "d", "b a c d e", "e", "c c", "a", "b d", "", "d e a", "c", "b", "a a a a"]
Command = Callable[..., Any]
Refusal = Callable[..., str]


@pytest.fixture
def run(runs: Callable[[str], Path]) -> Path:
    return runs("lstm")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pipeline, "WINDOW_LINES", 2)
    path = tmp_path / "source.txt"
    path.write_text("".join(line + "\n" for line in LINES), "utf-8")
    return path


def translate(command: Command, run: Path, source: Path, output: Path, *options: str, check: int = 0) -> Any:
    return command("translate", run, source, "--output", output, "--device", "cpu", *options, check=check)


def test_parts_merged_are_the_whole(command: Command, run: Path, source: Path, tmp_path: Path) -> None:
    translate(command, run, source, tmp_path / "whole.txt", "--json")
    output = tmp_path / "out.txt"
    for number in (3, 1, 4, 2):
        translate(command, run, source, output, "--json", "--part", f"{number}/4")
    sizes = [len((tmp_path / f"out.txt.{number}-of-4").read_text().splitlines()) for number in (1, 2, 3, 4)]
    assert sizes == [2, 4, 4, 3]  # of blocks of two lines
    said = translate(command, run, source, output, "--merge")
    assert said.stderr == f"weft: 13 lines of 4 parts in {output}\n"
    assert output.read_bytes() == (tmp_path / "whole.txt").read_bytes()


def test_an_interrupted_part_is_resumed(
    command: Command, run: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.txt"
    translate(command, run, source, output)
    expected = output.read_bytes()
    output.unlink()
    original, windows = Translator.translate, iter(range(2))

    def stop(self: Translator, *arguments: Any, **keywords: Any) -> Any:
        if next(windows, None) is None:
            raise KeyboardInterrupt
        return original(self, *arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", stop)
        said = translate(command, run, source, output, "--part", "2/2", check=130)
    assert said.stderr.startswith("weft: 4 lines done; continue with --resume")
    assert not (tmp_path / "out.txt.2-of-2.json").exists()
    translate(command, run, source, output, "--part", "1/2", "--resume")  # a first start, as in a job file
    said = translate(command, run, source, output, "--part", "2/2", "--resume")
    assert said.stderr.startswith("weft: 4 lines done; continuing")
    said = translate(command, run, source, output, "--part", "2/2", "--resume")
    assert "out.txt.2-of-2 is complete" in said.stderr
    translate(command, run, source, output, "--merge")
    assert output.read_bytes() == expected


def test_skipped_lines_keep_their_numbers(
    command: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, output = tmp_path / "source.txt", tmp_path / "out.txt"
    monkeypatch.setattr(pipeline, "WINDOW_LINES", 2)
    source.write_bytes(b"a\nb\n\xff\nc\n")
    translate(command, run, source, output, "--part", "1/2", "--bad-lines", "skip")
    said = translate(command, run, source, output, "--part", "2/2", "--bad-lines", "skip", check=3)
    assert f"skipped: {source}:3: not valid UTF-8" in said.stderr
    said = translate(command, run, source, output, "--merge", check=3)
    assert "1 line was skipped" in said.stderr
    assert len(output.read_bytes().splitlines()) == 4


def test_a_small_file_is_divided_too(command: Command, run: Path, tmp_path: Path) -> None:
    """Of 3,000 lines, one block, the first half had none and the second all."""
    source, output = tmp_path / "source.txt", tmp_path / "out.txt"
    source.write_text("a b\nb\n" * 5)
    for number in (1, 2):
        translate(command, run, source, output, "--part", f"{number}/2")
    assert [len((tmp_path / f"out.txt.{number}-of-2").read_text().splitlines()) for number in (1, 2)] == [5, 5]
    translate(command, run, source, output, "--merge")
    translate(command, run, source, tmp_path / "whole.txt")
    assert output.read_text() == (tmp_path / "whole.txt").read_text()


def test_more_parts_than_blocks(command: Command, run: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "source.txt", tmp_path / "out.txt"
    source.write_text("a\nb")
    for number in (1, 2, 3):
        translate(command, run, source, output, "--part", f"{number}/3")
    assert (tmp_path / "out.txt.1-of-3").read_bytes() == b""
    translate(command, run, source, output, "--merge")
    assert len(output.read_text().splitlines()) == 2


class TestRefusals:
    def test_of_a_part(self, refusal: Refusal, run: Path, source: Path, tmp_path: Path) -> None:
        output = tmp_path / "out.txt"
        for part in ("0/4", "5/4", "4", "1/", "a/b", "1/9999999"):
            message = refusal("translate", run, source, "--output", output, "--part", part)
            assert message == f"--part {part}: expected I/N with I from 1 to N, for example 1/8"
        message = refusal("translate", run, source, "--part", "1/2")
        assert message == "--part 1/2: needs --output FILE; this part is written to FILE.1-of-2"
        message = refusal("translate", run, "--output", output, "--part", "1/2")
        assert message == "--part 1/2: - is not a regular file, so other jobs cannot read it"

    def test_of_a_merge(self, command: Command, refusal: Refusal, run: Path, source: Path, tmp_path: Path) -> None:
        output = tmp_path / "out.txt"
        merge = ("translate", run, source, "--output", output, "--merge")
        assert refusal("translate", run, source, "--merge").startswith("--merge: there is no --output")
        assert refusal(*merge, "--part", "1/2").startswith("--merge: --part 1/2 is given too")
        assert "there are none: translate them with --part I/N" in refusal(*merge)
        translate(command, run, source, output, "--part", "1/3")
        assert (
            refusal(*merge) == f"{output}: parts 2, 3 of 3 are missing or unfinished; run them with --part and --resume"
        )
        translate(command, run, source, output, "--part", "2/3", "--search", "greedy")
        translate(command, run, source, output, "--part", "3/3")
        message = refusal(*merge)
        assert message.startswith(
            f"{output}.2-of-3.json: made with options other than those of part 1: search.kind is 'greedy'"
        )
        translate(command, run, source, output, "--part", "2/3")
        record = tmp_path / "out.txt.3-of-3.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | {"first_line": 1}))
        assert refusal(*merge) == f"{record}: its first line is 1, expected 9; run it again"
        translate(command, run, source, output, "--part", "3/3")
        (tmp_path / "out.txt.3-of-3").write_text("x\n")
        part = tmp_path / "out.txt.3-of-3"
        assert refusal(*merge) == f"{part}: damaged: not as it was written; remove it and run the part again"
        assert not output.exists()
        source.write_text("a\n")
        assert refusal(*merge).endswith(f"are of a source of 13 lines, and {source} has 1; translate it again")
        (tmp_path / "out.txt.1-of-7").write_text("")
        assert refusal(*merge).endswith("there are parts of 3 and 7: remove those not to be merged")
