"""docs/tuning.md: its code runs as it stands, on a smaller recipe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.tuning_runners import InventedRunner
from weft.recipe.toml import write_toml

PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"
BY_EVENTS, BY_HAND = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)


def test_tuning_by_hand(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = tiny(
        {"training.steps": 6, "training.validate_every": 2, "data.valid_size": 5, "evaluation.metrics": ["bleu"]}
    )
    Path("small.toml").write_text(write_toml(small), "utf-8")
    code = BY_HAND.replace('"grammar"', '"small.toml"').replace("(400, 800, 2000)", "(2, 4, 6)").replace("=192", "=24")
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert len(names["losses"]) == 4 and len(names["recipes"]) == 3
    steps = {
        name: max(int(path.name[5:]) for path in Path("runs/by-hand", name, "training").glob("step-*"))
        for name in names["losses"]
    }
    assert sorted(steps.values()) == [2, 6, 6, 6]
    assert steps[max(names["losses"], key=lambda name: (steps[name] == 2, names["losses"][name]))] == 2


def test_it_is_about_ten_lines() -> None:
    _, loop = BY_HAND.split("losses = {}\n")
    assert len(loop.strip().splitlines()) <= 10


def test_tuning_by_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "weft.apps.tuning.tune._process_runner", lambda *options: InventedRunner(lambda name, step: 1.0)
    )
    exec(compile(BY_EVENTS, str(PAGE), "exec"), {})
    assert "CandidateResult(name='recipe'" in capsys.readouterr().out
