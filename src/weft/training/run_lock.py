"""The lock of a run folder, which one training run holds from its beginning to its end.

A single process, or the first worker of torchrun, holds the lock of the folder itself. A launcher (``--workers``) holds
it for all its workers, over their restarts, and the first worker holds another one. So after a launcher was killed, the
folder stays locked until its workers have ended as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from weft.runs.locks import WORKER_LOCK_FILE, lock_folder

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
