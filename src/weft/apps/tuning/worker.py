"""The process of one job of a tuning run: measure a candidate, train it to a rung, or compare the best ones.

``python -m weft.apps.tuning.worker JOB``, where JOB is the JSON of a `TuningJob`. The result is a JSON file, written in
one piece; a job that fails writes the reason. A signal, or the end of the parent process, saves a checkpoint first.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.apps.tuning.job import TuningJob
from weft.errors import WeftError, is_out_of_memory
from weft.files import read_json, save_text
from weft.pairs.halving import better, is_finite
from weft.recipe import Recipe, load_recipe
from weft.runs.locks import lock_owner
from weft.runs.training_log import read_events
from weft.runtime.processes import PARENT_SECONDS, when_parent_ends

if TYPE_CHECKING:
    from weft.runs.layout import RunFolder

STARTED = time.monotonic()
LOCK_SECONDS = 60.0
"""Time to wait for a worker of a killed parent, which is saving its checkpoint."""


def measure(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds before the first step, per step and per validation; ``seconds``: the duration of the measurement."""
    from weft.data.preparation import check_files, prepare
    from weft.pairs.time_limit import speed
    from weft.runs.layout import RunFolder
    from weft.runtime.devices import choose_device
    from weft.training.train import build_initial_model
    from weft.training.update import TrainingContext
    from weft.training.validation import RecipeValidation, read_validation_pairs

    recipe = _recipe(arguments)
    training = recipe.training.model_copy(update={"validate_every": max(recipe.training.validate_every, 1)})
    recipe = recipe.model_copy(update={"training": training})
    device = choose_device(training.device)
    check_files(recipe)
    pairs = read_validation_pairs(recipe, Counter())
    assert pairs is not None
    start = () if training.start is None else RunFolder(training.start).tokenizer_paths()
    prepared = prepare(recipe, start=start)
    model = build_initial_model(recipe, prepared.tokenizers, device)
    validation = RecipeValidation(recipe, pairs, prepared, device)
    ready = time.monotonic()
    run = speed.MeasuredRun(model, prepared.data, TrainingContext(training, recipe.seed, device), validation)
    translates = training.metric != "loss"
    measured = speed.measure(run, seconds=arguments["seconds"], translates=translates)
    return {
        "start": ready - STARTED + measured.startup,
        "step": measured.step,
        "validation": measured.validation(validation.searched),
    }


def train_to_rung(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Train a candidate to a step, from its checkpoint if there is one; its validations so far."""
    from weft.runs.layout import RunFolder
    from weft.runs.weights import read_shapes
    from weft.training.events import Finished, Started, Validation
    from weft.training.train import train

    recipe, step = _recipe(arguments), int(arguments["step"])
    folder = RunFolder(Path(arguments["folder"]))
    _wait_for_lock(folder.path)
    resume = folder.recipe.is_file()
    is_last = step >= recipe.training.steps
    if not resume or is_last or _validated_step(folder) < step:
        events = train(recipe, folder.path, resume=resume)
        with closing(events):
            for event in events:
                if isinstance(event, Started):
                    print(f"{time.strftime('%H:%M:%S')} from step {event.step} to {step}", file=sys.stderr)
                if isinstance(event, Finished) or (
                    isinstance(event, Validation) and event.step >= step and not is_last
                ):
                    break
    return {
        **read_curve(folder.log, recipe.training.metric),
        "parameters": sum(prod(shape) for shape in read_shapes(folder.model).values()),
        "training_seconds": _state(folder)["seconds"],
    }


def _validated_step(folder: RunFolder) -> int:
    """The last step whose checkpoint is saved and validated: where a rung has ended before a kill."""
    state = _state(folder)
    return min(int(state.get("step") or 0), int(state.get("validated_step") or 0))


def _state(folder: RunFolder) -> dict[str, Any]:
    """The training state in the newest checkpoint."""
    return dict(read_json(folder.checkpoint_path(folder.newest_step()) / "state.json"))


def read_curve(log: Path, metric: str) -> dict[str, Any]:
    """The validations of a run from its log: the curve, the best score, and whether training has ended.

    The score is higher for better candidates; minus infinity without a validation of finite loss.
    """
    sign = 1.0 if better(metric) == "higher" else -1.0
    curve: list[tuple[int, float]] = []
    best: dict[str, Any] = {"score": -float("inf"), "loss": float("inf"), "value": None, "best_step": None}
    step, finished = 0, False
    for record in read_events(log):
        step = max(step, int(record["step"]))
        finished = record["event"] == "finished" or (finished and record["event"] != "started")
        if record["event"] not in ("validation", "averaged"):
            continue
        loss = float(record["loss"])
        value = loss if metric == "loss" else float(record["metrics"][metric])
        if record["event"] == "validation":
            curve.append((step, value))
        if is_finite(record["loss"], record["perplexity"]) and (sign * value, -loss) > (best["score"], -best["loss"]):
            best = {"score": sign * value, "loss": loss, "value": value, "best_step": step}
    return {"step": step, "finished": finished, "curve": curve, **best}


def _recipe(arguments: Mapping[str, Any]) -> Recipe:
    """The recipe of a candidate, for the device of this job."""
    recipe = load_recipe(Path(arguments["recipe"]))
    training = recipe.training.model_copy(update={"device": arguments["device"]})
    return recipe.model_copy(update={"training": training})


def _wait_for_lock(folder: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while lock_owner(folder) is not None and time.monotonic() < deadline:
        time.sleep(PARENT_SECONDS)


def compare_best(arguments: Mapping[str, Any]) -> dict[str, Any]:
    from weft.apps.tuning.ensemble import compare_best

    return compare_best(arguments)


ACTIONS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "measure": measure,
    "train": train_to_rung,
    "compare": compare_best,
}


def run(job: TuningJob) -> None:
    """Do a job and write its result, or why it failed."""
    try:
        result = ACTIONS[job.action](job.arguments)
    except WeftError as error:
        result = {"failed": " ".join(str(error).split()), "error": type(error).__name__}
        result |= {"out_of_memory": True} if is_out_of_memory(error) else {}
    except Exception as error:  # a bug, or no memory: the other candidates continue
        result = {"failed": _reason(error), "out_of_memory": is_out_of_memory(error)}
        if not result["out_of_memory"]:
            import traceback

            traceback.print_exc()
    save_text(Path(job.result), json.dumps({**result, "seconds": time.monotonic() - STARTED}, indent=1) + "\n")


def _reason(error: Exception) -> str:
    if is_out_of_memory(error):
        return "not enough memory"
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    when_parent_ends(int(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGTERM))  # with a checkpoint
    run(TuningJob.from_json(sys.argv[1]))
