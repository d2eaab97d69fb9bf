"""Tables, charts, text and JSON of a made-up result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from weft.apps.bench import report
from weft.apps.bench.records import record
from weft.apps.bench.scale import Scale
from weft.apps.bench.sweep import LENGTH, Stop, SweepResult


def test_tables(scale: Scale) -> None:
    time, memory, share = report.tables(scale)
    assert time.rows == [
        ("update, batch size", "1–64", "12–138", "10", "1.00 [1.00, 1.00]"),
        ("step, batch size", "1–2", "4–5", None, "too few sizes: 2"),
    ]
    [row] = memory.rows  # that of the steps is not known
    assert row[:3] == ("update, batch size", "1–64", "110–740") and 985 < int(str(row[4])) < 995
    assert [row[1] for row in share.rows] == ["64", "2"]
    assert [row[-1] for row in share.rows] == [None, "bandwidth"]
    assert share.rows[0][2:4] == ("46.4", "46%") and share.rows[1][4:6] == ("6", "60%")


def test_where_memory_ends(scale: Scale) -> None:
    updates, steps = scale.curves
    assert updates.memory_limit is not None and abs(updates.memory_limit - 990) < 5 and not updates.ran_out_of_memory
    assert steps.memory_limit == 4 and steps.ran_out_of_memory  # measured, not computed
    assert replace(updates, available_memory=10**15).memory_limit is None  # too far away to be told
    assert replace(updates, available_memory=None).memory_limit is None


def test_charts(scale: Scale) -> None:
    time, memory = report.charts(scale)
    assert (time.name, memory.name) == ("time-batch", "memory-batch") and time.log_x and time.log_y
    assert time.title == "Time by batch size: training update n^1.00, search step without a clear exponent"
    assert [series.name for series in time.series] == [
        "training update",
        "training update, at peak",
        "search step",
        "search step, at peak",
    ]
    fastest = [float(str(value)) for _, value in time.series[1].points]
    assert fastest[0] == pytest.approx(1.0) and fastest[-1] == pytest.approx(
        64.0
    )  # ms: 10⁸ operations at 10¹¹ a second
    assert memory.references == (("available", 10_000.0),) and len(memory.series) == 1
    assert report.charts(replace(scale, available_memory=10**13))[1].references == ()


def test_text(scale: Scale) -> None:
    text = report.text(scale, 80)
    lines = text.splitlines()
    assert lines[0] == "example on CPU, 2 threads, fp32, 1,234,567 parameters" and max(map(len, lines)) <= 80
    joined = " ".join(text.split())
    for part in (
        "Share of peak, at the largest size",
        "resident memory of the process",
        "100 GFLOP/s in fp32, 10 GB/s",
    ):
        assert part in joined
    assert "step, batch size: the model has no memory for 4 sentences." in joined
    assert "More sizes need more time (--minutes): step, batch size." in joined
    assert report.text(scale, 80, ascii_only=True).isascii() and "\x1b[" in report.text(scale, 80, color=True)
    assert "memory of tensors on the GPU" in " ".join(report.text(replace(scale, device="H200")).split())


def test_a_model_without_positions(scale: Scale) -> None:
    [updates, _] = scale.curves
    measured = SweepResult(updates.points, Stop(128, LENGTH))
    notes = report.notes(replace(scale, curves=(replace(updates, measured=measured),)))
    assert notes[-1] == "update, batch size: the model has no positions for 128 sentences."


def test_files(scale: Scale, tmp_path: Path) -> None:
    paths = report.save(scale, tmp_path / "new")
    names = ["scale.json", "time-batch.svg", "time-batch.png", "memory-batch.svg", "memory-batch.png"]
    assert [path.name for path in paths] == names and all(path.stat().st_size for path in paths)
    assert json.loads(paths[0].read_text("utf-8")) == json.loads(json.dumps(record(scale)))
