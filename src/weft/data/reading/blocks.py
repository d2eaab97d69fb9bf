"""Pieces of a file that hold whole lines or records: cheap to cut, cheap to send to another process.

One process reads (and unpacks) and cuts; it does not look at what the bytes say, beyond where records end. Decoding and
parsing is the work of `Block.rows`, wherever that runs. Where pieces are cut depends on the file alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np

from weft.data.pairs import Row, RowError
from weft.data.reading import lines
from weft.data.reading.compression import DamagedFileError, display_name, open_rereadable, reading
from weft.data.reading.lines import BYTE_ORDER_MARK, invalid
from weft.errors import DataError

SIZE = 1 << 20
"""Bytes that a reader likes to hold; a piece is about as large."""
MOST = 8192
"""Records in a piece."""


class Block(Protocol):
    """Some thousand rows, about 1 MiB, not yet decoded; it can be pickled."""

    @property
    def name(self) -> str:
        """The file, as it is shown to people."""

    def rows(self) -> Iterator[Row]:
        """The rows in order: for each its number in the file and its pair, or what is wrong with it."""


class Piece(NamedTuple):
    """Whole lines or records of a file, as bytes, and the number of the first line, from 1."""

    data: bytes
    first: int


class RecordError(Exception):
    """Why a record gives no pair: the kind of the problem, and what to say after the place."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def at(self, name: str, number: int) -> RowError:
        return RowError(self.kind, f"{name}:{number}: {self}")


class LineSplitter:
    """Cuts a file into pieces of whole lines; a line ends at LF. A byte order mark at the beginning is dropped."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self.name = display_name(path)
        self.number = 1
        """Of the line that comes next."""
        self._held = b""
        self._ends = np.zeros(0, np.int64)
        """Where the whole lines held end."""
        self._begun = self._ended = False
        self._failure: Exception | None = None
        """What ends the file before its end; raised when the lines before it have been given."""
        self._file: BinaryIO | None = None
        self._opened: AbstractContextManager[BinaryIO] | None = None

    def __enter__(self) -> LineSplitter:
        with self._telling():
            self._opened = open_rereadable(self.path)
            self._file = self._opened.__enter__()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._opened is not None:
            self._opened.__exit__(None, None, None)

    def pieces(self) -> Iterator[Piece]:
        """All the file has, from here on."""
        while self.fill():
            yield self.take(MOST)

    def fill(self) -> bool:
        """Hold about `SIZE` bytes and a whole record, if there are so many; whether there is a record left."""
        least = max(SIZE, len(BYTE_ORDER_MARK))
        while not (self._ended or self._failure) and (len(self._held) < SIZE or not self._whole(1)):
            self._read(least)
            least = max(least, 2 * len(self._held))  # a long record is looked at again when twice as much is there
            if len(self._held) > lines.MAX_LINE_BYTES and not self._whole(1):
                break
        self._refuse_long()
        if self._whole(1):
            return True
        if self._failure:
            with self._telling():
                raise self._failure
        return False

    @property
    def lines(self) -> int:
        """How many whole lines are held."""
        return len(self._ends)

    def take(self, most: int) -> Piece:
        """Some of the records held, in order."""
        end = self._whole(most)
        piece = Piece(self._held[:end], self.number)
        self._held = self._held[end:]
        taken = int(np.searchsorted(self._ends, end, side="right"))
        self._ends = self._ends[taken:] - end
        self.number += taken
        return piece

    def count_all(self) -> int:
        """Read to the end, and how many lines the whole file has."""
        while self.fill():
            self.take(self.lines)
        return self.number - 1

    def _whole(self, most: int) -> int:
        """How many bytes the first so many whole records take."""
        return int(self._ends[min(most, len(self._ends)) - 1]) if len(self._ends) else 0

    def _read(self, least: int) -> None:
        """Read until so many bytes are held, or the file ends, or fails."""
        assert self._file is not None
        found, size = [self._held], len(self._held)
        try:
            while size < least:
                more = self._file.read1(SIZE)  # type: ignore[attr-defined]
                if not more:
                    self._ended = True
                    break
                found.append(more)
                size += len(more)
        except (DamagedFileError, OSError) as error:
            self._failure = error
        self._held = b"".join(found)
        if not self._begun:
            self._begun = True
            self._held = self._held.removeprefix(BYTE_ORDER_MARK)
        self._ends = np.flatnonzero(np.frombuffer(self._held, np.uint8) == 10) + 1
        if self._ended and self._held and not self._held.endswith(b"\n"):
            self._ends = np.append(self._ends, len(self._held))

    def _refuse_long(self) -> None:
        if len(self._held) <= lines.MAX_LINE_BYTES:
            return
        lengths = np.diff(np.append(self._ends, len(self._held)), prepend=0)
        long = np.flatnonzero(lengths > lines.MAX_LINE_BYTES)
        if len(long):
            self._ends = self._ends[: long[0]]
            where = f"{self.name}:{self.number + long[0]}"
            self._failure = DataError(
                f"{where}: a line of more than {lines.MAX_LINE_BYTES} bytes; is this a text file?"
            )

    def _telling(self) -> AbstractContextManager[None]:
        return reading(self.name, lambda: self.number - 1)


class CsvSplitter(LineSplitter):
    """Cuts a file into pieces of whole CSV records, in which a line end may be quoted.

    A quote opens a field only at its beginning. What follows a quote that is never closed is one piece.
    """

    def __init__(self, path: Path | str, delimiter: str) -> None:
        super().__init__(path)
        self.delimiter = delimiter

    def _whole(self, most: int) -> int:
        if b'"' not in self._held:
            return super()._whole(most)
        found = csv_records(self.delimiter, most).match(self._held)
        end = found.end() if found else 0
        if not end and self._ended:  # the last record without its line end, or a quote that is never closed
            return len(self._held)
        return end

    def _refuse_long(self) -> None:
        if len(self._held) > lines.MAX_LINE_BYTES and not 0 < self._whole(1) <= lines.MAX_LINE_BYTES:
            self._held, self._ends = b"", self._ends[:0]
            message = f"a record of more than {lines.MAX_LINE_BYTES} bytes; is a quote never closed?"
            self._failure = DataError(f"{self.name}:{self.number}: {message}")


@cache
def csv_records(delimiter: str, most: int) -> re.Pattern[bytes]:
    """So many whole records of CSV, line ends included."""
    d = re.escape(delimiter.encode())
    field = rb'(?:"(?:[^"]++|"")*+"[^%b\n]*+|[^"%b\n][^%b\n]*+)?+' % (d, d, d)
    return re.compile(rb"(?:%b(?:%b%b)*+\n){1,%d}+" % (field, d, field, most))


def decoded(piece: Piece, name: str) -> list[str | RowError]:
    """The lines of a piece without their ends, and which of them are no UTF-8."""
    try:
        text = piece.data.decode("utf-8")
    except UnicodeDecodeError:
        return [decoded_line(raw, name, number) for number, raw in enumerate(_cut(piece.data), piece.first)]
    found: list[str | RowError] = [*text.replace("\r\n", "\n").split("\n")]
    if text.endswith("\n"):
        found.pop()
    return found


def decoded_line(raw: bytes, name: str, number: int) -> str | RowError:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return RowError("encoding", f"{name}:{number}: {invalid(raw, error)}")


def _cut(data: bytes) -> list[bytes]:
    found = data.replace(b"\r\n", b"\n").split(b"\n")
    if data.endswith(b"\n"):
        found.pop()
    return found
