"""``weft back-translate``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.translation.resumable_output import ResumableOutput
from weft.translation.translator import Translator


@pytest.fixture
def arguments(copier: Translator, tmp_path: Path) -> tuple[Any, ...]:
    (tmp_path / "targets.txt").write_text("a b\nc\tc\nb\n", "utf-8")
    return ("back-translate", str(copier.folder), tmp_path / "targets.txt", "--out", tmp_path / "pairs.tsv")


def test_pairs(command: Callable[..., Any], arguments: tuple[Any, ...], copier: Translator, tmp_path: Path) -> None:
    said = command(*arguments, "--tag", "<bt>", "--set", "search.size=2")
    assert said.stdout == f"{tmp_path / 'pairs.tsv'}\n"
    assert said.stderr.splitlines()[-1] == "2 pairs; left out: 1 target without a usable source"
    lines = (tmp_path / "pairs.tsv").read_text("utf-8").splitlines()
    assert lines == [f"<bt> {copier.translate(text, size=2).text}\t{text}" for text in ("a b", "b")]


def test_an_interruption(
    command: Callable[..., Any], arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutput, "add", interrupt)
        said = command(*arguments, check=130)
    assert said.stderr.splitlines()[-1] == "weft: interrupted; repeat the command to continue"
    command(*arguments)


def test_refusals(refusal: Callable[..., str], arguments: tuple[Any, ...], tmp_path: Path) -> None:
    name, run, _, *out = arguments
    assert refusal(name, run, tmp_path / "none.txt", *out).endswith("expected monolingual text, a target on every line")
    assert "only search settings" in refusal(*arguments, "--set", "training.steps=3")
    (tmp_path / "pairs.tsv").write_text("a\tb\n", "utf-8")
    assert refusal(*arguments).endswith("pairs.tsv: already exists; remove it, or choose another --out")
