"""Lines of a text file, as every corpus reader sees them.

A line ends at LF or CR LF and nowhere else: a lone CR, U+2028, U+0085 or a form feed is a character of its line, so
that the two files of a parallel corpus cannot go out of step. A byte order mark at the start of a file is dropped.
A packed file (`weft.data.reading.compression`) is unpacked on the way; ``-`` is standard input.

One line is in memory at a time, and no line may be longer than 64 MiB. `chunk_lines` groups them; where lines come from
a pipe or a terminal, `stream_lines` tells when no more are there yet, so that nobody waits for a full window.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from select import select
from typing import BinaryIO

from weft.data.reading.compression import compression_of, display_name, open_decompressed, reading
from weft.errors import DataError

MAX_LINE_BYTES = 1 << 26  # bytes
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PAUSE = 0.05
"""Seconds without a new line after which a pipe is said to have no more for now."""


def read_lines(path: Path | str) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; the file is opened when the first line is asked for."""
    for line in _read(path, pauses=False):
        if line is not None:
            yield line


def stream_lines(path: Path | str) -> Iterator[str | None]:
    """The same lines and, where a pipe or a terminal has no more of them for now, None."""
    return _read(path, pauses=True)


def chunk_lines(lines: Iterable[str | None], *, max_lines: int, max_characters: int) -> Iterator[list[str]]:
    """Group consecutive lines: a chunk ends when it has `max_lines` lines or `max_characters` characters, or at None.

    A chunk's end depends on its own lines alone, so chunking from the start of any chunk gives the same chunks.
    """
    chunk: list[str] = []
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


def _read(path: Path | str, *, pauses: bool) -> Iterator[str | None]:
    name = display_name(path)
    number = 1
    with reading(name, lambda: number - 1), open_decompressed(path) as opened:
        arriving = _Arriving(opened) if pauses and _trickles(path, opened) else None
        readline = opened.readline if arriving is None else arriving.readline
        while raw := readline(MAX_LINE_BYTES + 1):
            if len(raw) > MAX_LINE_BYTES:
                raise DataError(f"{name}:{number}: a line of more than {MAX_LINE_BYTES} bytes; is this a text file?")
            yield _decode(raw, name, number)
            number += 1
            if arriving is not None and not arriving.has_line():
                yield None


class _Arriving:
    """The lines of a pipe or a terminal, and whether the next one is there."""

    def __init__(self, file: BinaryIO) -> None:
        self.handle = file.fileno()
        self.held = bytearray()
        self.looked = 0
        """So many of the bytes held are known to be no line end."""
        self.ended = False

    def readline(self, most: int) -> bytes:
        while not self._is_whole(most):
            self._take()
        end = self.held.find(b"\n", self.looked) + 1
        size = min(end or len(self.held), most)
        line = bytes(self.held[:size])
        del self.held[:size]
        self.looked = 0
        return line

    def has_line(self) -> bool:
        """Whether `readline` would give a line (or the end) at once, or within a moment."""
        while not self._is_whole(MAX_LINE_BYTES + 1):
            if not select([self.handle], [], [], PAUSE)[0]:
                return False
            self._take()
        return True

    def _is_whole(self, most: int) -> bool:
        found = self.held.find(b"\n", self.looked)
        self.looked = len(self.held) if found < 0 else found
        return found >= 0 or self.ended or len(self.held) >= most

    def _take(self) -> None:
        found = os.read(self.handle, 1 << 16)
        self.ended = not found
        self.held += found


def _trickles(path: Path | str, file: BinaryIO) -> bool:
    """Whether more may come later: a pipe, a socket, a terminal."""
    if compression_of(path):
        return False
    try:
        return not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:  # not a file of the system
        return False


def _decode(raw: bytes, name: str, number: int) -> str:
    if raw.endswith(b"\n"):
        raw = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
    if number == 1:
        raw = raw.removeprefix(BYTE_ORDER_MARK)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}:{number}: {invalid(raw, error)}") from None


def invalid(raw: bytes, error: UnicodeDecodeError) -> str:
    """What to say of a line that is no UTF-8."""
    column = len(raw[: error.start].decode("utf-8")) + 1
    return f"not valid UTF-8 (byte 0x{raw[error.start]:02x} at column {column}); convert the file, e.g. with iconv"
