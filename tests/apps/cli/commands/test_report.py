"""``weft report``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[str, str]]
Runs = Callable[[str], Path]
QUICK = ["--samples", "100", "--metric", "exact_match", "--limit", "5"]


@pytest.fixture
def run(runs: Runs, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs("lstm"), tmp_path / "run"))


def test_a_page_in_the_run_folder(command: Command, run: Path) -> None:
    printed, _ = command("report", run, *QUICK)
    lines = printed.splitlines()
    assert lines[0].startswith("exact match ") and "[" in lines[0]
    assert lines[-1] == str(run / "report.html")
    assert (run / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert command("runs", run)[0]  # still a run


def test_pairs_and_another_file(command: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a b\tb a\nc\tc\n\tx\n", "utf-8")
    page = tmp_path / "page.html"
    printed, noise = command("report", run, tmp_path / "pairs.tsv", "--to", page, *QUICK, "--search", "greedy")
    assert printed.splitlines()[-1] == str(page) and "On the pairs.tsv, 2 pairs." in page.read_text("utf-8")
    assert noise == "left out: 1 row with a blank side\n" and not (run / "report.html").exists()


def test_json(command: Command, run: Path, tmp_path: Path) -> None:
    found = json.loads(command("report", run, *QUICK, "--json")[0])
    assert found["scores"]["items"] == 5 and "exact match" in found["scores"]["metrics"]
    assert not (run / "report.html").exists()
    (tmp_path / "a.src").write_text("a b\n", "utf-8")
    (tmp_path / "a.tgt").write_text("a b\n", "utf-8")
    files = ["--source", tmp_path / "a.src", "--target", tmp_path / "a.tgt"]
    found = json.loads(command("report", run, *files, *QUICK, "--json", "--to", tmp_path / "x.html")[0])
    assert found["scores"]["test_set"] == "given pairs" and (tmp_path / "x.html").is_file()


@pytest.mark.parametrize("model", ["blind", "copying", "prefix"])
def test_models_of_every_kind(command: Command, runs: Runs, tmp_path: Path, model: str) -> None:
    page = tmp_path / "page.html"
    command("report", runs(model), "--to", page, *QUICK)
    assert ('aria-label="attention map"' in page.read_text("utf-8")) == (model != "blind")


def test_refusals(refusal: Callable[..., str], run: Path, tmp_path: Path) -> None:
    assert refusal("report", tmp_path / "none").startswith(f"{tmp_path / 'none'}: ")
    assert refusal("report", run, tmp_path / "none.tsv") == f"{tmp_path / 'none.tsv'}: no such file"
    where = tmp_path / "no" / "page.html"
    assert refusal("report", run, "--to", where) == f"{where}: cannot write: there is no folder {where.parent}"
    assert refusal("report", run, "--metric", "blue").startswith("metric 'blue' is unknown")
    assert refusal("report", run, "--set", "seed=3").startswith("--set seed=3: only search settings")
