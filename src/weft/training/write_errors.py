"""A run folder that cannot be written, because the disk is full or read-only: one line that says what was kept."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import CheckpointError, TrainingError
from weft.runs.layout import RunFolder
from weft.runs.locks import part_folder

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
