"""Speed and size."""

from __future__ import annotations

import pytest

from weft.apps.reporting.speed import duration, speed_section
from weft.runs.training_log import LoggedStep, TrainingLog


def test_throughput_of_the_logged_updates() -> None:
    steps = [LoggedStep(1, 1.0, 0.1, 300, 0.5, 0.1), LoggedStep(2, 1.0, 0.1, 100, 1.5, 0.1)]
    log = TrainingLog(steps, [], {"device": "cpu"}, {"step": 100, "seconds": 50})
    section = speed_section("runs/a b", 1000, 4_000_000, log)
    assert section.target_tokens_per_second == 200 and section.data_wait == pytest.approx(0.1)
    shown = section.html()
    assert (
        "100 steps in 50 s, 2.0 steps/s" in shown and "4.0 MB" in shown and "weft bench translate 'runs/a b'" in shown
    )


def test_a_run_without_a_log() -> None:
    section = speed_section("x", 5, None, None)
    assert section.record() == {**dict.fromkeys(section.record()), "parameters": 5}
    assert "steps" not in section.html()


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.4, 59, 725, 12_000)] == ["0 s", "59 s", "12 min 5 s", "3 h 20 min"]
