"""Lines of a text file, as every corpus reader sees them.

A line ends at LF or CR LF and nowhere else: a lone CR, U+2028, U+0085 or a form feed is a character of its line, so
that the two files of a parallel corpus cannot go out of step. A byte order mark at the start of a file is dropped.
A compressed file (`weft.data.reading.compression`) is decompressed; ``-`` is standard input.

One line is in memory at a time, and no line may be longer than 64 MiB. `chunk_lines` groups lines; `stream_lines`
tells when a pipe or a terminal has no more lines for now, so that an incomplete group need not wait.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import Any, BinaryIO, overload

from weft.data.reading import text_files
from weft.data.reading.compression import compression_of
from weft.data.reading.text_files import (
    BYTE_ORDER_MARK,
    check_text,
    display_name,
    open_decompressed,
    read_errors,
    utf8_error,
)
from weft.errors import DataError

MAX_SKIPPED_BYTES = 1 << 30
"""Bytes within which the end of an overlong line is searched."""
BAD_LINE_BYTES = 1000
"""Bytes kept of a line that cannot be read."""
COUNTED_BYTES = 1 << 20
"""Bytes in memory at a time while lines are counted."""
IDLE_SECONDS = 0.05
"""Time without a new line after which a pipe counts as idle."""


def read_lines(path: Path | str) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; the file is opened when the first line is requested."""
    for line in _read(path, report_idle=False):
        if isinstance(line, BadLine):
            raise DataError(line.message)
        if line is not None:
            yield line


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be read, in its place among the others."""

    text: str
    """The readable content, at most `BAD_LINE_BYTES` bytes; invalid bytes are escaped as surrogates."""
    message: str
    """A complete error message in one line, from its location on."""

    def __len__(self) -> int:
        return len(self.text)


def stream_lines(path: Path | str, *, keep_bad: bool = False, first: int = 0) -> Iterator[str | BadLine | None]:
    """The lines of a file, and None whenever a pipe or a terminal has no more of them for now.

    ``keep_bad``: a line that cannot be read is a `BadLine`, and those behind it are read, instead of an error;
    ``first``: the number of lines to skip, whatever they are.
    """
    for line in _read(path, report_idle=True, first=first):
        if isinstance(line, BadLine) and not keep_bad:
            raise DataError(line.message)
        yield line


def count_lines(path: Path | str) -> int:
    """The number of lines of a file."""
    count, last = 0, b"\n"
    with read_errors(display_name(path), lambda: count), open_decompressed(path) as file:
        while block := file.read(COUNTED_BYTES):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


@overload
def chunk_lines(lines: Iterable[str | None], *, max_lines: int, max_characters: int) -> Iterator[list[str]]: ...


@overload
def chunk_lines(
    lines: Iterable[str | BadLine | None], *, max_lines: int, max_characters: int
) -> Iterator[list[str | BadLine]]: ...


def chunk_lines(lines: Iterable[Any], *, max_lines: int, max_characters: int) -> Iterator[list[Any]]:
    """Group consecutive lines: a chunk ends when it has `max_lines` lines or `max_characters` characters, or at None.

    A chunk's end depends on its own lines alone, so chunking from the start of any chunk gives the same chunks.
    """
    chunk: list[Any] = []
    characters = 0
    for line in lines:
        if line is not None:
            chunk.append(line)
            characters += len(line)
        if chunk and (line is None or len(chunk) >= max_lines or characters >= max_characters):
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _read(path: Path | str, *, report_idle: bool, first: int = 0) -> Iterator[str | BadLine | None]:
    name = display_name(path)
    number = 1
    limit = text_files.MAX_LINE_BYTES
    with read_errors(name, lambda: number - 1), open_decompressed(path) as file:
        pipe = _PipeReader(file) if report_idle and _is_pipe(path, file) else None
        readline = file.readline if pipe is None else pipe.readline
        while number <= first and (raw := readline(limit + 1)):
            number += raw.endswith(b"\n")
        while raw := readline(limit + 1):
            if len(raw) > limit:
                message = f"{name}:{number}: a line of more than {limit} bytes; is this a text file?"
                yield _bad_line(raw, message)
                skipped = 0
                while raw and not raw.endswith(b"\n"):
                    raw = readline(limit + 1)
                    skipped += len(raw)
                    if skipped > MAX_SKIPPED_BYTES:
                        raise DataError(f"{name}:{number}: a line of more than {MAX_SKIPPED_BYTES} bytes has no end")
            else:
                if number == 1:
                    check_text(raw, name)
                yield decode_line(raw, name, number)
            number += 1
            if pipe is not None and not pipe.has_line():
                yield None


class _PipeReader:
    """The lines of a pipe or a terminal, and whether the next one is available."""

    def __init__(self, file: BinaryIO) -> None:
        self.descriptor = file.fileno()
        self.buffer = bytearray()
        self.searched = 0
        """Number of bytes of the buffer known to contain no line end."""
        self.ended = False

    def readline(self, max_bytes: int) -> bytes:
        while not self._has_whole_line(max_bytes):
            self._read()
        end = self.buffer.find(b"\n", self.searched) + 1
        size = min(end or len(self.buffer), max_bytes)
        line = bytes(self.buffer[:size])
        del self.buffer[:size]
        self.searched = 0
        return line

    def has_line(self) -> bool:
        """Whether `readline` would return a line (or the end) immediately, or within `IDLE_SECONDS`."""
        while not self._has_whole_line(text_files.MAX_LINE_BYTES + 1):
            if not select([self.descriptor], [], [], IDLE_SECONDS)[0]:
                return False
            self._read()
        return True

    def _has_whole_line(self, max_bytes: int) -> bool:
        line_end = self.buffer.find(b"\n", self.searched)
        self.searched = len(self.buffer) if line_end < 0 else line_end
        return line_end >= 0 or self.ended or len(self.buffer) >= max_bytes

    def _read(self) -> None:
        data = os.read(self.descriptor, 1 << 16)
        self.ended = not data
        self.buffer += data


def _is_pipe(path: Path | str, file: BinaryIO) -> bool:
    """Whether more may come later: a pipe, a socket, a terminal."""
    if compression_of(path):
        return False
    try:
        return not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:  # not a file of the system
        return False


def is_seekable(path: Path | str) -> bool:
    """Whether all lines can be read without waiting for more: not a pipe, a socket or a terminal."""
    if path == "-":
        descriptor = sys.stdin.fileno() if sys.stdin is not None else None
        return descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode)
    return Path(path).is_file()


def decode_line(raw: bytes, name: str, number: int) -> str | BadLine:
    if raw.endswith(b"\n"):
        raw = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
    if number == 1:
        raw = raw.removeprefix(BYTE_ORDER_MARK)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return _bad_line(raw, f"{name}:{number}: {utf8_error(raw, error)}")


def _bad_line(raw: bytes, message: str) -> BadLine:
    return BadLine(raw[:BAD_LINE_BYTES].decode("utf-8", "surrogateescape"), message)
