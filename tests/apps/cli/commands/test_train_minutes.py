"""``weft train --minutes``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from weft.apps.cli.commands.train import _report_interruption
from weft.pairs.request import TrainingRequest
from weft.pairs.source import find_pairs
from weft.pairs.time_limit import fitting
from weft.pairs.time_limit.budget import Speed

QUICKLY = ("data.train_size=30", "data.valid_size=3", "training.device=cpu", "training.metric=loss")
CHANGES = [part for change in QUICKLY for part in ("--set", change)]


def test_fitted(command: Callable[..., tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "measure", lambda *_, **__: Speed(step=250.0))
    out = tmp_path / "run"
    text, noise = command("train", "addition", "--minutes", "100", *CHANGES, "--out", out)
    assert text.endswith(f"{out}\n")
    [line] = [line for line in noise.splitlines() if line.startswith("fits into")]
    assert "20 of the recipe's 3,000 steps" in line and "(250.0 s each on " in line and "CPU core" in line
    assert line.endswith("; about 1 h 20 min") and "finished at step 20" in noise


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["addition", "--minutes", "0"], "--minutes 0: expected a number above 0, at most 1,000,000"),
        (["addition", "--minutes", "nan"], "--minutes nan: expected a number above 0, at most 1,000,000"),
        (["addition", "--minutes", "1e9"], "--minutes 1000000000: expected a number above 0, at most 1,000,000"),
        (["addition", "--minutes", "1000001"], "--minutes 1000001: expected a number above 0, at most 1,000,000"),
        (
            ["x", "--minutes", "1", "--resume"],
            "--minutes: a resumed run keeps its number of steps; leave --minutes out",
        ),
        (
            ["addition", "--minutes", "1", "--workers", "2"],
            "--minutes: the speed of several workers is not measured; use one, or training.steps",
        ),
    ],
)
def test_refused(refusal: Callable[..., str], arguments: list[str], message: str) -> None:
    assert refusal("train", *arguments) == message


def test_where_an_interrupted_race_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "run"
    pairs.write_text("".join(f"w{n}\t{n}\n" for n in range(50)))
    source = find_pairs(str(pairs), None, None, None)
    request = TrainingRequest("", [], out, None, False, 5.0, None, source).with_recommendation()

    def line() -> str:
        _report_interruption(request, "")
        return capsys.readouterr().err

    assert line() == "weft: interrupted before training began\n"
    (tmp_path / "run.race").mkdir()
    (tmp_path / "run.race/race.json").write_text("{}")
    assert line() == "weft: interrupted in the race; repeat the command to continue it\n"
    out.mkdir()
    for name in ("recipe.toml", "metrics.json"):
        (out / name).touch()
    assert line() == f"weft: interrupted while training further models; the run is complete: {out}\n"
