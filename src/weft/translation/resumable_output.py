"""An output file that is written chunk by chunk, can be resumed after a kill, and appears complete or not at all.

    FILE.part         the output so far: one write per chunk, flushed to disk
    FILE.part.json    the progress: how many source lines are done, how many bytes that is, a hash of those lines, and
                      the options of the run; replaced atomically after every chunk
    FILE              FILE.part, renamed when it is complete

A kill leaves at worst one chunk in FILE.part that the progress does not count; resuming truncates it. So output lines,
and the several lines of an n-best list, are never incomplete and never repeated. Resuming with another source or with
other options is refused: lines may have been appended to the source, but those already done must be the same.

Only one process at a time: FILE.part is locked (`flock`) while it is open.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from weft.data.reading.lines import BadLine
from weft.errors import DataError
from weft.files import save_text

CHECKED_BYTES = 1 << 20
"""Bytes of the output in memory at a time while its checksum is computed."""
SKIP_LINES = 4096
"""Source lines that are read at a time when those already done are skipped."""


class Progress(NamedTuple):
    """The content of FILE.part.json."""

    lines: int
    """Source lines that are done."""
    bytes: int
    """The size of their output."""
    sources: str
    """A hash of these source lines."""
    made_by: dict[str, Any]
    """Options that must be the same to resume."""
    skipped: int = 0
    """Source lines among them that were skipped."""
    output: str = ""
    """A checksum of their output; older files have none."""


class ResumableOutput:
    """An output file that is written chunk by chunk: a context manager that keeps FILE.part, unless it is empty."""

    def __init__(self, path: Path | str, *, resume: bool = False) -> None:
        path = Path(path)
        self.resume = resume
        self.path = path.resolve() if path.is_symlink() else path
        self.part = self.path.with_name(f"{self.path.name}.part")
        self.progress_path = self.path.with_name(f"{self.path.name}.part.json")
        self.lines = self.bytes = self.skipped = 0
        self._handle: int | None = None
        self._hash = hashlib.blake2b(digest_size=16)
        self._crc = 0
        self.made_by: dict[str, Any] = {}
        """Options that must be the same to resume."""
        self._resumed: Progress | None = None

    def is_complete(self, *, since: Iterable[Path] = ()) -> bool:
        """Whether FILE exists, nothing of it is left to do, and it is not older than any of the files ``since``."""
        if self.part.exists() or not self.path.is_file():
            return False
        progress = self._read_progress()
        if progress is not None and progress.bytes != self.path.stat().st_size:
            return False
        modified = self.path.stat().st_mtime_ns
        return all(path.stat().st_mtime_ns <= modified for path in since if path.exists())

    def __enter__(self) -> ResumableOutput:
        """Open FILE.part and lock it: a file that cannot be written is refused before any work is done."""
        if self.path.exists() and not self.path.is_file():
            kind = "is a folder" if self.path.is_dir() else "is not a regular file"
            raise DataError(f"{self.path}: {kind}, so it cannot be replaced by the output; choose another name")
        try:
            self._handle = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            self._lock(self._handle)
            self._resumed = self._find_progress()
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise self._unwritable(error) from None
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._handle is not None and self._is_empty():
            self.part.unlink(missing_ok=True)
            self.remove_progress()
        self._close()

    def begin(self, made_by: Mapping[str, Any], sources: Iterator[str | BadLine | None]) -> None:
        """Start at the first source line or, to resume, at the first that is not done: those before it are read."""
        self.made_by = json.loads(json.dumps(dict(made_by)))
        if self._resumed is not None:
            self._check_options(self._resumed)
            self._check_output(self._resumed)
            self._skip_done(self._resumed, sources)
            self.bytes, self.skipped = self._resumed.bytes, self._resumed.skipped
        try:
            os.ftruncate(self._open, self.bytes)
            os.lseek(self._open, 0, os.SEEK_END)
            self._write_progress()
        except OSError as error:
            raise self._unwritable(error) from None

    def add(self, sources: Sequence[str | BadLine], content: bytes, *, skipped: int = 0) -> None:
        """Write the output of the next source lines: all of it or, after a kill, nothing. Some were ``skipped``."""
        try:
            unwritten = memoryview(content)
            while unwritten:
                unwritten = unwritten[os.write(self._open, unwritten) :]
            os.fsync(self._open)
            self._count(sources)
            self.bytes += len(content)
            self._crc = zlib.crc32(content, self._crc)
            self.skipped += skipped
            self._write_progress()
        except OSError as error:
            raise self._unwritable(error) from None

    def finish(self) -> None:
        """Rename FILE.part, which is complete, to FILE."""
        try:
            os.fsync(self._open)
            self.part.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            self.remove_progress()
        except OSError as error:
            raise self._unwritable(error) from None
        self._close()

    def remove_progress(self) -> None:
        """Remove FILE.part.json, and half-written copies of it that a killed process left."""
        self.progress_path.unlink(missing_ok=True)
        name = f".{self.progress_path.name}."
        for stray in self.progress_path.parent.iterdir():
            if stray.name.startswith(name) and stray.name.endswith(".part"):
                stray.unlink(missing_ok=True)

    @property
    def checksum(self) -> str:
        """Checksum of the output so far."""
        return _hex(self._crc)

    @property
    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("a ResumableOutput can be written only inside its `with` block")
        return self._handle

    def _size(self) -> int:
        return os.fstat(self._open).st_size

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = os.path.samestat(os.fstat(handle), self.part.stat())  # else another process has just finished it
        except (BlockingIOError, FileNotFoundError):
            locked = False
        except OSError:  # a file system without locks
            locked = True
        if not locked:
            raise DataError(f"{self.part}: another process is writing it; wait for it, or choose another name")

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _find_progress(self) -> Progress | None:
        """The progress to resume from, if any."""
        if not self._size():
            return None
        progress = self._read_progress()
        if progress is None:
            raise DataError(f"{self.part}: exists, but {self.progress_path.name} does not; remove it")
        if progress.lines and not self.resume:
            raise DataError(
                f"{self.part}: {progress.lines:,} lines of an unfinished output; "
                "continue it with --resume, or remove it to start again"
            )
        return progress if progress.lines else None

    def _check_options(self, progress: Progress) -> None:
        """Refuse to resume with other options."""
        names = [*progress.made_by, *(name for name in self.made_by if name not in progress.made_by)]
        values = [(name, progress.made_by.get(name), self.made_by.get(name)) for name in names]
        changed = [f"{name} was {_shown(old)}, is {_shown(new)}" for name, old, new in values if old != new]
        if changed:
            raise DataError(
                f"{self.part}: written with other options: {'; '.join(changed)}; use the same again, or remove it to "
                "start again"
            )
        if self._size() < progress.bytes:
            raise DataError(
                f"{self.part}: {self._size():,} bytes, but {self.progress_path.name} says {progress.bytes:,}; remove "
                "it to start again"
            )

    def _check_output(self, progress: Progress) -> None:
        """Refuse finished lines that are not as they were written."""
        os.lseek(self._open, 0, os.SEEK_SET)
        unread = progress.bytes
        while unread and (block := os.read(self._open, min(unread, CHECKED_BYTES))):
            self._crc = zlib.crc32(block, self._crc)
            unread -= len(block)
        if progress.output and progress.output != _hex(self._crc):
            raise DataError(
                f"{self.part}: damaged (it does not match its checksum in {self.progress_path.name}); remove both to "
                "start again"
            )

    def _skip_done(self, progress: Progress, sources: Iterator[str | BadLine | None]) -> None:
        """Read past the source lines that are done; they must be the same as before."""
        lines = (line for line in sources if line is not None)
        while self.lines < progress.lines:
            skipped = list(islice(lines, min(SKIP_LINES, progress.lines - self.lines)))
            if not skipped:
                break
            self._count(skipped)
        if (self.lines, self._hash.hexdigest()) != (progress.lines, progress.sources):
            raise DataError(
                f"{self.part}: its first {progress.lines:,} source lines differ from those of this source; "
                "use the same again, or remove it to start again"
            )

    def _count(self, sources: Sequence[str | BadLine]) -> None:
        texts = (line.text if isinstance(line, BadLine) else line for line in sources)
        self._hash.update("".join(text + "\n" for text in texts).encode("utf-8", "surrogateescape"))
        self.lines += len(sources)

    def _write_progress(self) -> None:
        progress = Progress(self.lines, self.bytes, self._hash.hexdigest(), self.made_by, self.skipped, _hex(self._crc))
        save_text(self.progress_path, json.dumps(progress._asdict(), indent=1, ensure_ascii=False) + "\n")

    def _read_progress(self) -> Progress | None:
        try:
            progress = Progress(**json.loads(self.progress_path.read_text("utf-8")))
            counts = progress.lines + progress.bytes + progress.skipped
            if not isinstance(counts, int) or not isinstance(progress.made_by, dict):
                raise TypeError
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, RecursionError):
            raise DataError(f"{self.progress_path}: damaged; remove it and {self.part.name} to start again") from None
        return progress

    def _is_empty(self) -> bool:
        """Whether FILE.part can be removed without losing anything."""
        try:
            progress = self._read_progress()
        except DataError:
            return False
        return not self._size() or (progress is not None and not progress.lines)

    def _unwritable(self, error: OSError) -> DataError:
        try:
            progress = self._read_progress()
        except (OSError, DataError):
            progress = None
        lines = 0 if progress is None else progress.lines
        kept = f"; {lines:,} lines are kept in {self.part.name}: continue with --resume" if lines else ""
        return DataError(f"{self.path}: cannot write: {error.strerror or error}{kept}")


def _hex(checksum: int) -> str:
    return f"{checksum:08x}"


def _shown(value: object) -> str:
    return "not given" if value is None else json.dumps(value, ensure_ascii=False)
