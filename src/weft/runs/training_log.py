"""Reading log.jsonl: the learning curves of a run, and how its training ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from weft.runs.weights import STRUCTURAL

MAX_LINE = 1 << 20
"""Characters of a line; a longer one is not an event."""


class LoggedStep(NamedTuple):
    """An update that was logged."""

    step: int
    loss: float
    learning_rate: float
    target_tokens: float
    seconds: float
    data_wait: float


class LoggedValidation(NamedTuple):
    """A validation: the loss, and the metrics by name; those of a structural holdout have separate names."""

    step: int
    loss: float
    metrics: dict[str, float]


class LoggedDiagnosis(NamedTuple):
    """A problem of a run, and its remedy."""

    step: int
    kind: str
    message: str


class TrainingLog(NamedTuple):
    """The content of a run's log."""

    steps: list[LoggedStep]
    validations: list[LoggedValidation]
    started: dict[str, Any] | None = None
    """The first event: pairs, vocabulary sizes, parameters, device."""
    finished: dict[str, Any] | None = None
    """The last event: why training ended, its seconds, the best step. None: it has not ended."""
    diagnoses: tuple[LoggedDiagnosis, ...] = ()
    """The last of each kind."""

    @property
    def metric_names(self) -> list[str]:
        """The metrics of the validations, in the order in which they first occur."""
        return list(dict.fromkeys(name for validation in self.validations for name in validation.metrics))

    @property
    def best_step(self) -> int | None:
        """The step that validation has chosen; None without validations, and before training has ended."""
        best = None if self.finished is None else self.finished.get("best_step")
        return best if isinstance(best, int) and self.validations else None


def read_training_log(path: Path) -> TrainingLog | None:
    """The events of a log; None if there is no such file. Lines that are incomplete or damaged are passed over."""
    if not path.is_file():
        return None
    steps: list[LoggedStep] = []
    validations: list[LoggedValidation] = []
    diagnoses: dict[str, LoggedDiagnosis] = {}
    started = finished = None
    for event in read_events(path):
        kind = event.get("event")
        try:
            if kind == "step":
                steps.append(_step(event))
            elif kind == "validation":
                numbers = {str(name): float(value) for name, value in event["metrics"].items()}
                structural = event.get("structural", {})  # logs of earlier versions have none
                numbers |= {f"{STRUCTURAL}{name}": float(structural[name]) for name in numbers if name in structural}
                validations.append(LoggedValidation(int(event["step"]), float(event["loss"]), numbers))
            elif kind == "diagnosis":
                finding = LoggedDiagnosis(int(event["step"]), str(event["kind"]), str(event["message"]))
                diagnoses[finding.kind] = finding
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue
        started = event if kind == "started" and started is None else started
        finished = event if kind == "finished" else finished if kind != "started" else None
    return TrainingLog(steps, validations, started, finished, tuple(diagnoses.values()))


def _step(event: dict[str, Any]) -> LoggedStep:
    return LoggedStep(int(event["step"]), *(float(event[name]) for name in LoggedStep._fields[1:]))


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a log; lines that are incomplete or damaged are passed over."""
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                yield event
