"""The folder of a run while it is trained: its lock, held from the beginning to the end, and errors that end a run.

A single process, or the first worker of torchrun, holds the lock of the folder itself. A launcher (``--workers``) holds
it for all its workers, over their restarts, and the first worker holds another one. So after a launcher was killed, the
folder stays locked until its workers have ended as well.

If the folder cannot be written, because the disk is full or read-only, one line says what was kept. A run that must
stop because memory is not enough has saved a checkpoint.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import CheckpointError, TrainingError, is_out_of_memory
from weft.runs.layout import RunFolder
from weft.runs.locks import WORKER_LOCK_FILE, lock_folder, part_folder
from weft.runs.weights import resume_command
from weft.training.events import Event

if TYPE_CHECKING:
    from weft.training.distributed import Workers
    from weft.training.trainer import Trainer

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
    resume = resume_command(run.path)
    return f"the run is kept up to step {step}; once it can be written again, continue with: {resume}"


def saved_if_out_of_memory(trainer: Trainer) -> Generator[Event, None, None]:
    """The events of a run. If memory is not enough even for a single pair, it is saved first, and one line says so."""
    try:
        yield from trainer.events()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        trainer.save_unfinished()
        yield from trainer.unread
        trainer.unread.clear()
        step, run = trainer.saved_step, trainer.folder.path
        raise TrainingError(
            f"step {trainer.progress.step + 1}: not enough memory on {trainer.context.device}, even for one pair at a "
            f"time; {run} is saved at step {step}; free some memory, which other processes may hold, and continue "
            f"with: {resume_command(run)}"
        ) from error
