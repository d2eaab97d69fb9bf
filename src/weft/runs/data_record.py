"""data_files.json: fingerprints of the data files that a run was trained with.

A resumed run whose files have changed stops. And the recipe of a run may come from a stranger and name any file of this
machine: its files are read only if their fingerprints are in the record, so that the author of the run knew what is in
them (`weft.data.preparation.recorded_files`).

A fingerprint depends on the contents alone, not on name, place or time. Files of at most `WHOLE_BYTES` together are
hashed as a whole; for more, so that a start does not wait, the hash covers their sizes and some pieces of each at
even distances, the first and last included: a change of the same length between two pieces is not noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import CheckpointError
from weft.files import read_json, save_text

NAME = "data_files.json"
FORMAT = 1
BLOCK_BYTES = 1 << 20
"""Bytes read at a time."""
WHOLE_BYTES = 256 << 20
PIECE_BYTES = 1 << 16
ALL_PIECES = 4096
"""Pieces of all files together: 256 MiB."""
MIN_PIECES, MAX_PIECES = 3, 1024
"""Pieces per file: knowing fewer does not prove knowledge of the file."""


class FileFingerprint(NamedTuple):
    """A file by its contents."""

    name: str
    """File name without its folder; for messages only."""
    size: int
    sha256: str
    pieces: int = 0
    """Number of hashed pieces; 0: the whole file."""

    def is_of(self, path: Path) -> bool:
        """Whether these are the contents of a file; one of another size is not opened."""
        try:
            return path.stat().st_size == self.size and FileFingerprint.of(path, self.pieces).sha256 == self.sha256
        except (OSError, ValueError):
            return False

    @classmethod
    def of(cls, path: Path, pieces: int = 0) -> FileFingerprint:
        """The fingerprint of a regular file; OSError if it cannot be read."""
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # opening a pipe waits for its writer, and a device may have no end
            raise OSError(f"{path}: not a regular file")
        version = state.st_ino, state.st_mtime_ns, state.st_ctime_ns
        return cls(path.name, state.st_size, _hash(str(path.resolve()), state.st_size, pieces, version), pieces)

    @classmethod
    def of_all(cls, paths: Sequence[Path]) -> list[FileFingerprint]:
        """The fingerprints of the files of a corpus; unreadable files have none."""
        files = []
        for path in paths:
            with suppress(OSError, ValueError):
                files.append((path, path.stat().st_size))
        pieces = 0
        if sum(size for _, size in files) > WHOLE_BYTES:
            pieces = min(max(ALL_PIECES // len(files), MIN_PIECES), MAX_PIECES)
        fingerprints = []
        for path, _ in files:
            with suppress(OSError, ValueError):
                fingerprints.append(cls.of(path, pieces))
        return fingerprints


@lru_cache(maxsize=1024)
def _hash(path: str, size: int, pieces: int, version: tuple[int, ...]) -> str:
    """``version``: what changes when the file does, so that it is hashed once."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (unbuffered)
        if not pieces or size <= pieces * PIECE_BYTES:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
        else:
            for piece in range(pieces):
                file.seek(piece * (size - PIECE_BYTES) // (pieces - 1), os.SEEK_SET)
                digest.update(file.read(PIECE_BYTES))
    return digest.hexdigest()


class DataRecord(NamedTuple):
    """The data files of a run, by what they were used for: train, valid, test, former or start."""

    files: Mapping[str, Sequence[FileFingerprint]]

    def has(self, path: Path) -> bool:
        """Whether these are the contents of a recorded file."""
        return any(fingerprint.is_of(path) for files in self.files.values() for fingerprint in files)

    def save(self, folder: Path) -> None:
        files = {use: [fingerprint._asdict() for fingerprint in files] for use, files in self.files.items()}
        save_text(folder / NAME, json.dumps({"weft_data_files": FORMAT, "files": files}, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> DataRecord | None:
        """The record of a run folder; None if it has none."""
        path = folder / NAME
        if not path.is_file():
            return None
        content = read_json(path)
        try:
            if content["weft_data_files"] != FORMAT:
                raise CheckpointError(f"{path}: written by another version of weft; remove it")
            files = {str(use): [_fingerprint(file) for file in files] for use, files in content["files"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CheckpointError(f"{path}: damaged; remove it") from None
        return cls(files)


def _fingerprint(entry: Mapping[str, Any]) -> FileFingerprint:
    pieces = int(entry["pieces"])
    if pieces and not MIN_PIECES <= pieces <= MAX_PIECES:
        raise ValueError
    return FileFingerprint(str(entry["name"]), int(entry["size"]), str(entry["sha256"]), pieces)
