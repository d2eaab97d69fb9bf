"""Standard output and standard error of a command: an output that cannot be written is an error of one line.

Standard output is data. A closed pipe ends the command silently, with the exit code of SIGPIPE; any other error names
the stream. Standard error is for people: what cannot be written to it is dropped.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CLOSED_PIPE = 141
"""The exit code after a closed pipe: 128 + SIGPIPE."""
NAME = "standard output"


class _Output(io.FileIO):
    """Standard output; after an error it leads nowhere, so that nothing is tried again when the process ends."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if error.errno == errno.EPIPE:
                raise SystemExit(CLOSED_PIPE) from None
            reason = "is closed" if error.errno == errno.EBADF else error.strerror
            raise OSError(error.errno, reason, NAME) from None


class _ErrorOutput(io.FileIO):
    """Standard error; what cannot be written is dropped."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data).cast("B"))


def install() -> None:
    """Replace the standard streams of this process, unless that was done before."""
    for descriptor in (0, 1, 2):  # a closed one must not become that of the next file
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Output(1, "wb", closefd=False), sys.__stdout__)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = _text(_ErrorOutput(2, "wb", closefd=False), sys.__stderr__, errors="backslashreplace")


def _text(raw: io.FileIO, original: TextIO | None, errors: str = "strict") -> TextIO:
    """A text stream like the original one, which is None if it was closed."""
    lines = errors != "strict" or (original is not None and bool(original.line_buffering))
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=None if original is None else original.encoding,
        errors=errors if original is None else original.errors,
        line_buffering=lines,
    )
