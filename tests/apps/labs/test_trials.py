"""Trials: in order, in workers or not, and which of them failed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from weft.apps.labs import trials
from weft.apps.labs.scaling import Condition as Width
from weft.apps.labs.scaling import trial as scaling_trial
from weft.apps.labs.trials import run_trials
from weft.errors import DataError, RecipeError, TrainingError
from weft.evaluation.statistics import t_interval
from weft.runtime.activity import Activity, observing


class Size(NamedTuple):
    width: int
    kind: str = "a"


def product(condition: Size, seed: int) -> dict[str, Any]:
    return {"product": condition.width * seed, "threads": torch.get_num_threads()}


def failing(condition: str, seed: int) -> dict[str, Any]:
    raise {"user": DataError("pairs.tsv: no such file"), "bug": KeyError("x")}[condition]


@pytest.mark.usefixtures("in_process")
def test_conditions_and_seeds() -> None:
    seen: list[Any] = []
    run = run_trials(product, [Size(2), Size(5)], 3, on_result=lambda *arguments: seen.append(arguments[:2]))
    assert run.values(Size(5), "product") == [5, 10, 15] and run.estimate(Size(2), "product") == t_interval([2, 4, 6])
    assert run.curves([Size(2), Size(5)], "product") == [[2, 5], [4, 10], [6, 15]]
    assert run.seeds == (1, 2, 3) and run.values(Size(2), "threads") == [1, 1, 1]
    assert seen == [(Size(width), seed) for width in (2, 5) for seed in (1, 2, 3)]
    assert run.records()[0] == {"condition": {"width": 2, "kind": "a"}, "seed": 1, "product": 2, "threads": 1}
    assert run_trials(product, [Size(3)], [7]).values(Size(3), "product") == [21]
    assert trials.plain((1, [Size(2)], "x")) == [1, [{"width": 2, "kind": "a"}], "x"]


@pytest.mark.usefixtures("in_process")
def test_progress_is_counted() -> None:
    class Observer:
        def __init__(self) -> None:
            self.ended: list[Activity] = []

        def begin(self, activity: Activity) -> None:
            assert (activity.done, activity.total, activity.unit) == (0, 4, "trainings")

        def end(self, activity: Activity) -> None:
            self.ended.append(activity)

    observer = Observer()
    with observing(observer):
        run_trials(product, [Size(2), Size(5)], 2)
    assert [activity.done for activity in observer.ended] == [4]


@pytest.mark.usefixtures("in_process")
def test_a_failing_trial_is_named() -> None:
    with pytest.raises(TrainingError, match=r"^user, seed 2: pairs.tsv: no such file$"):
        run_trials(failing, ["user"], [2])
    with pytest.raises(KeyError) as caught:
        run_trials(failing, ["bug"], [3])
    assert caught.value.__notes__ == ["in a trial: bug, seed 3"]


@pytest.mark.parametrize("seeds", [0, [], [1, 1], [-1]])
def test_seeds_that_are_none(seeds: Any) -> None:
    with pytest.raises(RecipeError, match="expected at least one seed, all of them different"):
        run_trials(product, [Size(2)], seeds)


def test_workers_give_the_same_and_leave_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    conditions = [Width(4, 8, False), Width(7, 8, False)]
    monkeypatch.setattr(trials, "worker_count", lambda: 1)
    first = run_trials(scaling_trial, conditions, 2)
    monkeypatch.setattr(trials, "worker_count", lambda: 0)
    assert run_trials(scaling_trial, conditions, 2).records() == first.records()
    assert not list(tmp_path.glob("weft*"))


def test_as_many_workers_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "core_count", lambda: 1)
    assert trials.worker_count() == 0
    monkeypatch.setattr(trials, "core_count", lambda: 8)
    assert trials.worker_count() == 8


def test_a_trial_of_a_script(tmp_path: Path) -> None:
    """Workers cannot import the main program: its trials run in its own process."""
    script = tmp_path / "script.py"
    script.write_text(
        "from weft.apps.labs.trials import run_trials\n"
        "def trial(condition, seed):\n"
        "    return {'product': condition * seed}\n"
        "print(run_trials(trial, [2, 3], 2).curves([2, 3], 'product'))\n",
        "utf-8",
    )
    run = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    assert run.stdout == "[[2, 3], [4, 6]]\n"
