"""Reading the log of a run."""

from __future__ import annotations

import json
from pathlib import Path

from weft.runs.training_log import read_training_log

STEP = {"event": "step", "loss": 2.5, "learning_rate": 0.1, "target_tokens": 50, "seconds": 0.5, "data_wait": 0.1}
VALIDATION = {"event": "validation", "step": 20, "loss": 1.5, "metrics": {"bleu": 31.5}}
FINISHED = {"event": "finished", "step": 20, "seconds": 9.5, "best_step": 20}


def write(path: Path, *lines: object) -> Path:
    log = path / "log.jsonl"
    log.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return log


def test_curves_and_the_end(tmp_path: Path) -> None:
    started = {"event": "started", "step": 0, "pairs": 7, "device": "cpu"}
    log = read_training_log(
        write(tmp_path, started, {**STEP, "step": 10}, {**STEP, "step": 20, "loss": 2}, VALIDATION, FINISHED)
    )
    assert log is not None and log.started == started and log.finished == FINISHED
    assert [(step.step, step.loss) for step in log.steps] == [(10, 2.5), (20, 2.0)]
    assert log.validations == [(20, 1.5, {"bleu": 31.5})] and log.metric_names == ["bleu"] and log.best_step == 20


def test_damaged_lines_are_passed_over(tmp_path: Path) -> None:
    damaged = ['{"event": "step", "step"', "[]", '"text"', {**STEP, "step": None}, {**VALIDATION, "metrics": 3}, "\xff"]
    log = read_training_log(write(tmp_path, *damaged, {**STEP, "step": 10, "loss": float("nan")}))
    assert log is not None and len(log.steps) == 1 and not log.validations
    assert log.started is None and log.finished is None and log.best_step is None


def test_a_run_that_was_resumed_has_not_ended(tmp_path: Path) -> None:
    again = {"event": "started", "step": 20}
    log = read_training_log(write(tmp_path, {"event": "started", "step": 0}, FINISHED, again, {**STEP, "step": 30}))
    assert log is not None and log.finished is None and log.started == {"event": "started", "step": 0}


def test_no_log(tmp_path: Path) -> None:
    assert read_training_log(tmp_path / "log.jsonl") is None


def test_diagnoses(tmp_path: Path) -> None:
    """The last of each kind: a run that is resumed may give one again."""
    diagnosis = {"event": "diagnosis", "step": 10, "kind": "overfits", "message": "overfits: …"}
    other = {**diagnosis, "kind": "diverges", "message": "diverges: …"}
    damaged = {"event": "diagnosis", "step": "x", "kind": "too short", "message": ""}
    log = read_training_log(write(tmp_path, diagnosis, other, damaged, {**diagnosis, "step": 30}))
    assert log is not None
    assert log.diagnoses == ((30, "overfits", "overfits: …"), (10, "diverges", "diverges: …"))
