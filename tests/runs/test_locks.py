"""Locks of folders: one process at a time; a process that has ended holds none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from errno import ENOLCK
from itertools import combinations
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from weft.errors import FolderLockedError
from weft.runs import locks
from weft.runs.locks import LOCK_FILE, check_unlocked, creating_folder, is_empty_folder, lock_folder, lock_owner

HOLDING = """
import sys, time
from pathlib import Path
from weft.runs.locks import lock_folder

with lock_folder(Path(sys.argv[1]), "training"):
    print("locked", flush=True)
    sys.stdin.readline()
"""
Hold = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Lock a folder in another process, until that gets a line or is killed."""
    processes = []

    def start(folder: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDING, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None and process.stdout.readline() == "locked\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOCK_PATIENCE", 0)


def refusal(folder: Path) -> str:
    with pytest.raises(FolderLockedError) as caught, lock_folder(folder, "testing"):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write_owner(folder: Path, **changes: object) -> None:
    """A lock file that a process left behind."""
    owner = locks.LockOwner.this_process("training")._asdict() | changes
    (folder / LOCK_FILE).write_text(json.dumps(owner), "utf-8")


def test_another_process(tmp_path: Path, hold: Hold) -> None:
    """It is named with its machine; after its end, whatever the end, the folder is free."""
    process = hold(tmp_path)
    owner = lock_owner(tmp_path)
    assert owner is not None and owner.pid == process.pid and owner.purpose == "training"
    expected = (
        f"{tmp_path}: in use by process {process.pid} on machine {os.uname().nodename} (training since "
        f"{owner.started}); wait until it ends, or stop it: kill {process.pid}"
    )
    assert refusal(tmp_path) == expected
    with pytest.raises(FolderLockedError) as caught:
        check_unlocked(tmp_path)
    assert str(caught.value) == expected
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (tmp_path / LOCK_FILE).exists() and lock_owner(tmp_path) is None, "what is left of it counts for nothing"
    check_unlocked(tmp_path)
    with lock_folder(tmp_path, "testing"):
        owner = lock_owner(tmp_path)
        assert owner is not None and owner.pid == os.getpid()
    assert not (tmp_path / LOCK_FILE).exists()


def test_waiting(tmp_path: Path, hold: Hold) -> None:
    process = hold(tmp_path / "folder")
    reasons: list[str] = []

    def release(reason: str) -> None:
        reasons.append(reason)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    with lock_folder(tmp_path / "folder", "testing", patience=60, on_wait=release):
        assert process.wait(60) == 0
    assert len(reasons) == 1 and f"in use by process {process.pid}" in reasons[0]
    assert not list(tmp_path.iterdir())


def test_eight_threads_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is removed and created again all the time; still only one holds the lock."""
    monkeypatch.setattr(locks, "POLL_SECONDS", 0.001)
    inside, most, turns = [0], [0], [0]

    def work() -> None:
        for _ in range(5):
            with lock_folder(tmp_path / "folder", "testing", patience=600):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1
                turns[0] += 1

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work) for _ in range(8)]:
            future.result()
    assert most == [1] and turns == [40] and not list(tmp_path.iterdir())


SYSTEM_CALLS = {"mkdir", "open", "stat", "flock", "fstat", "unlink", "close", "rmdir", "sleep"}


class Interruptions:
    """Calls a function just before chosen system calls of a block, counted from 0, and whenever the block sleeps."""

    def __init__(self, function: Callable[[], object], at: Collection[int] = ()) -> None:
        self.function, self.at, self.calls = function, at, 0

    def __enter__(self) -> Interruptions:
        self.before = sys.getprofile()
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(self.before)

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or called.__name__ not in SYSTEM_CALLS:
            return
        sleeps = called.__name__ == "sleep"
        if sleeps or self.calls in self.at:
            self.function()
        self.calls += not sleeps


class Rival:
    """Another owner, which takes the lock and releases it in turns; told apart by its open file, like a process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.held = folder, ExitStack()
        self.holds = False

    def toggle(self) -> None:
        if self.holds:
            self.held.close()
            self.holds = False
        else:
            with suppress(FolderLockedError):
                self.held.enter_context(lock_folder(self.folder, "testing"))
                self.holds = True

    def create(self) -> None:
        with creating_folder(self.folder):
            pass


class TestInterruptions:
    """Whatever another process does between two system calls of this one."""

    @pytest.fixture(autouse=True)
    def _no_pause(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(locks, "POLL_SECONDS", 0)

    @pytest.mark.parametrize("held", [False, True])
    def test_three_changes_of_the_lock(self, tmp_path: Path, held: bool) -> None:
        """At any call and at two of the three calls after it; the rival holds the lock at first, or does not."""
        rival = Rival(tmp_path / "folder")
        first, calls = 0, 1
        while first < calls:
            for second, third in combinations(range(first + 1, first + 4), 2):
                if held:
                    rival.toggle()
                interruptions = Interruptions(rival.toggle, (first, second, third))
                with interruptions, lock_folder(tmp_path / "folder", "testing", patience=600):
                    assert not rival.holds
                if rival.holds:
                    rival.toggle()
                assert not list(tmp_path.iterdir()), (first, second, third)
            first, calls = first + 1, interruptions.calls
        assert calls > 15

    @pytest.mark.parametrize("patience", [0, 600])
    def test_the_folder_is_created(self, tmp_path: Path, patience: float) -> None:
        """It is locked somewhere else from then on, and nothing is left where it was locked before."""
        rival = Rival(tmp_path / "folder")

        def change() -> None:
            if not rival.folder.exists():
                rival.create()
            elif patience and rival.holds:
                rival.toggle()

        call, calls = 0, 1
        while call < calls:
            rival.toggle()
            interruptions = Interruptions(change, [call])
            with interruptions, suppress(FolderLockedError), lock_folder(rival.folder, "testing", patience=patience):
                assert not rival.holds
            if rival.holds:
                rival.toggle()
            assert list(tmp_path.glob("**/*")) == [rival.folder] * rival.folder.exists(), call
            if rival.folder.exists():
                rival.folder.rmdir()
            call, calls = call + 1, interruptions.calls
        assert calls > 5


class TestOtherMachines:
    def test_a_lock_that_was_not_released(self, tmp_path: Path) -> None:
        write_owner(tmp_path, pid=12, host="node7", boot="another", started="2026-11-15 20:41:07")
        lock = tmp_path / LOCK_FILE
        assert refusal(tmp_path) == (
            f"{tmp_path}: in use by process 12 on machine node7 (training since 2026-11-15 20:41:07); wait until it "
            f"ends, or stop it there; if it has ended already, remove {lock}"
        )
        assert lock_owner(tmp_path) is not None
        lock.unlink()
        with lock_folder(tmp_path, "testing"):
            pass

    @pytest.mark.parametrize("changes", [{"boot": "before the restart"}, {"host": "another container"}])
    def test_this_machine_under_another_name_or_before_a_restart(self, tmp_path: Path, changes: dict[str, str]) -> None:
        write_owner(tmp_path, **changes)
        with lock_folder(tmp_path, "testing"):
            pass


class TestWithoutLocks:
    """A file system that has none: the processes of this machine are known all the same."""

    @pytest.fixture(autouse=True)
    def _no_locks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def flock(handle: int, operation: int) -> None:
            raise OSError(ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", flock)

    def test_a_process_that_lives(self, tmp_path: Path) -> None:
        write_owner(tmp_path, pid=os.getppid())
        assert f"in use by process {os.getppid()} on machine" in refusal(tmp_path)

    def test_a_process_that_has_ended(self, tmp_path: Path) -> None:
        ended = subprocess.Popen(["true"])
        ended.wait()
        write_owner(tmp_path, pid=ended.pid)
        assert lock_owner(tmp_path) is None
        with lock_folder(tmp_path, "testing"):
            pass


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": 1}', b"\xff", b"[" * 20_000, b"1" * 16_000])
def test_a_damaged_lock_file_is_not_held(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK_FILE).write_bytes(content)
    assert lock_owner(tmp_path) is None
    with lock_folder(tmp_path, "testing"):
        assert lock_owner(tmp_path) is not None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A stranger's folder must not be able to name a file that is overwritten."""
    (tmp_path / "mine").write_text("mine", "utf-8")
    (tmp_path / LOCK_FILE).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError), lock_folder(tmp_path, "testing"):
        pass
    assert (tmp_path / "mine").read_text("utf-8") == "mine" and lock_owner(tmp_path) is None


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_appears_whole_and_locked(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "new"
    if exists:
        path.mkdir()
    with lock_folder(path, "testing"):
        owner = lock_owner(path)
        assert owner is not None and owner.pid == os.getpid() and path.exists() == exists
        with creating_folder(path) as temporary:
            (temporary / "file").write_text("1", "utf-8")
            assert is_empty_folder(path) == exists, "not yet"
        assert lock_owner(path) == owner and not is_empty_folder(path)
        assert "this process itself" in refusal(path)
    assert [entry.name for entry in path.iterdir()] == ["file"] and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_was_filled_in_the_meantime_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with pytest.raises(OSError) as caught, lock_folder(path, "testing"), creating_folder(path):
        path.mkdir()
        (path / "other").write_text("1", "utf-8")
    assert caught.value.filename == str(path)
    assert (path / "other").exists() and list(tmp_path.iterdir()) == [path]


def test_a_signal_while_a_lock_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the lock nor the folder that was made for it is left."""
    calls = 0
    unlink = Path.unlink

    def interrupted(self: Path, *arguments: Any, **keywords: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        unlink(self, *arguments, **keywords)

    monkeypatch.setattr(Path, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt), lock_folder(tmp_path / "made", "exporting"):
        (tmp_path / "made").mkdir()
    assert calls == 2 and [*tmp_path.iterdir()] == [tmp_path / "made"]
    with lock_folder(tmp_path / "made", "exporting"):
        pass
