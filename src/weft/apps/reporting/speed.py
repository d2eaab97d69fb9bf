"""The speed of training, from the log, and the size of the model."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from weft.apps.reporting.section import note
from weft.pictures.html.elements import Html, element, join, terms
from weft.runs.training_log import TrainingLog


@dataclass(frozen=True)
class SpeedSection:
    """The cost of training, from the log. Nothing is measured now: a run always gives the same report."""

    run: str
    parameters: int
    bytes: int | None
    """Size of model.safetensors."""
    device: str | None
    steps: int | None
    seconds: float | None
    """Seconds of the whole training, over all resumptions."""
    target_tokens_per_second: float | None
    """Throughput over the logged updates."""
    data_wait: float | None
    """The fraction of these updates spent waiting for a batch."""
    key: str = "speed"
    title: str = "Speed and size"

    def record(self) -> dict[str, Any]:
        names = ("parameters", "bytes", "device", "steps", "seconds", "target_tokens_per_second", "data_wait")
        return {name: getattr(self, name) for name in names}

    def html(self) -> Html:
        rows = [("parameters", f"{self.parameters:,}")]
        if self.bytes is not None:
            rows.append(("model.safetensors", f"{self.bytes / 1e6:,.1f} MB"))
        if self.device is not None:
            rows.append(("trained on", self.device))
        if self.steps is not None and self.seconds:
            text = f"{self.steps:,} steps in {duration(self.seconds)}, {self.steps / self.seconds:,.1f} steps/s"
            rows.append(("training", text))
        if self.target_tokens_per_second is not None:
            rows.append(("throughput", f"{self.target_tokens_per_second:,.0f} target tokens/s"))
        if self.data_wait is not None:
            rows.append(("waiting for data", f"{100 * self.data_wait:.1f} % of an update"))
        command = element("code", f"weft bench translate {shlex.quote(self.run)}")
        return join([terms(rows), note("To measure throughput and latency of translation: ", command)])


def speed_section(run: str, parameters: int, size: int | None, log: TrainingLog | None) -> SpeedSection:
    """Speed and size of a run; ``size``: bytes of the weights file."""
    started = {} if log is None or log.started is None else log.started
    finished = {} if log is None or log.finished is None else log.finished
    steps, seconds, device = finished.get("step"), finished.get("seconds"), started.get("device")
    updates = [] if log is None else log.steps
    duration = sum(update.seconds for update in updates)
    return SpeedSection(
        run,
        parameters,
        size,
        device if isinstance(device, str) else None,
        steps if isinstance(steps, int) else None,
        float(seconds) if isinstance(seconds, int | float) else None,
        sum(update.target_tokens for update in updates) / duration if duration > 0 else None,
        sum(update.data_wait for update in updates) / duration if duration > 0 else None,
    )


def duration(seconds: float) -> str:
    """59 s, 12 min 5 s, 3 h 20 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
