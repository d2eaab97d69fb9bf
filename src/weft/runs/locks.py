"""Locks of folders that several processes might write to, and folders that appear in one rename.

``FOLDER/.lock`` says who holds the lock, and is itself locked by the operating system, which releases it when the
process ends, however it ends. A folder that does not exist yet is locked in ``.FOLDER.part``, where it is filled before
it is renamed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EBUSY, ENOENT
from pathlib import Path
from typing import NamedTuple

from weft.errors import FolderLockedError
from weft.files import sync_folder

LOCK_FILE = ".lock"
WORKER_LOCK_FILE = ".lock.worker"
"""Held by the first worker of a launcher, which itself holds `LOCK_FILE`."""
LOCK_FILES = (LOCK_FILE, WORKER_LOCK_FILE)
LOCK_PATIENCE = 1.0
"""Seconds that a process waits by default for another one to release a lock."""
LAUNCHER_PID = "WEFT_LAUNCHER_PID"
"""Environment variable of the workers: the process of the launcher."""
WORKER_PATIENCE = 20.0
"""Seconds that a new run waits for the workers of a killed launcher to end."""
POLL_SECONDS = 0.1
MAX_MISSING = 5
"""Attempts in a row after which a folder still does not exist: it is not removed by others, it cannot be created."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LockOwner(NamedTuple):
    """The process that holds a lock: the content of the lock file."""

    pid: int
    host: str
    boot: str
    """Differs from machine to machine, and after each start of a machine; empty if the system has no such number."""
    purpose: str
    """The activity: training, preparing, …"""
    started: str
    command: str

    @classmethod
    def this_process(cls, purpose: str) -> LockOwner:
        boot = BOOT_ID.read_text("ascii").strip() if BOOT_ID.is_file() else ""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        return cls(os.getpid(), os.uname().nodename, boot, purpose, now, shlex.join(sys.argv)[:1000])

    @classmethod
    def read(cls, handle: int) -> LockOwner | None:
        """The content of a lock file; None if it is empty or damaged."""
        try:
            owner = cls(**json.loads(os.pread(handle, 1 << 14, 0)))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        strings = (owner.host, owner.boot, owner.purpose, owner.started, owner.command)
        valid = type(owner.pid) is int and owner.pid > 0 and all(isinstance(text, str) for text in strings)
        return owner if valid else None

    def write(self, handle: int) -> None:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(self._asdict(), indent=1).encode() + b"\n", 0)

    @property
    def on_this_machine(self) -> bool:
        """Whether it runs, or ran, where the locks of this process are known."""
        this = LockOwner.this_process("")
        return self.host == this.host or (bool(self.boot) and self.boot == this.boot)

    def refusal(self, path: Path) -> str:
        """The message that the folder of this lock file cannot be used, and what to do."""
        if self == UNKNOWN:
            return "in use by another process; wait until it ends"
        if self.pid == os.getpid() and self.on_this_machine:
            return f"in use by this process itself ({self.purpose}); finish or close that first"
        holder = f"in use by process {self.pid} on machine {self.host} ({self.purpose} since {self.started})"
        if self.on_this_machine:
            return f"{holder}; wait until it ends, or stop it: kill {self.pid}"
        return f"{holder}; wait until it ends, or stop it there; if it has ended already, remove {path}"


UNKNOWN = LockOwner(0, "", "", "", "", "")
"""The owner of a lock file that is just being written or removed."""


@contextmanager
def lock_folder(
    folder: Path,
    purpose: str,
    *,
    name: str = LOCK_FILE,
    patience: float | None = None,
    on_wait: Callable[[str], None] = lambda message: None,
) -> Iterator[None]:
    """Be the only process that writes to a folder; `FolderLockedError` says which other one does.

    The folder need not exist. The lock of a process that has ended on this machine counts for nothing. A lock that a
    process of another machine did not release is kept: on some shared file systems a machine cannot see the locks of
    another.

    ``patience``: seconds to wait for the lock, by default `LOCK_PATIENCE`; ``on_wait`` is called once, with the
    reason, when the waiting begins.
    """
    folder = Path(folder)
    deadline = time.monotonic() + (LOCK_PATIENCE if patience is None else patience)
    waiting, missing = False, 0
    while isinstance(handle := _acquire(folder, name), LockOwner):
        missing = missing + 1 if handle == UNKNOWN and not _lock_path(folder, name).parent.exists() else 0
        if missing > MAX_MISSING:
            raise FileNotFoundError(ENOENT, "no folder can be created there", str(folder))
        message = f"{folder}: {handle.refusal(_lock_path(folder, name))}"
        if time.monotonic() >= deadline:
            raise FolderLockedError(message)
        if not waiting:
            on_wait(message)
        waiting = True
        time.sleep(POLL_SECONDS)
    try:
        LockOwner.this_process(purpose).write(handle)
        yield
    finally:
        _release(handle, folder, name)


def part_folder(folder: Path) -> Path:
    """The folder that is filled before it is renamed to `folder`."""
    folder = Path(folder).resolve()
    return folder.with_name(f".{folder.name}.part")


def _lock_path(folder: Path, name: str) -> Path:
    """The lock file of a folder, which may not exist yet."""
    return (folder if folder.exists() else part_folder(folder)) / name


def _acquire(folder: Path, name: str) -> int | LockOwner:
    """An open handle of the lock file, locked; or who holds the lock."""
    path = _lock_path(folder, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except (FileNotFoundError, FileExistsError):
        if _is_folder_or_missing(path.parent):  # another process has removed the folder at this moment
            return UNKNOWN
        raise
    if (owner := _lock(handle, path, fcntl.LOCK_EX)) is not None:
        os.close(handle)
        return owner
    if path != _lock_path(folder, name):  # another process has just created the folder
        _release(handle, folder, name)
        return UNKNOWN
    return handle


def _release(handle: int, folder: Path, name: str) -> None:
    """Remove the lock file, which is locked, and close it; even if a signal handler raises, nothing is left behind."""
    try:
        for path in (folder / name, part_folder(folder) / name):
            with suppress(OSError):  # it is the other one, or was removed
                if os.path.samestat(os.fstat(handle), path.stat()):
                    path.unlink()
        with suppress(OSError):  # there is none, or something is in it
            part_folder(folder).rmdir()
    except BaseException:
        _release(handle, folder, name)
        raise
    os.close(handle)


def _is_folder_or_missing(path: Path) -> bool:
    """Checked in one system call: between two, another process may remove the folder or create it."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return True


def _lock(handle: int, path: Path, mode: int) -> LockOwner | None:
    """Lock an open lock file; None, or who prevents that."""
    try:
        fcntl.flock(handle, mode | fcntl.LOCK_NB)
        owner = LockOwner.read(handle)
        ended = owner is None or owner.on_this_machine
    except BlockingIOError:
        return LockOwner.read(handle) or UNKNOWN
    except OSError:  # a file system without locks
        owner = LockOwner.read(handle)
        ended = owner is None or (owner.on_this_machine and not _is_alive(owner.pid))
    if not ended:
        return owner
    try:
        return None if os.path.samestat(os.fstat(handle), path.stat()) else UNKNOWN
    except OSError:  # it has just been released
        return UNKNOWN


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it belongs to another user
        return True
    return True


def lock_owner(folder: Path, name: str = LOCK_FILE) -> LockOwner | None:
    """The process that holds the lock of a folder, if there is one; works for folders that cannot be written to."""
    path = _lock_path(folder, name)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _lock(handle, path, fcntl.LOCK_SH)
    finally:
        os.close(handle)


@contextmanager
def lock_run(folder: Path, *, is_main: bool = True) -> Iterator[None]:
    """Lock a run folder for training in this process, if it is the main process of its run.

    A single process, or the first worker of torchrun, holds the lock of the folder itself. A launcher (``--workers``)
    holds it for all its workers, over their restarts, and the first worker holds another one. So after a launcher was
    killed, the folder stays locked until its workers have ended as well.
    """
    if not is_main:
        yield
    elif LAUNCHER_PID in os.environ:
        with lock_folder(folder, "training", name=WORKER_LOCK_FILE):
            yield
    else:
        with lock_launch(folder):
            yield


@contextmanager
def lock_launch(folder: Path) -> Iterator[None]:
    """Lock a run folder for a launcher and its workers, or for a process that trains alone."""
    with lock_folder(folder, "training"):
        with lock_folder(folder, "training", name=WORKER_LOCK_FILE, patience=WORKER_PATIENCE):
            pass  # no worker of an earlier launcher is left
        yield


def check_unlocked(folder: Path) -> None:
    """Fail if another process holds the lock of a folder: a quick check before long work."""
    owner = lock_owner(folder)
    if owner is not None and owner != UNKNOWN:
        raise FolderLockedError(f"{folder}: {owner.refusal(_lock_path(folder, LOCK_FILE))}")


def is_empty_folder(path: Path) -> bool:
    """Whether a folder contains nothing but locks."""
    return path.is_dir() and all(entry.name in LOCK_FILES for entry in path.iterdir())


@contextmanager
def creating_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path` in one rename when the block ends well.

    The caller holds the lock of `path`, which goes along; so what a killed process has left can be removed here.
    """
    path = Path(path).resolve()
    if path.is_mount():
        raise OSError(EBUSY, "is a mount point; choose a folder inside it", str(path))
    temporary = part_folder(path)
    remove_left_folders(path)
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        yield temporary
        sync_folder(temporary)
        for name in LOCK_FILES:
            with suppress(FileNotFoundError):
                (path / name).rename(temporary / name)
        try:
            temporary.rename(path)
        except OSError as error:  # another process has put something into it
            raise OSError(error.errno, error.strerror, str(path)) from None
        sync_folder(path.parent)
    finally:
        remove_left_folders(path)


def remove_left_folders(path: Path) -> None:
    """Remove unfinished folders of killed processes beside `path`, but no locks; the caller holds the lock."""
    pattern = re.compile(rf"\.{re.escape(path.name)}(\.\d+)?\.(part|old)")
    for folder in path.parent.iterdir() if path.parent.is_dir() else ():
        if not pattern.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
            continue
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name not in LOCK_FILES:
                entry.unlink(missing_ok=True)
        with suppress(OSError):  # it is locked
            folder.rmdir()
