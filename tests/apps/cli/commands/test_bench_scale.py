"""``weft bench scale``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.apps.bench import scale
from weft.apps.bench.limits import Peaks

SMALL = [
    part
    for name, value in {"encoder.hidden": 8, "decoder.hidden": 8, "embedding": 8}.items()
    for part in ("--set", f"model.{name}={value}")
]
QUICK = ("bench", "scale", "addition", "--device", "cpu", "--minutes", "0.02", "--vary", "batch", *SMALL)
Command = Callable[..., Any]


@pytest.fixture(autouse=True)
def peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known: to measure them takes a second, and so does collecting the garbage of all tests."""
    monkeypatch.setattr(Peaks, "measure", lambda device, precision: Peaks(1e11, 1e10))
    monkeypatch.setattr(scale, "gc", SimpleNamespace(collect=lambda: None))


def test_a_real_run(command: Command, tmp_path: Path) -> None:
    said = command(*QUICK, "--at", "target_length=4", "--to", tmp_path / "out")
    lines = said.stdout.splitlines()
    assert lines[0].startswith("addition on CPU, ") and lines[0].endswith(" parameters")
    assert "target length 4, batch size 8, beam size 5" in " ".join(lines[1:3])
    for start in ("update, batch size", "encoder, batch size", "step, batch size"):
        assert len([line for line in lines if line.startswith(start)]) >= 2
    record = json.loads((tmp_path / "out" / "scale.json").read_text("utf-8"))
    assert lines[-1].startswith(str(tmp_path)) and record["base"]["target_length"] == 4
    assert all(curve["points"] and curve["size"] == "batch" for curve in record["curves"])


def test_refusals(refusal: Callable[..., str], tmp_path: Path) -> None:
    assert refusal(*QUICK, "--at", "beem=3") == "--at beem=3: unknown size 'beem'; did you mean 'beam'?"
    assert refusal(*QUICK, "--vary", "length").startswith("--vary length: unknown size 'length'; ")
    (tmp_path / "file").write_text("", "utf-8")
    assert "is a file, expected a folder" in refusal(*QUICK, "--to", tmp_path / "file")
