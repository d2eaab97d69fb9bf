"""``weft history``."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from weft.apps import labs
from weft.apps.cli.commands.history import make_table
from weft.apps.labs.history.models import MODELS

Command = Callable[..., tuple[str, str]]
Refusal = Callable[..., str]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """One model, hardly trained, in this process."""
    monkeypatch.setattr(labs, "history", partial(labs.history, steps=1, sentences=1, models=("luong2015",)))
    monkeypatch.setattr("weft.apps.labs.trials.worker_count", lambda: 0)


@pytest.mark.usefixtures("tiny")
def test_it_writes_a_page(command: Command, tmp_path: Path) -> None:
    printed, noise = command("history", "--quick", "--seeds", "1", "--to", tmp_path / "page.html")
    lines = printed.splitlines()
    assert lines[0] == "Ten years of attention: six models, 1 seed, less than 20 s on two cores"
    assert lines[-1] == str(tmp_path / "page.html") and (tmp_path / "page.html").read_text("utf-8").endswith(
        "</html>\n"
    )
    assert noise.startswith("Luong 2015, seed 1: exact match 4 words ") and "alignment error rate" in noise


@pytest.mark.usefixtures("tiny")
def test_json(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed, _ = command("history", "--quick", "--seeds", "1", "--json")
    assert set(json.loads(printed)["models"]) == {"luong2015"} and not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist(refusal: Refusal, tmp_path: Path) -> None:
    assert "there is no folder" in refusal("history", "--to", tmp_path / "no" / "page.html")


def test_the_live_table() -> None:
    row = {"exact": [90.0, 50.0, 20.0, 10.0, 0.0], "error": 12.5}
    console = Console(width=100)
    with console.capture() as capture:
        console.print(make_table({"luong2015": [row, {**row, "exact": [80.0] * 5}]}))
    lines = capture.get().splitlines()
    assert len(lines) == 1 + len(MODELS)
    assert lines[4].split() == [
        "Luong",
        "2015",
        "2",
        "85",
        "%",
        "65",
        "%",
        "50",
        "%",
        "45",
        "%",
        "40",
        "%",
        "12.5",
        "%",
    ]
    assert lines[1].split() == ["Sutskever", "2014", *["·"] * 7]
