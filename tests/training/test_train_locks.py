"""One training run per folder: a second one is told which process holds it."""

import os
import shutil

import pytest

from weft.errors import FolderLockedError, TrainingError
from weft.runs import locks
from weft.runs.locks import (
    LAUNCHER_PID,
    LOCK_FILE,
    WORKER_LOCK_FILE,
    lock_folder,
    lock_launch,
    lock_run,
    part_folder,
)
from weft.training.train import train


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(locks, "LOCK_PATIENCE", 0)


def test_a_folder_is_locked_while_it_is_trained(tiny, tmp_path):
    out = tmp_path / "run"
    events = train(tiny({"training.steps": 3}), out)
    next(events)
    with pytest.raises(FolderLockedError) as caught:
        next(train(tiny({"training.steps": 3}), out, resume=True))
    assert str(caught.value) == f"{out}: in use by this process itself (training); finish or close that first"
    events.close()
    assert not (out / LOCK_FILE).exists()
    assert list(train(tiny({"training.steps": 3}), out, resume=True))


def test_two_new_runs_of_one_folder(tiny, tmp_path):
    refused = pytest.raises(FolderLockedError, match="in use by this process")
    with lock_folder(tmp_path / "run", "training"), refused:
        next(train(tiny(), tmp_path / "run"))
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_can_be_trained_in(tiny, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    assert list(train(tiny({"training.steps": 1}), tmp_path / "link"))
    assert (tmp_path / "run" / "model.safetensors").is_file() and (tmp_path / "link").is_symlink()


def test_what_a_killed_creation_left_is_removed(tiny, tmp_path):
    left = [tmp_path / ".run.part", tmp_path / ".run.4711.part"]
    others = [tmp_path / ".run.mine.part", tmp_path / ".running.part"]
    for folder in (*left, *others):
        (folder / "training").mkdir(parents=True)
    assert list(train(tiny({"training.steps": 1}), tmp_path / "run"))
    assert not any(folder.exists() for folder in left) and all(folder.exists() for folder in others)


def test_a_mount_point_is_refused(tiny, tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(type(tmp_path), "is_mount", lambda path: path.name == "run")
    with pytest.raises(TrainingError) as caught:
        list(train(tiny({"training.steps": 1}), tmp_path / "run"))
    message = f"{tmp_path / 'run'}: cannot write: is a mount point; choose a folder inside it; nothing was kept"
    assert str(caught.value) == message


class TestWorkers:
    def test_only_the_main_process_locks(self, tmp_path):
        with lock_run(tmp_path, is_main=False):
            assert not list(tmp_path.iterdir())
        with lock_run(tmp_path):
            assert (tmp_path / LOCK_FILE).exists()

    def test_a_launcher_holds_the_lock_for_its_workers(self, tmp_path, monkeypatch):
        with lock_launch(tmp_path):
            monkeypatch.setenv(LAUNCHER_PID, str(os.getpid()))
            with lock_run(tmp_path):
                assert {file.name for file in tmp_path.iterdir()} == {LOCK_FILE, WORKER_LOCK_FILE}
        assert not list(tmp_path.iterdir())

    def test_the_workers_of_a_killed_launcher_still_hold_the_folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(locks, "WORKER_PATIENCE", 0)
        refused = pytest.raises(FolderLockedError)
        with lock_folder(tmp_path, "training", name=WORKER_LOCK_FILE), refused, lock_launch(tmp_path):
            pass
        with lock_launch(tmp_path):
            pass

    def test_the_locks_go_along_when_the_folder_appears(self, tiny, tmp_path, monkeypatch):
        out = tmp_path / "run"
        with lock_launch(out):
            inode = (part_folder(out) / LOCK_FILE).stat().st_ino
            monkeypatch.setenv(LAUNCHER_PID, str(os.getpid()))
            events = train(tiny({"training.steps": 2}), out)
            next(events)
            assert (out / LOCK_FILE).stat().st_ino == inode and (out / WORKER_LOCK_FILE).exists()
            events.close()
            shutil.rmtree(out / "training")
        assert not (out / LOCK_FILE).exists()
