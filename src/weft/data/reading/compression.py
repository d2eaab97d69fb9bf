"""Files as bytes, decompressed: ``.gz``, ``.bz2``, ``.xz``, ``.zst``, or none of these.

The last suffix is the compression, the one before it the format of the contents: ``data.tsv.gz`` holds a TSV file.
A file may consist of several compressed streams end to end, as ``cat`` makes them; all are read, to the last byte. The
readers of Python's standard library ignore what they cannot read after the first; here that is an error.

Standard input and named pipes can be read once only, a corpus more than once (to learn a tokenizer, to encode), so
`open_rereadable` copies them to an unnamed temporary file the first time.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from errno import ENOSPC
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from weft.data.reading.signatures import check_not_binary
from weft.errors import DataError
from weft.runtime.activity import activity

BUFFER_BYTES = 1 << 18
MIN_FREE_BYTES = 1 << 30
"""Space that a temporary file leaves free on its disk."""


class Compression(NamedTuple):
    """A compression format: its name, and the bytes that every such file starts with."""

    name: str
    magics: tuple[bytes, ...]


COMPRESSIONS = {
    ".gz": Compression("gzip", (b"\x1f\x8b",)),
    ".bz2": Compression("bzip2", (b"BZh",)),
    ".xz": Compression("xz", (b"\xfd7zXZ\0",)),
    ".zst": Compression("zstd", (b"\x28\xb5\x2f\xfd", *(bytes([low, 0x2A, 0x4D, 0x18]) for low in range(0x50, 0x60)))),
}


class DamagedFileError(Exception):
    """A compressed file that cannot be read, or not to its end."""


def compression_of(path: Path | str) -> Compression | None:
    """The compression of a file of that name."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def inner_name(path: Path | str) -> str:
    """The name of what is inside: ``data.tsv`` for ``data.tsv.gz``."""
    name = Path(path).name
    return Path(name).stem if compression_of(name) else name


def display_name(path: Path | str) -> str:
    """The name of a file in messages."""
    return "<standard input>" if str(path) == "-" else str(path)


def open_decompressed(path: Path | str) -> AbstractContextManager[BinaryIO]:
    """The decompressed bytes of a file as they come; ``-`` is standard input, which stays open."""
    if str(path) == "-":
        return nullcontext(_standard_input())
    return _decompressed(Path(path), _open(Path(path)))


def _open(path: Path) -> BinaryIO:
    """A file; opening a named pipe takes until another program opens it to write, and an activity says so."""
    if not path.is_fifo():
        return path.open("rb")
    with activity(f"waiting for a program that writes to {path}"):
        return path.open("rb")


def open_rereadable(path: Path | str) -> AbstractContextManager[BinaryIO]:
    """The decompressed bytes of a file, from the beginning at every call."""
    if str(path) == "-":
        return _spooled("-", _standard_input())
    status = Path(path).stat()
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):  # opening a folder is an error that says so
        return open_decompressed(path)
    identity = (Path(path).absolute(), status.st_dev, status.st_ino)
    if identity in _SPOOLS:
        return _decompressed(Path(path), _spooled(str(path), None, identity))
    with _open(Path(path)) as pipe:
        return _decompressed(Path(path), _spooled(str(path), pipe, identity))


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


def open_compressed(path: Path | str, file: BinaryIO) -> AbstractContextManager[BinaryIO]:
    """A file that compresses what is written to it into another one, by the suffix of its name."""
    import gzip  # here because only writing needs it

    suffix = Path(path).suffix.lower()
    if suffix == ".gz":  # no name and no time inside: the same pairs make the same bytes
        return cast("AbstractContextManager[BinaryIO]", gzip.GzipFile("", "wb", fileobj=file, mtime=0))
    if suffix == ".bz2":
        return cast("AbstractContextManager[BinaryIO]", bz2.BZ2File(file, "wb"))
    if suffix == ".xz":
        return cast("AbstractContextManager[BinaryIO]", lzma.LZMAFile(file, "wb"))
    if suffix == ".zst":
        arrow = import_pyarrow(str(path))
        # an Arrow stream closes what it writes to, which is not ours to close
        return cast("AbstractContextManager[BinaryIO]", arrow.CompressedOutputStream(_NotClosing(file), "zstd"))
    return nullcontext(file)


def import_pyarrow(name: str) -> Any:
    """pyarrow, which reads Parquet and zstd; imported only where it is needed."""
    try:
        import pyarrow
    except ImportError:
        raise DataError(f"{name}: needs pyarrow; pip install pyarrow") from None
    return pyarrow


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise DataError("<standard input>: is closed; give a file")
    return sys.stdin.buffer


def _decompressed(path: Path, file: BinaryIO) -> AbstractContextManager[BinaryIO]:
    compression = compression_of(path)
    if compression is None:
        return file
    try:
        start = file.read(6)
        if not start.startswith(compression.magics):
            raise DamagedFileError(f"not a {compression.name} file, though its name ends in {path.suffix}")
        file.seek(0)
        raw = _Zstandard(file, str(path)) if compression.name == "zstd" else _Streams(file, compression.name)
        return io.BufferedReader(raw, BUFFER_BYTES)
    except BaseException:
        file.close()
        raise


class _Streams(io.RawIOBase):
    """Compressed streams end to end in one file; zero bytes between or after them are padding."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file
        self.name = name
        self.buffer = b""
        self._start()

    def _start(self) -> None:
        self.decoder: Any = {
            "gzip": lambda: zlib.decompressobj(wbits=31),
            "bzip2": bz2.BZ2Decompressor,
            "xz": lambda: lzma.LZMADecompressor(format=lzma.FORMAT_XZ),
        }[self.name]()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            while True:
                if self.decoder.eof and not self._next_stream():
                    return 0
                data = self._decode(len(buffer))
                if data:
                    buffer[: len(data)] = data
                    return len(data)
        except (zlib.error, lzma.LZMAError, EOFError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of the decoder
                raise
            raise DamagedFileError(f"damaged {self.name} file") from None

    def _next_stream(self) -> bool:
        """Start the next stream of the file, if there is one."""
        rest = self.decoder.unused_data.lstrip(b"\0")
        while not rest:
            data = self.file.read(BUFFER_BYTES)
            if not data:
                return False
            rest = data.lstrip(b"\0")
        self._start()
        self.buffer = rest
        return True

    def _decode(self, max_bytes: int) -> bytes:
        needs_input = getattr(self.decoder, "needs_input", True)  # zlib has none and returns unconsumed input
        if needs_input and not self.buffer:
            self.buffer = self.file.read(BUFFER_BYTES)
            if not self.buffer:
                raise EOFError
        data: bytes = self.decoder.decompress(self.buffer, max_bytes)
        self.buffer = getattr(self.decoder, "unconsumed_tail", b"")
        return data

    def close(self) -> None:
        self.file.close()
        super().close()


class _Zstandard(io.RawIOBase):
    """The contents of zstd frames, through pyarrow."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        arrow = import_pyarrow(name)
        self.file = file
        self.stream = arrow.CompressedInputStream(arrow.PythonFile(file, mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self.stream.read(min(len(buffer), 1 << 16))
        except (OSError, ValueError):
            raise DamagedFileError("damaged zstd file") from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.file.close()
        super().close()


class _NotClosing(io.RawIOBase):
    """A file to write to whose owner closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self.file.write(data)


def copy_bounded(pipe: BinaryIO, copy: BinaryIO, path: str) -> None:
    """Copy what may have no end to a temporary file; what is not text, or would fill the disk, is an error."""
    from weft.data.reading.lines import MAX_LINE_BYTES  # which imports this module

    name, folder = display_name(path), tempfile.gettempdir()
    is_text = compression_of(path) is None and not path.endswith((".parquet", ".pq"))
    size = line_start = 0
    try:
        with activity(f"reading {name}", "MB") as reading:
            while data := pipe.read(BUFFER_BYTES):
                if is_text and not size:
                    check_not_binary(data, name)
                end = data.rfind(b"\n") + 1
                line_start = size + end if end else line_start
                size += len(data)
                if is_text and size - line_start > MAX_LINE_BYTES:
                    raise DataError(f"{name}: a line of more than {MAX_LINE_BYTES} bytes; is this a text file?")
                if size >> 26 != (size - len(data)) >> 26 and shutil.disk_usage(folder).free < MIN_FREE_BYTES:
                    raise OSError(ENOSPC, "")
                copy.write(data)
                reading.done = size // 1_000_000
        copy.flush()
    except OSError as error:
        if error.errno != ENOSPC:
            raise
        raise DataError(
            f"{name}: {size:,} bytes and more leave less than {MIN_FREE_BYTES:,} bytes free in the temporary folder "
            f"{folder}; write it to a file, or set TMPDIR"
        ) from None


_SPOOLS: dict[object, tuple[BinaryIO | None, BinaryIO]] = {}
"""For each pipe, by its identity, its origin and the temporary file that it was copied to.

The identity is ``-`` or path, device and inode: another pipe of the same name, in another folder or made later, is
another one.
"""


def _spooled(name: str, pipe: BinaryIO | None, identity: object = "-") -> BinaryIO:
    known = _SPOOLS.get(identity)
    if known is None or (name == "-" and known[0] is not pipe):
        assert pipe is not None
        copy = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (it lives as long as the process)
        copy_bounded(pipe, copy, name)
        known = _SPOOLS[identity] = (pipe if name == "-" else None, copy)
    return cast(BinaryIO, io.BufferedReader(_SpoolReader(known[1].fileno()), BUFFER_BYTES))


class _SpoolReader(io.RawIOBase):
    """A temporary file from its beginning, with its own position."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: os.fstat(self.descriptor).st_size}[whence]
        self.position = start + offset
        return self.position

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self.descriptor, len(buffer), self.position)
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)
