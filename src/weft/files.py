"""Writing a file so that a reader finds the old one or the new one, never half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` when the block ends well: aside, to the disk, renamed."""
    path = Path(path)
    if not path.name:
        raise IsADirectoryError(EISDIR, "is a folder, expected a file", str(path))
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        if error.filename is None or str(error.filename) != str(aside):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # of the file that was asked for
    finally:
        aside.unlink(missing_ok=True)


def save_text(path: Path, content: str) -> None:
    """Write UTF-8 text atomically."""
    with replacing(path) as file:
        file.write(content.encode("utf-8"))
