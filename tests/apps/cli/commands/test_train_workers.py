"""``weft train --workers N`` and torchrun: several processes, one of which may die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from weft.apps.cli.commands.train import without_worker_options
from weft.errors import FolderLockedError
from weft.recipe import load_recipe
from weft.runs.locks import check_unlocked, lock_folder, lock_launch
from weft.runs.weights import read_tensors
from weft.training.train import train

CHANGES = (
    "data.train=copy",
    "data.train_size=90",
    "data.valid_size=11",
    "data.options={length=5, symbols=7}",
    "tokenizer.kind=word",
    "model.embedding=11",
    "model.encoder.hidden=14",
    "model.decoder.hidden=14",
    "training.batch_tokens=30",
    "training.validate_every=2",
    "training.save_every=2",
    "training.log_every=1",
    "training.device=cpu",
)
WEFT = [sys.executable, "-m", "weft"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
PATIENCE = 300


def arguments(out: Path, *more: str) -> list[str]:
    changes = [part for change in CHANGES for part in ("--set", change)]
    return ["train", "addition", *changes, "--out", str(out), *more]


def setting(*changes: str) -> list[str]:
    return [part for change in changes for part in ("--set", change)]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1", "COLUMNS": "200"}


def run(*command: str, check: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == check, done.stderr
    return done


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on; what is left of it at the end is killed."""
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def worker(of: int, rank: int) -> int:
    """The process of a worker that a launcher started."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for folder in Path("/proc").iterdir():
            try:
                parent = (
                    int((folder / "stat").read_text().rpartition(")")[2].split()[1]) if folder.name.isdigit() else 0
                )
                if parent == of and f"\0RANK={rank}\0" in (folder / "environ").read_text():
                    return int(folder.name)
            except (OSError, IndexError):  # it has ended in the meantime
                continue
        time.sleep(0.05)
    raise AssertionError("no such worker")


def wait_for_step(out: Path, step: int) -> None:
    """Until a run has logged a step."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if any(event["step"] >= step for event in log(out)):
            return
        time.sleep(0.02)
    raise AssertionError("the run does not get on")


def log(out: Path) -> list[dict[str, object]]:
    file = out / "log.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.endswith("}")]


def weights(out: Path) -> dict[str, torch.Tensor]:
    [step] = (out / "training").glob("step-*")
    return read_tensors(step / "weights.safetensors").tensors


def assert_equal(one: Path, other: Path) -> None:
    """Two runs ended alike, bit by bit."""
    left, right = weights(one), weights(other)
    assert left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_two_workers(tmp_path: Path) -> None:
    """One run folder, one path on stdout, and a recipe that says how many batches an update has."""
    out = tmp_path / "run"
    done = run(*WEFT, *arguments(out, "--workers", "2", *setting("training.steps=4")))
    assert done.stdout == f"{out}\n"
    assert done.stderr.startswith("training.accumulate = 2: one batch per worker and update\n")
    assert done.stderr.count("finished at step 4") == done.stderr.count("step 2: validation") == 1
    assert load_recipe(out / "recipe.toml").training.accumulate == 2
    assert [event["step"] for event in log(out) if event["event"] == "step"] == [1, 2, 3, 4]


def test_what_a_worker_is_told() -> None:
    given = ["train", "x", "--workers", "2", "--set", "a=b", "--restarts=1", "--workers=3", "--resume"]
    assert without_worker_options(given) == ["train", "x", "--set", "a=b", "--resume"]


@pytest.mark.slow
def test_a_killed_launcher_takes_its_workers_along(tmp_path: Path) -> None:
    """They end, say so in the log, and hold the folder until then; a new process can take it at once."""
    out = tmp_path / "run"
    with running(*WEFT, *arguments(out, *setting("training.steps=100000"), "--workers", "2")) as launcher:
        wait_for_step(out, 3)
        with pytest.raises(FolderLockedError, match=f"in use by process {launcher.pid} on machine "):
            check_unlocked(out)
        launcher.kill()
        with lock_launch(out):  # waits for the workers
            [lost] = [event for event in log(out) if event["event"] == "launcherlost"]
            assert lost["launcher"] == launcher.pid
            size = (out / "log.jsonl").stat().st_size
        _, stderr = launcher.communicate(timeout=PATIENCE)  # until both have closed it
    assert (out / "log.jsonl").stat().st_size == size
    assert stderr.splitlines()[-1] == (
        f"weft: the launcher (process {launcher.pid}) has ended, so its workers end too; "
        f"continue with: weft train {out} --resume"
    )
    resumed = train(load_recipe(out / "recipe.toml"), out, resume=True)
    assert next(resumed).step >= lost["step"]
    resumed.close()
    assert lost in log(out), "it stays in the log"


@pytest.mark.slow
def test_a_killed_torchrun_takes_its_workers_along(tmp_path: Path) -> None:
    out = tmp_path / "run"
    many = setting("training.steps=100000")
    with running(*TORCHRUN, "--nproc-per-node=2", "-m", "weft", *arguments(out, *many)) as launcher:
        wait_for_step(out, 3)
        launcher.kill()
        with lock_folder(out, "testing", patience=PATIENCE):
            assert "launcherlost" in [event["event"] for event in log(out)]
        launcher.communicate(timeout=PATIENCE)  # until both have closed it


@pytest.mark.slow
def test_a_killed_launcher_changes_nothing(tmp_path: Path) -> None:
    """Resumed at once, with the same number of workers, the run ends where an undisturbed one ends, bit by bit."""
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    long = setting("training.steps=301", "training.save_every=7", "training.validate_every=50")
    run(*WEFT, *arguments(calm, *long, "--workers", "2"))
    with running(*WEFT, *arguments(killed, *long, "--workers", "2")) as launcher:
        wait_for_step(killed, 20)
        launcher.kill()
        run(*WEFT, *arguments(killed, *long, *setting("training.accumulate=2"), "--workers", "2", "--resume"))
        launcher.communicate(timeout=PATIENCE)
    assert_equal(calm, killed)


@pytest.mark.slow
def test_an_error_is_one_line(tmp_path: Path) -> None:
    done = run(*WEFT, *arguments(tmp_path / "run", "--workers", "2", *setting("data.train=no.tsv")), check=2)
    assert done.stdout == "" and "no.tsv" in done.stderr.splitlines()[-1]
    assert done.stderr.count("weft: ") == 1 and "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_folder_that_is_there_is_not_resumed_by_itself(tmp_path: Path) -> None:
    """Neither at once nor because the launcher tries again."""
    out = tmp_path / "run"
    command = arguments(out, *setting("training.steps=4", "training.accumulate=2"))
    run(*WEFT, *command, "--workers", "2")
    before = (out / "log.jsonl").read_bytes()
    done = run(*WEFT, *command, "--workers", "2", check=2)
    assert done.stderr.count("already exists") == 1
    run(*TORCHRUN, "--nproc-per-node=2", "--max-restarts=1", "-m", "weft", *command, check=1)
    assert (out / "log.jsonl").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("launcher", ["weft", "torchrun"])
def test_a_killed_worker_changes_nothing(tmp_path: Path, launcher: str, rank: int) -> None:
    """All start anew from the last checkpoint, and end where an undisturbed run ends, bit by bit."""
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    long = setting("training.steps=301", "training.save_every=7", "training.validate_every=50")

    def command(out: Path) -> list[str]:
        if launcher == "weft":
            return [*WEFT, *arguments(out, *long, "--workers", "2")]
        return [*TORCHRUN, "--nproc-per-node=2", "--max-restarts=2", "-m", "weft", *arguments(out, *long)]

    run(*command(calm))
    with running(*command(killed)) as process:
        wait_for_step(killed, 20)
        os.kill(worker(process.pid, rank), signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert [event["event"] for event in log(killed)].count("started") == 2
    assert_equal(calm, killed)


@pytest.mark.slow
def test_a_worker_that_dies_again_and_again(tmp_path: Path) -> None:
    command = arguments(tmp_path / "run", *setting("training.steps=100000"), "--workers", "2", "--restarts", "0")
    with running(*WEFT, *command) as process:
        wait_for_step(tmp_path / "run", 3)
        os.kill(worker(process.pid, 1), signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and said.splitlines()[-1].startswith("weft: worker 1 was killed by SIGKILL")


@pytest.mark.slow
def test_an_interrupt_ends_all(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with running(*WEFT, *arguments(out, *setting("training.steps=100000"), "--workers", "2")) as process:
        wait_for_step(out, 3)
        pids = [worker(process.pid, rank) for rank in (0, 1)]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "Traceback" not in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.slow
def test_resumed_with_another_number(tmp_path: Path) -> None:
    """Two workers, then one: near to one process from the beginning."""
    out, alone = tmp_path / "run", tmp_path / "alone"
    same = setting("training.optimizer=sgd", "training.accumulate=2")
    run(*WEFT, *arguments(out, *same, *setting("training.steps=4"), "--workers", "2"))
    run(*WEFT, *arguments(out, *setting("training.steps=8"), "--resume"))
    run(*WEFT, *arguments(alone, *same, *setting("training.steps=8")))
    left, right = weights(out), weights(alone)
    assert all(torch.allclose(left[name], right[name], atol=1e-5) for name in left)
