"""Standard input and named pipes, copied to an unnamed temporary file when they are first opened.

They can be read once only, a corpus more than once: to learn a tokenizer, to encode it.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from errno import ENOSPC
from typing import Any, BinaryIO, cast

from weft.data.reading import text_files
from weft.data.reading.compression import BUFFER_BYTES, compression_of
from weft.errors import DataError
from weft.runtime.activity import activity

MIN_FREE_BYTES = 1 << 30
"""Space that a temporary file leaves free on its disk."""


def copy_bounded(pipe: BinaryIO, copy: BinaryIO, path: str) -> None:
    """Copy what may have no end to a temporary file; what is not text, or would fill the disk, is an error."""
    name, folder = text_files.display_name(path), tempfile.gettempdir()
    is_text = compression_of(path) is None and not path.endswith((".parquet", ".pq"))
    size, line_start, limit = 0, 0, text_files.MAX_LINE_BYTES
    try:
        with activity(f"reading {name}", "MB") as reading:
            while data := pipe.read(BUFFER_BYTES):
                if is_text and not size:
                    text_files.check_not_binary(data, name)
                end = data.rfind(b"\n") + 1
                line_start = size + end if end else line_start
                size += len(data)
                if is_text and size - line_start > limit:
                    raise DataError(f"{name}: a line of more than {limit} bytes; is this a text file?")
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


SPOOLS: dict[object, tuple[BinaryIO | None, BinaryIO]] = {}
"""The origin of each pipe, by its identity, and the temporary file that it was copied to.

The identity is ``-`` or path, device and inode: another pipe of the same name, in another folder or made later, is
another one.
"""


def spooled(name: str, pipe: BinaryIO | None, identity: object = "-") -> BinaryIO:
    """The contents of a pipe from its beginning; ``pipe``: the pipe itself, if it has not been copied yet."""
    known = SPOOLS.get(identity)
    if known is None or (name == "-" and known[0] is not pipe):
        assert pipe is not None
        copy = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (it lives as long as the process)
        copy_bounded(pipe, copy, name)
        known = SPOOLS[identity] = (pipe if name == "-" else None, copy)
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
