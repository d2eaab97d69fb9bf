"""The status of a run folder: what it says of itself, and that a damaged one never fails."""

import json
import shutil
import subprocess
import sys

import pytest

from weft.recipe import load_recipe
from weft.runs.locks import lock_folder
from weft.runs.status import RunStatus, find_runs
from weft.training.train import train


@pytest.fixture
def copy(finished, tmp_path):
    """A run that can be changed."""
    return shutil.copytree(finished, tmp_path / "runs" / "run")


def test_a_finished_run(finished):
    status = RunStatus.read(finished)
    assert (status.state, status.step, status.steps) == ("finished", 2, 2)
    started = json.loads((finished / "log.jsonl").read_text("utf-8").splitlines()[0])
    assert status.parameters == started["parameters"] and status.recipe == load_recipe(finished / "recipe.toml").name
    assert status.metric == "perplexity" and status.score > 1 and status.describe_state() == "finished"


def test_training_then_stopped(tiny, tmp_path):
    events = train(tiny({"training.steps": 9, "training.save_every": 2}), tmp_path / "run")
    for event in events:
        if event.step == 3:
            break
    status = RunStatus.read(tmp_path / "run")
    assert status.describe_state() == "training, step 3 of 9" and " on " in status.process
    events.close()
    status = RunStatus.read(tmp_path / "run")
    assert status.describe_state() == "stopped at step 3" and status.process is None and status.score is None


def test_a_finished_run_that_goes_on_is_not_finished(copy):
    with (copy / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"event": "started", "step": 2}\n{"event": "st')
    assert RunStatus.read(copy).describe_state() == "stopped at step 2"
    with lock_folder(copy, "training"):
        assert RunStatus.read(copy).state == "training"


def test_a_run_that_was_not_trained_here(copy):
    """What `weft import` and `weft pull` write has neither checkpoints nor a log."""
    shutil.rmtree(copy / "training")
    (copy / "log.jsonl").unlink()
    status = RunStatus.read(copy)
    assert status.state == status.describe_state() == "imported" and status.step is None and status.problem is None
    assert status.parameters > 0 and status.metric == "perplexity"


DAMAGES = {
    "recipe.toml": (b"name = ", b"\xff", b"extends = []", None),
    "model.safetensors": (b"", b"\x00" * 64, None),
    "training": (None,),
}


@pytest.mark.parametrize(("name", "content"), [(name, content) for name in DAMAGES for content in DAMAGES[name]])
def test_damaged_folders_are_listed(copy, name, content):
    if content is None:
        (shutil.rmtree if (copy / name).is_dir() else type(copy).unlink)(copy / name)
    else:
        (copy / name).write_bytes(content)
    [status] = find_runs(copy.parent)
    assert status.state == status.describe_state() == "damaged" and status.path == copy
    assert status.problem and "\n" not in status.problem and json.dumps(status.record())


@pytest.mark.parametrize("line", ["", "[]", "3", '{"step": "x"}', '{"step": 1e999}', "[" * 50_000, "\x00"])
def test_a_damaged_log_is_passed_over(copy, line):
    with (copy / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    assert RunStatus.read(copy).state in ("finished", "stopped")


def test_an_export_is_no_run(copy):
    shutil.copytree(copy, copy.parent / "exported")
    (copy.parent / "exported" / "weft.json").write_text("{}", "utf-8")
    assert [status.path for status in find_runs(copy.parent)] == [copy]


def test_the_newest_first_and_nothing_else(copy):
    runs = copy.parent
    newer = shutil.copytree(copy, runs / "newer")
    (newer / "log.jsonl").touch()
    (runs / "notes").mkdir()
    (runs / "file").touch()
    shutil.copytree(copy, runs / ".run.part")
    assert [status.path.name for status in find_runs(runs)] == ["newer", "run"]
    assert [status.path for status in find_runs(copy)] == [copy], "a run itself"


def test_torch_is_not_imported(finished):
    code = (
        "import sys; from pathlib import Path; from weft.runs.status import RunStatus; "
        f"RunStatus.read(Path({str(finished)!r})); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_settings_of_any_type(copy):
    (copy / "recipe.toml").write_text("name = []\n[training]\nmetric = []\nsteps = 'x'\n", "utf-8")
    assert RunStatus.read(copy).state == "finished"


def test_the_candidates_of_a_tuning_run(copy, tmp_path):
    tuned = tmp_path / "tuned"
    (tuned / "runs").mkdir(parents=True)
    (tuned / "tuning.json").write_text("{}", "utf-8")
    copy.rename(tuned / "runs" / "wider")
    assert [status.path.name for status in find_runs(tuned)] == ["wider"]
    assert not list(find_runs(tmp_path))  # it is not a run itself
