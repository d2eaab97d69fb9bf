"""What ``weft train`` ends with."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.apps.cli.commands.train import outcome_lines
from weft.errors import CheckpointError
from weft.pairs import outcome

Command = Callable[..., tuple[str, str]]
QUICKLY = ("data.train_size=30", "data.valid_size=3", "data.test_size=7", "training.device=cpu", "training.steps=2")
CHANGES = [part for change in QUICKLY for part in ("--set", change)]


@pytest.fixture
def run(command: Command, tmp_path: Path) -> Path:
    out = tmp_path / "my run"
    assert command("train", "addition", *CHANGES, "--out", out)[0] == f"{out}\n", "a plain recipe is not evaluated"
    return out


def test_the_scores_and_the_commands_that_come_next(command: Command, run: Path) -> None:
    lines = command("train", run, "--resume", "--evaluate")[0].splitlines()
    assert lines[0].startswith("Test set: 7 items") and "95 % interval" in lines[1]
    assert "Wrong: 7 of 7 outputs; [differences] are marked" in lines
    assert lines[-1] == str(run)
    [use] = [line.removeprefix("Use it:") for line in lines if line.startswith("Use it:")]
    words = shlex.split(use)
    assert words[0] == "echo" and words[2:] == ["|", "weft", "translate", str(run)]
    assert any(line.startswith("Settings:") and line.endswith("which trains the same model again") for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_a_run_that_cannot_be_evaluated(command: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> list[str]:
        raise CheckpointError("training diverged")

    monkeypatch.setattr(outcome, "evaluate_run", refuse)
    text, noise = command("train", run, "--resume", "--evaluate")
    assert text == f"{run}\n" and "weft: not evaluated: training diverged\n" in noise


def test_interrupted(command: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(outcome, "evaluate_run", interrupt)
    _, noise = command("train", run, "--resume", "--evaluate", check=130)
    assert noise.endswith(f"weft: evaluation interrupted; the run is complete: weft evaluate {shlex.quote(str(run))}\n")


def test_refused_with_several_workers(refusal: Callable[..., str]) -> None:
    assert refusal("train", "addition", "--evaluate", "--workers", "2") == (
        "--evaluate: several workers do not evaluate; use weft evaluate RUN after training"
    )


def test_of_a_language_model(runs: Callable[[str], Path]) -> None:
    lines = outcome_lines(outcome.evaluate_run(runs("language"), device="cpu"))
    assert lines[1].split()[0] == "perplexity" and f"Use it:    weft sample {runs('language')}" in lines
