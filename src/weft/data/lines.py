"""Lines of a text file, as every corpus reader sees them.

A line ends at LF or CR LF and nowhere else: a lone CR, U+2028, U+0085 or a form feed is a character of its line, so
that the two files of a parallel corpus cannot go out of step. A byte order mark at the start of a file is dropped.
A file whose name ends in ``.gz`` is unpacked on the way; ``-`` is standard input.

One line is in memory at a time, and no line may be longer than 64 MiB.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from weft.errors import DataError

LONGEST = 1 << 26  # bytes
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path | str) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; the file is opened when the first line is asked for."""
    name = display_name(path)
    number = 1
    try:
        with _open(path) as file:
            while raw := file.readline(LONGEST + 1):
                if len(raw) > LONGEST:
                    raise DataError(f"{name}:{number}: a line of more than {LONGEST} bytes; is this a text file?")
                yield _decode(raw, name, number)
                number += 1
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise DataError(f"{name}: not a gzip file, though its name ends in .gz") from None
        known = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder, expected a file"}
        raise DataError(f"{name}: {known.get(type(error), error.strerror or str(error))}") from None
    except (EOFError, zlib.error):
        raise DataError(f"{name}: damaged gzip file (after line {number - 1})") from None


def display_name(path: Path | str) -> str:
    """How messages call a file."""
    return "<standard input>" if str(path) == "-" else str(path)


def _open(path: Path | str) -> AbstractContextManager[BinaryIO]:
    if str(path) == "-":
        return nullcontext(sys.stdin.buffer)
    if Path(path).suffix == ".gz":
        return cast("AbstractContextManager[BinaryIO]", gzip.open(path, "rb"))
    return Path(path).open("rb")


def _decode(raw: bytes, name: str, number: int) -> str:
    if raw.endswith(b"\n"):
        raw = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
    if number == 1:
        raw = raw.removeprefix(BYTE_ORDER_MARK)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        raise DataError(
            f"{name}:{number}: not valid UTF-8 (byte 0x{raw[error.start]:02x} at column {column}); "
            "convert the file, e.g. with iconv"
        ) from None
