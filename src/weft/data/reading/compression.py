"""Files as their bytes, whatever they are packed in: ``.gz``, ``.bz2``, ``.xz``, ``.zst``, or nothing.

The end of the name says how a file is packed, what stands before it what is inside: ``data.tsv.gz`` holds a TSV file.
Archives may be several end to end, as ``cat`` makes them; all are read, to the last byte. The readers of Python's
standard library pass over what they cannot read after the first; here that is an error, for it is a loss.

Standard input and named pipes can be read once only, a corpus more than once (to learn a tokenizer, to encode), so
`open_rereadable` copies them to a nameless temporary file at the first time.
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
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from weft.errors import DataError

CHUNK = 1 << 18


class Compression(NamedTuple):
    """A way to pack: what people call it, and what every such file begins with."""

    name: str
    magics: tuple[bytes, ...]


COMPRESSIONS = {
    ".gz": Compression("gzip", (b"\x1f\x8b",)),
    ".bz2": Compression("bzip2", (b"BZh",)),
    ".xz": Compression("xz", (b"\xfd7zXZ\0",)),
    ".zst": Compression("zstd", (b"\x28\xb5\x2f\xfd", *(bytes([low, 0x2A, 0x4D, 0x18]) for low in range(0x50, 0x60)))),
}


class DamagedFileError(Exception):
    """An archive that cannot be read, or not to its end."""


def compression_of(path: Path | str) -> Compression | None:
    """How a file of that name is packed."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def inner_name(path: Path | str) -> str:
    """The name of what is inside: ``data.tsv`` for ``data.tsv.gz``."""
    name = Path(path).name
    return Path(name).stem if compression_of(name) else name


def display_name(path: Path | str) -> str:
    """How messages call a file."""
    return "<standard input>" if str(path) == "-" else str(path)


def open_decompressed(path: Path | str) -> AbstractContextManager[BinaryIO]:
    """The unpacked bytes of a file as they come; ``-`` is standard input, which stays open."""
    if str(path) == "-":
        return nullcontext(_standard_input())
    return _unpacked(Path(path), Path(path).open("rb"))


def open_rereadable(path: Path | str) -> AbstractContextManager[BinaryIO]:
    """The unpacked bytes of a file, from the beginning at every call."""
    if str(path) == "-":
        return _spooled("-", _standard_input())
    mode = Path(path).stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # opening a folder is an error that says so
        return open_decompressed(path)
    if str(path) in _SPOOLS:
        return _unpacked(Path(path), _spooled(str(path), None))
    with Path(path).open("rb") as pipe:
        return _unpacked(Path(path), _spooled(str(path), pipe))


@contextmanager
def reading(name: str, line: Callable[[], int]) -> Iterator[None]:
    """What goes wrong with a file while it is read, as one line: which file, and the last line that was read."""
    try:
        yield
    except DamagedFileError as error:
        after = "" if str(error).startswith("not a") else f" (after line {line()})"
        raise DataError(f"{name}: {error}{after}") from None
    except OSError as error:
        known = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder, expected a file"}
        message = known.get(type(error)) or error.strerror or f"cannot be read: {first_line(error)}"
        raise DataError(f"{name}: {message}") from None


def first_line(error: Exception) -> str:
    """The message of another library's error, of which one line is enough."""
    return str(error).strip().split("\n")[0].strip() or type(error).__name__


def open_compressed(path: Path | str, file: BinaryIO) -> AbstractContextManager[BinaryIO]:
    """A file that packs what is written into another one, as the name says."""
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
        return cast("AbstractContextManager[BinaryIO]", arrow.CompressedOutputStream(_KeptOpen(file), "zstd"))
    return nullcontext(file)


def import_pyarrow(name: str) -> Any:
    """pyarrow, which reads Parquet and zstd; it is large, so only where it is needed."""
    try:
        import pyarrow
    except ImportError:
        raise DataError(f"{name}: needs pyarrow; pip install pyarrow") from None
    return pyarrow


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise DataError("<standard input>: is closed; give a file")
    return sys.stdin.buffer


def _unpacked(path: Path, file: BinaryIO) -> AbstractContextManager[BinaryIO]:
    packing = compression_of(path)
    if packing is None:
        return file
    try:
        start = file.read(6)
        if not start.startswith(packing.magics):
            raise DamagedFileError(f"not a {packing.name} file, though its name ends in {path.suffix}")
        file.seek(0)
        raw = _Zstandard(file, str(path)) if packing.name == "zstd" else _Members(file, packing.name)
        return io.BufferedReader(raw, CHUNK)
    except BaseException:
        file.close()
        raise


class _Members(io.RawIOBase):
    """The contents of archives that stand end to end in one file; zero bytes between or after them are padding."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file
        self.name = name
        self.held = b""
        self._begin()

    def _begin(self) -> None:
        self.decoder: Any = {
            "gzip": lambda: zlib.decompressobj(wbits=31),
            "bzip2": bz2.BZ2Decompressor,
            "xz": lambda: lzma.LZMADecompressor(format=lzma.FORMAT_XZ),
        }[self.name]()
        self.fed = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        most = len(buffer)
        try:
            while True:
                if self.decoder.eof and not self._next():
                    return 0
                found = self._decode(most)
                if found:
                    buffer[: len(found)] = found
                    return len(found)
        except (zlib.error, lzma.LZMAError, EOFError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk's, not the decoder's
                raise
            raise DamagedFileError(f"damaged {self.name} file") from None

    def _next(self) -> bool:
        """Go on to the next archive of the file, if there is one."""
        rest = self.decoder.unused_data.lstrip(b"\0")
        while not rest:
            found = self.file.read(CHUNK)
            if not found:
                return False
            rest = found.lstrip(b"\0")
        self._begin()
        self.held = rest
        return True

    def _decode(self, most: int) -> bytes:
        waiting = getattr(self.decoder, "needs_input", True)  # zlib's has none and gives its leftovers back
        if waiting and not self.held:
            self.held = self.file.read(CHUNK)
            if not self.held:
                raise EOFError
        found: bytes = self.decoder.decompress(self.held, most)
        self.held = getattr(self.decoder, "unconsumed_tail", b"")
        return found

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
            found = self.stream.read(min(len(buffer), 1 << 16))
        except (OSError, ValueError):
            raise DamagedFileError("damaged zstd file") from None
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self.file.close()
        super().close()


class _KeptOpen(io.RawIOBase):
    """A file to write to that somebody else closes."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self.file.write(data)


_SPOOLS: dict[str, tuple[BinaryIO | None, BinaryIO]] = {}
"""For each pipe, by its name, where it came from and the temporary file that it was copied to."""


def _spooled(name: str, pipe: BinaryIO | None) -> BinaryIO:
    known = _SPOOLS.get(name)
    if known is None or (name == "-" and known[0] is not pipe):
        assert pipe is not None
        copy = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (it lives as long as the process)
        shutil.copyfileobj(pipe, copy, CHUNK)
        copy.flush()
        known = _SPOOLS[name] = (pipe if name == "-" else None, copy)
    return cast(BinaryIO, io.BufferedReader(_Copy(known[1].fileno()), CHUNK))


class _Copy(io.RawIOBase):
    """A temporary file from its beginning, with a place of its own in it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.place, os.SEEK_END: os.fstat(self.handle).st_size}[whence]
        self.place = start + offset
        return self.place

    def readinto(self, buffer: Any) -> int:
        found = os.pread(self.handle, len(buffer), self.place)
        buffer[: len(found)] = found
        self.place += len(found)
        return len(found)
