"""Commands for a run with several sources: columns are separated by tabs, and another number of them is one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.recipe import make_recipe
from weft.training.train import train

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")
PAIRS = "ab\tN;PL\tabs\ncd\tV\tcdo\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("columns")
    (folder / "train.tsv").write_text(PAIRS * 5, "utf-8")
    table = {"file": "train.tsv", "source": [1, 2], "target": 3, "tags": 2}
    model = {"embedding": 8, "encoder": {"hidden": 8}, "decoder": {"hidden": 8}, "sources": {"count": 2}}
    settings = {
        "data": {"train": table, "valid": table, "folder": str(folder)},
        "tokenizer": {"kind": "character", "tags": True},
        "model": model,
        "training": {"steps": 1, "validate_every": 1, "device": "cpu"},
    }
    list(train(make_recipe(settings), folder / "run"))
    return folder / "run"


def test_lines_of_columns(command: Callable[..., Any], run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("ab\tN;PL\n\ncd\n\t<V>\n", "utf-8")
    message = f"{tmp_path}/lines:3: source 'cd': 1 column, expected 2, separated by tabs"
    said = command("translate", run, tmp_path / "lines", check=2)
    assert said.stderr == f"weft: {message}; or skip such lines with --bad-lines skip\n"
    said = command("translate", run, tmp_path / "lines", "--bad-lines", "skip", check=3)
    assert said.stderr.startswith(f"weft: skipped: {message}\n") and said.stdout.count("\n") == 4
    shown = command("attend", run, "ab\t<N><PL>", "--tokens").stdout
    assert shown.count("</s>") >= 2 and "<PL>" in shown


def test_files_of_columns(command: Callable[..., Any], refusal: Callable[..., str], run: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text(PAIRS, "utf-8")
    (tmp_path / "tags.tsv").write_text(PAIRS.replace("N;PL", "<N><PL>"), "utf-8")
    scores = command("score", run, tmp_path / "pairs.tsv").stdout
    assert scores == command("score", run, tmp_path / "tags.tsv").stdout and scores.count("\n") == 2
    assert "2 pairs" in command("evaluate", run, tmp_path / "pairs.tsv", "--metric", "exact_match").stdout
    (tmp_path / "short.tsv").write_text("ab\tabs\n", "utf-8")
    assert refusal("score", run, tmp_path / "short.tsv").startswith(
        f"{tmp_path}/short.tsv:1: 2 columns, but column 3 was requested"
    )
