"""Compressed files: ``.gz``, ``.bz2``, ``.xz``, ``.zst``.

The last suffix is the compression, the one before it the format of the contents: ``data.tsv.gz`` holds a TSV file.
A file may consist of several compressed streams end to end, as ``cat`` makes them; all are read, to the last byte. The
readers of Python's standard library ignore what they cannot read after the first; here that is an error.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from weft.errors import DataError

BUFFER_BYTES = 1 << 18


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


def decompressed(path: Path, file: BinaryIO) -> AbstractContextManager[BinaryIO]:
    """The decompressed bytes of a compressed file, which is open."""
    compression = COMPRESSIONS[path.suffix.lower()]
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
