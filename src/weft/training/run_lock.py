"""The folder of a run while it is trained: its lock, held from the beginning to the end, and errors in writing to it.

A single process, or the first worker of torchrun, holds the lock of the folder itself. A launcher (``--workers``) holds
it for all its workers, over their restarts, and the first worker holds another one. So after a launcher was killed, the
folder stays locked until its workers have ended as well.

If the folder cannot be written, because the disk is full or read-only, one line says what was kept.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import CheckpointError, TrainingError
from weft.runs.layout import RunFolder
from weft.runs.locks import WORKER_LOCK_FILE, lock_folder, part_folder

if TYPE_CHECKING:
    from weft.training.distributed import Workers

LAUNCHER_PID = "WEFT_LAUNCHER_PID"
"""Environment variable of the workers: the process of the launcher."""
WORKER_PATIENCE = 20.0
"""Seconds that a new run waits for the workers of a killed launcher to end."""


@contextmanager
def lock_run(folder: Path, workers: Workers) -> Iterator[None]:
    """Lock a run folder for training in this process; only the main process does."""
    if not workers.is_main:
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


DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Errors that only writing has: no space, quota, size limit, read-only file system."""


@contextmanager
def explain_write_errors(run: RunFolder) -> Iterator[None]:
    """Raise an error in writing to a run folder as a `TrainingError`; other errors stay what they are."""
    try:
        yield
    except OSError as error:
        if not _is_written(error, run):
            raise
        file = error.filename or run.path
        raise TrainingError(f"{file}: cannot write: {error.strerror or error}; {_what_was_kept(run)}") from error


def _is_written(error: OSError, run: RunFolder) -> bool:
    if error.filename is None:
        return error.errno in DISK_ERRORS
    folders = {run.path.resolve(), part_folder(run.path)}
    file = Path(error.filename).absolute()
    return not folders.isdisjoint({file, *file.parents, file.resolve(), *file.resolve().parents})


def _what_was_kept(run: RunFolder) -> str:
    try:
        step = run.newest_step()
    except CheckpointError:
        return "nothing was kept"
    resume = f"weft train {shlex.quote(str(run.path))} --resume"
    return f"the run is kept up to step {step}; once it can be written again, continue with: {resume}"
