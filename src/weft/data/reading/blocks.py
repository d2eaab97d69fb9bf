"""Blocks of a corpus: some thousand rows, cheap to split off a file and to send to another process.

One process reads (and decompresses) a file and splits it at record ends, without decoding it. Decoding and parsing is
the work of `Block.rows`, in whichever process that runs. Where a file is split depends on the file alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np

from weft.data.pairs import Row, RowError
from weft.data.reading import lines
from weft.data.reading.compression import DamagedFileError, display_name, open_rereadable, read_errors
from weft.data.reading.lines import BYTE_ORDER_MARK, utf8_error
from weft.data.reading.signatures import check_text
from weft.errors import DataError

CHUNK_BYTES = 1 << 20
"""Bytes that a splitter holds at a time, and about the size of a chunk."""
CHUNK_RECORDS = 8192
"""Records in a chunk, at most."""


class Block(Protocol):
    """Some thousand rows, about 1 MiB, not yet decoded; it can be pickled."""

    @property
    def name(self) -> str:
        """The file, as it is shown to people."""

    def rows(self) -> Iterator[Row]:
        """The rows in order: each with its number in the file, and its pair or error."""


class Chunk(NamedTuple):
    """Whole lines or records of a file, as bytes, and the number of the first line, from 1."""

    data: bytes
    first_line: int


class RecordError(Exception):
    """Why a record has no pair: the kind of error, and the message that follows its location."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def at(self, name: str, number: int) -> RowError:
        return RowError(self.kind, f"{name}:{number}: {self}")


class LineSplitter:
    """Splits a file into chunks of whole lines; a line ends at LF. A byte order mark at the start is dropped."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self.name = display_name(path)
        self.next_line = 1
        """The number of the next line."""
        self._buffer = b""
        self._line_ends = np.zeros(0, np.int64)
        """The end of the whole lines of the buffer."""
        self._started = self._ended = False
        self._failure: Exception | None = None
        """Raised when the lines before it have been taken."""
        self._file: BinaryIO | None = None
        self._opened: AbstractContextManager[BinaryIO] | None = None

    def __enter__(self) -> LineSplitter:
        with self._read_errors():
            self._opened = open_rereadable(self.path)
            self._file = self._opened.__enter__()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._opened is not None:
            self._opened.__exit__(None, None, None)

    def chunks(self) -> Iterator[Chunk]:
        """The rest of the file."""
        while self.fill():
            yield self.take(CHUNK_RECORDS)

    def fill(self) -> bool:
        """Read until the buffer holds about `CHUNK_BYTES` and a whole record; whether there is a record left."""
        min_bytes = max(CHUNK_BYTES, len(BYTE_ORDER_MARK))
        while not (self._ended or self._failure) and (len(self._buffer) < CHUNK_BYTES or not self._records_end(1)):
            self._read(min_bytes)
            min_bytes = max(min_bytes, 2 * len(self._buffer))  # a long record is searched again at twice the size
            if len(self._buffer) > lines.MAX_LINE_BYTES and not self._records_end(1):
                break
        self._refuse_long_lines()
        if self._records_end(1):
            return True
        if self._failure:
            with self._read_errors():
                raise self._failure
        return False

    @property
    def buffered_lines(self) -> int:
        """Number of whole lines in the buffer."""
        return len(self._line_ends)

    def take(self, max_records: int) -> Chunk:
        """The first records of the buffer, which no longer holds them."""
        end = self._records_end(max_records)
        chunk = Chunk(self._buffer[:end], self.next_line)
        self._buffer = self._buffer[end:]
        taken = int(np.searchsorted(self._line_ends, end, side="right"))
        self._line_ends = self._line_ends[taken:] - end
        self.next_line += taken
        return chunk

    def count_lines(self) -> int:
        """Read to the end; how many lines the whole file has."""
        while self.fill():
            self.take(self.buffered_lines)
        return self.next_line - 1

    def _without_preamble(self, start: bytes) -> bytes:
        """The beginning of the file without what precedes the first record."""
        return start

    def _records_end(self, max_records: int) -> int:
        """Number of bytes of the first records of the buffer; 0 if it holds no whole record."""
        return int(self._line_ends[min(max_records, len(self._line_ends)) - 1]) if len(self._line_ends) else 0

    def _read(self, min_bytes: int) -> None:
        """Read until the buffer holds that many bytes, or the file ends or fails."""
        assert self._file is not None
        parts, size = [self._buffer], len(self._buffer)
        try:
            while size < min_bytes:
                more = self._file.read1(CHUNK_BYTES)  # type: ignore[attr-defined]
                if not more:
                    self._ended = True
                    break
                parts.append(more)
                size += len(more)
        except (DamagedFileError, OSError) as error:
            self._failure = error
        self._buffer = b"".join(parts)
        if not self._started:
            self._started = True
            check_text(self._buffer, self.name)
            self._buffer = self._without_preamble(self._buffer.removeprefix(BYTE_ORDER_MARK))
        self._line_ends = np.flatnonzero(np.frombuffer(self._buffer, np.uint8) == ord("\n")) + 1
        if self._ended and self._buffer and not self._buffer.endswith(b"\n"):
            self._line_ends = np.append(self._line_ends, len(self._buffer))

    def _refuse_long_lines(self) -> None:
        limit = lines.MAX_LINE_BYTES
        if len(self._buffer) <= limit:
            return
        lengths = np.diff(np.append(self._line_ends, len(self._buffer)), prepend=0)
        long = np.flatnonzero(lengths > limit)
        if len(long):
            self._line_ends = self._line_ends[: long[0]]
            where = f"{self.name}:{self.next_line + long[0]}"
            self._failure = DataError(f"{where}: a line of more than {limit} bytes; is this a text file?")

    def _read_errors(self) -> AbstractContextManager[None]:
        return read_errors(self.name, lambda: self.next_line - 1)


def decode_lines(chunk: Chunk, name: str) -> list[str | RowError]:
    """The lines of a chunk without their ends, and an error for each that is not UTF-8."""
    try:
        text = chunk.data.decode("utf-8")
    except UnicodeDecodeError:
        raw_lines = chunk.data.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")
        return [decode_line(raw, name, number) for number, raw in enumerate(raw_lines, chunk.first_line)]
    decoded: list[str | RowError] = [*text.replace("\r\n", "\n").split("\n")]
    if text.endswith("\n"):
        decoded.pop()
    return decoded


def decode_line(raw: bytes, name: str, number: int) -> str | RowError:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return RowError("encoding", f"{name}:{number}: {utf8_error(raw, error)}")
