"""Runs that end before their last step: signals, a folder that cannot be written, memory that is not enough.

A signal is held until the next step boundary, where a checkpoint is saved before it takes effect. SIGINT (Ctrl-C),
SIGTERM and SIGHUP are held while the training loop works. After the checkpoint, the handler that was in force is
called: Python's own raises KeyboardInterrupt for SIGINT, that of the operating system ends the process. A second signal
takes effect at once; signals that the program ignores stay ignored. While a consumer of the events has control, and in
other threads than the main one, signals are not touched.

If the run folder cannot be written, because the disk is full or read-only, one line says what was kept. A run that must
stop because memory is not enough has saved a checkpoint.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from weft.errors import CheckpointError, TrainingError, is_out_of_memory
from weft.runs.layout import RunFolder
from weft.runs.locks import part_folder
from weft.runs.weights import resume_command
from weft.training.events import Event

if TYPE_CHECKING:
    from weft.training.trainer import Trainer

Value = TypeVar("Value")

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Errors that only writing has: no space, quota, size limit, read-only file system."""


class _AbandonedError(Exception):
    """A signal has arrived during a computation that can be abandoned."""


class SignalHold:
    """Holds signals back; `pending` is the number of the one that has arrived, or 0."""

    def __init__(self) -> None:
        self.pending = 0
        self._handlers: dict[int, Any] = {}
        self._can_abandon = False

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold the signals that arrive during the block."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler not in (signal.SIG_IGN, None):
                self._handlers[number] = handler
                signal.signal(number, self._hold)
        try:
            yield
        finally:
            self._restore()

    def interruptible(self, compute: Callable[[], Value]) -> Value | None:
        """A value that takes long and can be computed again; None if a signal arrives before it is done."""
        if self.pending:
            return None
        try:
            try:
                self._can_abandon = True
                value = compute()
                self._can_abandon = False
            finally:
                self._can_abandon = False
        except _AbandonedError:
            return None
        return value

    def deliver(self, number: int) -> None:
        """Let a signal take effect. Its handler may return, and training continues."""
        self.pending = 0
        handler = signal.getsignal(number)
        if callable(handler):
            handler(number, None)
        else:
            os.kill(os.getpid(), number)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            self._restore()
            self.deliver(number)
            return
        self.pending = number
        if self._can_abandon:
            self._can_abandon = False
            raise _AbandonedError

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}


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
