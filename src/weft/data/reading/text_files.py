"""Text files: opened, decompressed, refused if they are no UTF-8 text, and split into blocks of some thousand rows.

One process reads a file and splits it at record ends, without decoding it; a block is cheap to send to another process.
Decoding and parsing is the work of `Block.rows`, in whichever process that runs. Where a file is split depends on the
file alone. A compressed file (`weft.data.reading.compression`) is decompressed; ``-`` is standard input.

Other encodings, compressed files of another name, workbooks and Parquet are recognized by their first bytes. Otherwise
UTF-16 would be read as letters with NUL characters between them, and the message for an archive would be about an
invalid byte. A file in Latin-1 or another encoding of single bytes has no mark: its lines are not valid UTF-8, and each
of them is a row error.
"""

from __future__ import annotations

import codecs
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np

from weft.data.pairs import Row, RowError
from weft.data.reading.compression import COMPRESSIONS, DamagedFileError, decompressed
from weft.errors import DataError
from weft.runtime.activity import activity

CHUNK_BYTES = 1 << 20
"""Bytes that a splitter holds at a time, and about the size of a chunk."""
CHUNK_RECORDS = 8192
"""Records in a chunk, at most."""
MAX_LINE_BYTES = 1 << 26
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SIGNATURE_BYTES = 1 << 12
"""Bytes at the beginning of a file that are examined."""
_NULLS = 0.25
"""The share of NULs above which valid UTF-8 is taken for another encoding; half of the bytes of English UTF-16 are."""
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))
"""Bytes that no text has, in whatever encoding of single bytes."""
_CONTROL_SHARE = 0.05
"""The share of such bytes above which bytes that are not UTF-8 are binary data; a tenth of random bytes are."""
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # begins with that of UTF-16
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_RENAME = "though its name does not say so; decompress it, or rename it to end in"
_SIGNATURES = (
    (
        re.compile(rb"PK\x03\x04.{26}(?:\[Content_Types\]|_rels/|xl/)", re.DOTALL),
        "is an Excel workbook; save it as CSV",
    ),
    (re.compile(rb"PK\x03\x04"), "is a zip archive; unzip it"),
    (re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "is an old Excel or Word file; save it as CSV"),
    (re.compile(rb"\x1f\x8b\x08"), f"is compressed with gzip, {_RENAME} .gz"),
    (re.compile(rb"BZh[1-9]1AY&SY"), f"is compressed with bzip2, {_RENAME} .bz2"),
    (re.compile(rb"\xfd7zXZ\0"), f"is compressed with xz, {_RENAME} .xz"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), f"is compressed with zstd, {_RENAME} .zst"),
    (re.compile(rb"PAR1[\0-\x08\x0e-\x1f]"), "is a Parquet file; rename it to end in .parquet"),
)


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
    """The reason why a record has no pair: the kind of error, and the message that follows its location."""

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
            if len(self._buffer) > MAX_LINE_BYTES and not self._records_end(1):
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
        limit = MAX_LINE_BYTES
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


def utf8_error(raw: bytes, error: UnicodeDecodeError) -> str:
    """The message for a line that is not UTF-8."""
    column = len(raw[: error.start].decode("utf-8")) + 1
    return f"not valid UTF-8 (byte 0x{raw[error.start]:02x} at column {column}); convert the file, e.g. with iconv"


# Opening files


def display_name(path: Path | str) -> str:
    """The name of a file in messages."""
    return "<standard input>" if str(path) == "-" else str(path)


def open_decompressed(path: Path | str) -> AbstractContextManager[BinaryIO]:
    """The decompressed bytes of a file as they come; ``-`` is standard input, which stays open."""
    if str(path) == "-":
        return nullcontext(_standard_input())
    return _contents(Path(path), _open(Path(path)))


def _contents(path: Path, file: BinaryIO) -> AbstractContextManager[BinaryIO]:
    return decompressed(path, file) if path.suffix.lower() in COMPRESSIONS else file


def _open(path: Path) -> BinaryIO:
    """A file; opening a named pipe takes until another program opens it to write, and an activity says so."""
    if not path.is_fifo():
        return path.open("rb")
    with activity(f"waiting for a program that writes to {path}"):
        return path.open("rb")


def open_rereadable(path: Path | str) -> AbstractContextManager[BinaryIO]:
    """The decompressed bytes of a file, from the beginning at every call."""
    if str(path) == "-":
        from weft.data.reading.pipes import spooled

        return spooled("-", _standard_input())
    status = Path(path).stat()
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):  # opening a folder is an error that says so
        return open_decompressed(path)
    from weft.data.reading.pipes import SPOOLS, spooled

    identity = (Path(path).absolute(), status.st_dev, status.st_ino)
    if identity in SPOOLS:
        return _contents(Path(path), spooled(str(path), None, identity))
    with _open(Path(path)) as pipe:
        return _contents(Path(path), spooled(str(path), pipe, identity))


@contextmanager
def read_errors(name: str, last_line: Callable[[], int]) -> Iterator[None]:
    """Turn what goes wrong while a file is read into a `DataError` with its name and the last line that was read."""
    try:
        yield
    except DamagedFileError as error:
        after = "" if str(error).startswith("not a") else f" (after line {last_line()})"
        raise DataError(f"{name}: {error}{after}") from None
    except OSError as error:
        known = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder, expected a file"}
        message = known.get(type(error)) or error.strerror or f"cannot be read: {first_line(error)}"
        raise DataError(f"{name}: {message}") from None


def first_line(error: Exception) -> str:
    """The first line of another library's error message."""
    return str(error).strip().split("\n")[0].strip() or type(error).__name__


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise DataError("<standard input>: is closed; give a file")
    return sys.stdin.buffer


# Files that are no text


def check_text(start: bytes, name: str) -> None:
    """Refuse a file that begins with these bytes if it is known to be no UTF-8 text."""
    if encoding := _encoding(start):
        raise DataError(
            f"{name}: is {encoding} text, expected UTF-8; convert it, e.g. with iconv -f {encoding} -t UTF-8"
        )
    for signature, message in _SIGNATURES:
        if signature.match(start):
            raise DataError(f"{name}: {message}")


def check_not_binary(start: bytes, name: str) -> None:
    """Refuse a pipe or device that begins with neither text nor a known kind of file, and may have no end."""
    start = start[:SIGNATURE_BYTES]
    is_known = any(signature.match(start) for signature, _ in _SIGNATURES)
    if is_known or _encoding(start) or _decode(start, "UTF-8") is not None:
        return
    controls = len(start) - len(start.translate(None, _CONTROLS))
    if controls > _CONTROL_SHARE * len(start):
        raise DataError(f"{name}: is binary data, expected UTF-8 text")


def _encoding(start: bytes) -> str | None:
    """The encoding of several bytes a character that a text has: by its byte order mark or, without one, by its NULs.

    A text in UTF-16 has a NUL in each line end. Decoded it has none.
    """
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    start = start[:SIGNATURE_BYTES]
    nulls = start.count(0)
    if not nulls or (nulls < _NULLS * len(start) and _decode(start, "UTF-8") is not None):
        return None
    for encoding in ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE"):
        text = (_decode(start + bytes(3), encoding) or "").rstrip("\0")  # a first line ends within its line end
        if "\n" in text and "\0" not in text and text.strip():
            return encoding
    return None


def _decode(start: bytes, encoding: str) -> str | None:
    """The beginning of a text, which may end within a character; None if it has another encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(start)
    except UnicodeDecodeError:
        return None
