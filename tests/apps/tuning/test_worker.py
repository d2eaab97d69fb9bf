"""The jobs of a tuning run."""

import json
import math
import os
from pathlib import Path

import pytest

from weft.apps.tuning import worker
from weft.apps.tuning.job import TuningJob
from weft.apps.tuning.worker import measure, read_curve, train_to_rung
from weft.errors import TrainingError
from weft.recipe.toml import write_toml
from weft.training.train import train

SMALL = {"training.steps": 8, "training.validate_every": 2, "data.valid_size": 5}


@pytest.fixture
def arguments(tiny, tmp_path):
    """Of the jobs of one candidate."""
    (tmp_path / "recipe.toml").write_text(write_toml(tiny(SMALL)), "utf-8")
    return {"recipe": str(tmp_path / "recipe.toml"), "folder": str(tmp_path / "run"), "device": "cpu"}


def test_rungs_give_the_model_of_an_uninterrupted_training(arguments, tiny, tmp_path):
    first = train_to_rung({**arguments, "step": 4})
    assert (first["step"], first["finished"]) == (4, False)
    again = train_to_rung({**arguments, "step": 4})  # as after a kill before the result was written: nothing to train
    assert {**again, "training_seconds": 0} == {**first, "training_seconds": 0}
    last = train_to_rung({**arguments, "step": 8})
    assert (last["step"], last["finished"]) == (8, True)
    assert [step for step, _ in last["curve"]] == [2, 4, 6, 8] and last["curve"][:2] == first["curve"]
    for _ in train(tiny(SMALL), tmp_path / "straight"):
        pass
    for name in ("model.safetensors", "training/step-8/weights.safetensors", "training/step-8/optimizer.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
    assert read_curve(tmp_path / "straight" / "log.jsonl", "loss").items() <= last.items()


def test_a_measurement(arguments, monkeypatch):
    monkeypatch.setattr("weft.pairs.time_limit.speed.MIN_UPDATES", 4)
    speed = measure({**arguments, "seconds": 0.05})
    assert all(speed[name] > 0 for name in ("start", "step", "validation"))
    assert not Path(arguments["folder"]).exists()


def log_of(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def validation(step, loss, bleu, event="validation"):
    return {"event": event, "step": step, "loss": loss, "perplexity": math.exp(loss), "metrics": {"bleu": bleu}}


def test_the_curve_is_read_from_the_log(tmp_path):
    log = log_of(
        tmp_path / "log.jsonl",
        {"event": "started", "step": 0},
        {"event": "step", "step": 1, "loss": 9.0},
        validation(2, 3.0, 10.0),
        validation(4, 2.5, 12.0),
        validation(6, 2.0, 12.0),
        validation(8, 2.9, 11.0),
    )
    with log.open("ab") as file:
        file.write(b'{"event": "step", "step": \xff\n{"event": "vali')  # a bad byte, and a line that was cut
    curve = read_curve(log, "bleu")
    assert curve["curve"] == [(2, 10.0), (4, 12.0), (6, 12.0), (8, 11.0)]
    assert (curve["score"], curve["value"], curve["loss"], curve["best_step"]) == (12.0, 12.0, 2.0, 6)
    assert (curve["step"], curve["finished"]) == (8, False)
    by_loss = read_curve(log, "loss")
    assert (by_loss["score"], by_loss["value"], by_loss["best_step"]) == (-2.0, 2.0, 6)


def test_a_better_mean_of_checkpoints_counts_but_is_not_part_of_the_curve(tmp_path):
    log = log_of(
        tmp_path / "log.jsonl",
        validation(2, 3.0, 10.0),
        validation(2, 2.8, 10.5, event="averaged"),
        {"event": "finished", "step": 2},
    )
    curve = read_curve(log, "bleu")
    assert (curve["curve"], curve["value"], curve["finished"]) == ([(2, 10.0)], 10.5, True)


def test_a_loss_that_is_not_finite_counts_for_nothing(tmp_path):
    broken = {**validation(2, 1.0, 50.0), "loss": math.nan, "perplexity": math.nan}
    curve = read_curve(log_of(tmp_path / "log.jsonl", broken), "bleu")
    assert (curve["score"], curve["value"]) == (-math.inf, None)


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason", "out_of_memory"),
    [
        (MemoryError(), "not enough memory", True),
        (RuntimeError("DefaultCPUAllocator: can't allocate"), "not enough memory", True),
        (KeyError("x"), "KeyError: 'x'", False),
        (caused(TrainingError("step 3: not enough memory"), MemoryError()), "step 3: not enough memory", True),
    ],
)
def test_why_a_job_failed_is_its_result(tmp_path, monkeypatch, error, reason, out_of_memory):
    def fail(arguments):
        raise error

    monkeypatch.setitem(worker.ACTIONS, "train", fail)
    worker.run(TuningJob("train", "x", str(tmp_path / "x.json"), {}))
    outcome = json.loads((tmp_path / "x.json").read_text("utf-8"))
    assert (outcome["failed"], outcome["out_of_memory"]) == (reason, out_of_memory)


def test_an_error_of_weft_is_the_reason_in_one_line(arguments, tmp_path, tiny):
    (tmp_path / "recipe.toml").write_text(write_toml(tiny({**SMALL, "data.train": "no.tsv"})), "utf-8")
    worker.run(TuningJob("train", "x", str(tmp_path / "x.json"), {**arguments, "step": 2}))
    outcome = json.loads((tmp_path / "x.json").read_text("utf-8"))
    assert (
        outcome["error"] == "DataError" and "no such file" in outcome["failed"] and os.linesep not in outcome["failed"]
    )
