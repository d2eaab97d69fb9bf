"""An output file that grows by whole windows of lines, survives a kill, and appears complete or not at all.

    FILE.part         what is there so far: every window one write, brought to the disk
    FILE.part.json    the record: how many source lines that answers, how many bytes it is, a hash of those source
                      lines, and what made it; replaced as a whole after every window
    FILE              FILE.part, renamed once all is there

A kill leaves at worst a window in FILE.part that the record does not know of: going on cuts it off. So lines, and the
several lines that may answer one source line, are never there by halves, and never twice. Going on from another
source, or otherwise than begun, is refused: a source may have grown, but the lines already answered must be the same.

One process at a time: FILE.part is locked (`flock`) while it is written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from weft.errors import DataError
from weft.files import save_text

CHUNK = 4096
"""Lines that are skipped together."""


class Record(NamedTuple):
    """What FILE.part.json says."""

    lines: int
    """Source lines that are answered."""
    bytes: int
    """What their answers take."""
    sources: str
    """A hash of these source lines."""
    made_by: dict[str, Any]
    """Names and values that must be the same to go on."""


class ResumableOutput:
    """An output file, to be written window by window: a context that removes what holds nothing, and keeps the rest."""

    def __init__(self, path: Path | str, *, resume: bool = False) -> None:
        path = Path(path)
        self.resume = resume
        self.path = path.resolve() if path.is_symlink() else path
        self.part = self.path.with_name(f"{self.path.name}.part")
        self.note = self.path.with_name(f"{self.path.name}.part.json")
        self.lines = self.bytes = 0
        self._handle: int | None = None
        self._hash = hashlib.blake2b(digest_size=16)
        self._made_by: dict[str, Any] = {}
        self._record: Record | None = None

    def is_complete(self, *, since: Iterable[Path] = ()) -> bool:
        """Whether FILE is there, nothing of it is left to do, and it is not older than any of the files ``since``."""
        if self.part.exists() or not self.path.is_file():
            return False
        record = self._read_note()
        if record is not None and record.bytes != self.path.stat().st_size:
            return False
        made = self.path.stat().st_mtime_ns
        return all(one.stat().st_mtime_ns <= made for one in since if one.exists())

    def __enter__(self) -> ResumableOutput:
        """Open FILE.part and lock it: what cannot be written is refused before any work is done."""
        if self.path.exists() and not self.path.is_file():
            what = "is a folder" if self.path.is_dir() else "is not a regular file"
            raise DataError(f"{self.path}: {what}, so it cannot be replaced by the output; choose another name")
        try:
            self._handle = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._lock(self._handle)
            self._record = self._left()
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise self._unwritable(error) from None
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._handle is not None and self._holds_nothing():
            self.part.unlink(missing_ok=True)
            self.forget()
        self._close()

    def begin(self, made_by: Mapping[str, Any], sources: Iterator[str | None]) -> None:
        """Start at the first source line or, to resume, at the first without an answer: those before it are read."""
        self._made_by = json.loads(json.dumps(dict(made_by)))
        if self._record is not None:
            self._check(self._record)
            self._skip(self._record, sources)
            self.bytes = self._record.bytes
        try:
            os.ftruncate(self._open, self.bytes)
            os.lseek(self._open, 0, os.SEEK_END)
            self._write_note()
        except OSError as error:
            raise self._unwritable(error) from None

    def add(self, sources: Sequence[str], content: bytes) -> None:
        """The answers to the next source lines: all of them, or after a kill none."""
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(self._open, rest) :]
            os.fsync(self._open)
            self._count(sources)
            self.bytes += len(content)
            self._write_note()
        except OSError as error:
            raise self._unwritable(error) from None

    def finish(self) -> None:
        """All is there: FILE.part takes the place of FILE."""
        try:
            os.fsync(self._open)
            self.part.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            self.forget()
        except OSError as error:
            raise self._unwritable(error) from None
        self._close()

    def forget(self) -> None:
        """Remove the record, and what a kill left of one half-written."""
        self.note.unlink(missing_ok=True)
        name = f".{self.note.name}."
        for stray in self.note.parent.iterdir():
            if stray.name.startswith(name) and stray.name.endswith(".part"):
                stray.unlink(missing_ok=True)

    @property
    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("a ResumableOutput is written to within its context")
        return self._handle

    def _size(self) -> int:
        return os.fstat(self._open).st_size

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = os.path.samestat(os.fstat(handle), self.part.stat())  # else another has just finished it
        except (BlockingIOError, FileNotFoundError):
            mine = False
        except OSError:  # a file system without locks
            mine = True
        if not mine:
            raise DataError(f"{self.part}: another process is writing it; wait for it, or choose another name")

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _left(self) -> Record | None:
        """What there is to go on with."""
        if not self._size():
            return None
        record = self._read_note()
        if record is None:
            raise DataError(f"{self.part}: in the way, and without a record of what it is; remove it")
        if record.lines and not self.resume:
            raise DataError(
                f"{self.part}: {record.lines:,} lines of an output that was not finished; "
                "go on with --resume, or remove it to start anew"
            )
        return record if record.lines else None

    def _check(self, record: Record) -> None:
        """Refuse to go on otherwise than begun."""
        names = [*record.made_by, *(name for name in self._made_by if name not in record.made_by)]
        pairs = [(name, record.made_by.get(name), self._made_by.get(name)) for name in names]
        changed = [f"{name} was {_shown(was)}, is {_shown(now)}" for name, was, now in pairs if was != now]
        if changed:
            raise DataError(
                f"{self.part}: begun otherwise: {'; '.join(changed)}; give the same again, or remove it to start anew"
            )
        if self._size() < record.bytes:
            raise DataError(
                f"{self.part}: {self._size():,} bytes, but its record says {record.bytes:,}; remove it to start anew"
            )

    def _skip(self, record: Record, sources: Iterator[str | None]) -> None:
        """Read past the lines that are answered; they must be those that were."""
        lines = (line for line in sources if line is not None)
        while self.lines < record.lines:
            passed = list(islice(lines, min(CHUNK, record.lines - self.lines)))
            if not passed:
                break
            self._count(passed)
        if (self.lines, self._hash.hexdigest()) != (record.lines, record.sources):
            raise DataError(
                f"{self.part}: its first {record.lines:,} source lines were not those of this source; "
                "give the same again, or remove it to start anew"
            )

    def _count(self, sources: Sequence[str]) -> None:
        self._hash.update("".join(line + "\n" for line in sources).encode("utf-8"))
        self.lines += len(sources)

    def _write_note(self) -> None:
        record = Record(self.lines, self.bytes, self._hash.hexdigest(), self._made_by)
        save_text(self.note, json.dumps(record._asdict(), indent=1, ensure_ascii=False) + "\n")

    def _read_note(self) -> Record | None:
        try:
            found = json.loads(self.note.read_text("utf-8"))
            record = Record(**found)
            if not isinstance(record.lines + record.bytes, int) or not isinstance(record.made_by, dict):
                raise TypeError
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise DataError(f"{self.note}: damaged; remove it and {self.part.name} to start anew") from None
        return record

    def _holds_nothing(self) -> bool:
        """Whether FILE.part can be removed and nothing is lost."""
        try:
            record = self._read_note()
        except DataError:
            return False
        return not self._size() or (record is not None and not record.lines)

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(f"{self.path}: cannot write: {error.strerror or error}")


def _shown(value: object) -> str:
    return "not given" if value is None else json.dumps(value, ensure_ascii=False)
