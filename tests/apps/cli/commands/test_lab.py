"""``weft lab``."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from weft.apps import labs
from weft.apps.labs.lab import LabResult

Command = Callable[..., tuple[str, str]]
Refusal = Callable[..., str]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scaling lab alone, with two widths, in this process."""
    run = partial(labs.scaling, widths=(4, 16), queries=8)
    run.__module__ = labs.scaling.__module__  # type: ignore[attr-defined]
    monkeypatch.setattr(labs, "LABS", {"scaling": run})
    monkeypatch.setattr("weft.apps.labs.trials.worker_count", lambda: 0)


def test_the_list(command: Command) -> None:
    lines = command("lab")[0].splitlines()
    assert [line.split()[0] for line in lines[: len(labs.LABS)]] == list(labs.LABS)
    assert lines[-1] == "Run one: weft lab NAME; all of them: weft lab all"
    assert [item["name"] for item in json.loads(command("lab", "--json")[0])] == list(labs.LABS)


@pytest.mark.usefixtures("tiny")
def test_a_lab(command: Command, tmp_path: Path) -> None:
    printed, noise = command("lab", "scaling", "--seeds", "2", "--to", tmp_path / "out")
    lines = printed.splitlines()
    assert lines[0].startswith("scaling: Var(q·k) = d") and lines[1].startswith("Trains    Nothing")
    assert any(line.startswith("Takes     about") and line.endswith("on two cores, 2 seeds") for line in lines)
    assert any(line.startswith("Verdict   ") for line in lines) and any(line.startswith("Paper     ") for line in lines)
    assert lines[-1] == str(tmp_path / "out" / "scaling-gradient.png") and noise == ""
    assert len(list((tmp_path / "out").iterdir())) == 8


@pytest.mark.usefixtures("tiny")
def test_json_is_the_same_twice(command: Command) -> None:
    first, second = (command("lab", "scaling", "--json", "--quick", "--seeds", "1")[0] for _ in range(2))
    assert first == second
    result = LabResult.from_json(first)
    assert result.quick and result.seeds == (1,) and result.verdict.outcome == "inconclusive"


@pytest.mark.usefixtures("tiny")
def test_all_of_them_on_one_page(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.pictures.charts.picture.draw_chart", lambda chart, path: Path(path))
    printed, _ = command("lab", "all", "--seeds", "1", "--quick")
    assert printed.splitlines()[-1] == "labs/index.html" and "less than 20 s on two cores, 1 seed" in printed
    assert '<a href="#scaling">' in Path("labs/index.html").read_text("utf-8")
    records = json.loads(command("lab", "all", "--seeds", "1", "--json")[0])
    assert [record["lab"]["name"] for record in records] == ["scaling"]


def test_bad_arguments(refusal: Refusal, tmp_path: Path) -> None:
    assert refusal("lab", "scalin") == "scalin: no such lab; did you mean 'scaling'?"
    assert refusal("lab", "--quick") == "NAME: expected the name of a lab, or all; weft lab lists them"
    (tmp_path / "file").write_text("")
    expected = f"{tmp_path / 'file'}: is a file, expected a folder for the results"
    assert refusal("lab", "scaling", "--to", tmp_path / "file") == expected


def test_a_folder_that_cannot_be_made_is_refused_before_training(
    refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labs, "LABS", {"scaling": labs.scaling})
    monkeypatch.setattr("weft.apps.cli.commands.lab._run", lambda *_, **__: pytest.fail("it was trained"))
    (tmp_path / "file").write_text("")
    assert refusal("lab", "scaling", "--to", tmp_path / "file" / "out") == f"{tmp_path}/file/out: Not a directory"
