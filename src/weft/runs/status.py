"""The status of a run folder, from a few small reads: for a list of runs. Imports no torch.

A damaged folder has a status too, whose `problem` says what is wrong.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from weft.errors import WeftError
from weft.recipe.files import read_tree
from weft.runs.layout import RunFolder
from weft.runs.locks import lock_owner
from weft.runs.weights import WeightsOrigin, read_metadata, read_shapes

LOG_TAIL = 1 << 16
"""Bytes at the end of log.jsonl that are read."""
EXPORT_INFO = "weft.json"
"""A file of every folder that `weft export` wrote."""
TUNING = "tuning.json"
"""A file of the folder of a tuning run; the runs of its candidates are in runs/."""
State = Literal["training", "finished", "stopped", "imported", "damaged"]
"""imported: made by `weft import` or `weft pull`, so that the folder has neither checkpoints nor a log."""


class RunStatus(NamedTuple):
    """One run."""

    path: Path
    state: State
    recipe: str | None = None
    parameters: int | None = None
    step: int | None = None
    """The last step: logged by a run that is training, else saved."""
    steps: int | None = None
    """Steps of the whole training."""
    metric: str | None = None
    """The kind of `score`: perplexity, or the metric that training chose the weights by; loss if neither."""
    score: float | None = None
    """Score of model.safetensors on the validation set."""
    modified: float = 0.0
    """When the run was last written to, in seconds since 1970."""
    process: str | None = None
    """The process and machine of a run that is training."""
    problem: str | None = None
    """The problem of a damaged folder."""

    @classmethod
    def read(cls, path: Path) -> RunStatus:
        """The status of a run folder; never fails because of what is in it."""
        modified = _modified(path)
        try:
            return _read(path)._replace(modified=modified)
        except (WeftError, OSError) as error:
            reason = " ".join(str(error).split()).removeprefix(f"{path}{os.sep}").removeprefix(f"{path}: ")
            return cls(path, "damaged", modified=modified, problem=reason)

    def describe_state(self, *, short: bool = False) -> str:
        """training, step 300 of 1000; finished; stopped at step 300; imported; damaged. Short: training at 300; …"""
        if self.state not in ("training", "stopped") or self.step is None:
            return self.state
        if short:
            return f"{self.state} at {self.step}"
        where = f", step {self.step} of {self.steps}" if self.state == "training" else f" at step {self.step}"
        return f"{self.state}{where}"

    def record(self) -> dict[str, Any]:
        """For ``--json``."""
        score = self.score if self.score is None or math.isfinite(self.score) else None
        modified = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.modified))
        return {**self._asdict(), "path": str(self.path), "score": score, "modified": modified}


def find_runs(folder: Path) -> Iterator[RunStatus]:
    """The status of every run in a folder or, of a tuning run, of its candidates; or of a run. The newest first."""
    folder = folder / "runs" if (folder / TUNING).is_file() and (folder / "runs").is_dir() else folder
    candidates = [folder] if _is_run(folder) else [path for path in folder.iterdir() if _is_run(path)]
    yield from sorted(map(RunStatus.read, candidates), key=lambda status: (-status.modified, status.path))


def _is_run(path: Path) -> bool:
    """Whether a folder is a run, perhaps a damaged one; an export is none."""
    run = RunFolder(path)
    if path.name.endswith(".part") or (path / EXPORT_INFO).exists():
        return False
    return any(item.exists() for item in (run.recipe, run.model, run.log))


def _read(path: Path) -> RunStatus:
    run = RunFolder(path).check()
    tree = read_tree(run.recipe)
    training = tree.get("training")
    settings = training if isinstance(training, dict) else {}
    origin = WeightsOrigin.from_metadata(read_metadata(_trained_file(run, settings)))
    validation = (origin.validation if origin is not None else None) or {}
    chosen = str(settings.get("metric"))
    choices = (*([] if chosen == "loss" else [chosen]), "perplexity", "loss")
    metric = next((name for name in choices if name in validation), None)
    owner = lock_owner(path)
    events = list(_last_events(run.log))
    trained_here = run.log.exists() or any(run.training.glob("step-*"))
    step = run.newest_step() if trained_here else None
    state: State = "stopped" if trained_here else "imported"
    if owner is not None and step is not None:
        state, step = "training", max([step, *(event["step"] for event in events)])
    elif events and events[-1].get("event") == "finished":
        state = "finished"
    return RunStatus(
        path,
        state,
        recipe=str(tree["name"]),
        parameters=sum(math.prod(shape) for shape in read_shapes(run.model).values()),
        step=step,
        steps=settings["steps"] if type(settings.get("steps")) is int else None,
        metric=metric,
        score=None if metric is None else validation[metric],
        process=f"{owner.pid} on {owner.host}" if owner is not None and owner.pid else None,
    )


def _trained_file(run: RunFolder, settings: dict[str, Any]) -> Path:
    """The file with the weights that a run has trained: those of the model, or of its adapter (adapters.py)."""
    lora = settings.get("lora")
    if not isinstance(lora, dict) or not lora.get("rank"):
        return run.model
    return run.path / "adapters" / str(lora.get("name", "default")) / "adapter_model.safetensors"


def _last_events(log: Path) -> Iterator[dict[str, Any]]:
    """The last events of a log, as far as they can be read."""
    if not log.is_file():
        return
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - LOG_TAIL, 0))
        lines = file.read(LOG_TAIL).splitlines()
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # a line that was cut, or is damaged
            continue
        if isinstance(event, dict) and type(event.get("step")) is int:
            yield event


def _modified(path: Path) -> float:
    run = RunFolder(path)
    times = [0.0]
    for file in (run.log, run.model, run.recipe):
        try:
            times.append(file.stat().st_mtime)
        except OSError:
            continue
    return max(times)
