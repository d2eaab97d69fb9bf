"""``weft bench scale``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.costs import make_scale
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
    assert refusal(*QUICK, "--gpus", "2,x").startswith("--gpus 2,x: expected numbers of GPUs")
    assert refusal(*QUICK, "--gpus", "2", "--interconnect", "nvlin").endswith(
        "did you mean 'nvlink'?; or a rate in GB/s, such as 25"
    )
    message = refusal("bench", "scale", "addition", "--vary", "beam", "--gpus", "2")
    assert message == "--gpus: predicts from updates of several batch sizes; add --vary batch"
    (tmp_path / "file").write_text("", "utf-8")
    assert "is a file, expected a folder" in refusal(*QUICK, "--to", tmp_path / "file")


def test_several_gpus(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "measure_scale", lambda *_, **__: make_scale())
    given = (*QUICK, "--gpus", "2,8", "--interconnect", "infiniband")
    lines = command(*given).stdout.splitlines()
    start = lines.index("Several GPUs, predicted")
    assert [line.split()[0] for line in lines[start + 1 :] if line[:1].isdigit()][:3] == ["1", "2", "8"]
    values = json.loads(command(*given, "--json").stdout)
    assert [speed["gpus"] for speed in values["cluster"]["predictions"]["data parallel"]] == [1, 2, 8]
    assert values["cluster"]["interconnect"]["name"] == "infiniband" and values["recipe"] == "example"
