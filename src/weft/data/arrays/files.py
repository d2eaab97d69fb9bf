"""Files of arrays that the rows of a table name: pictures, frames and sound, alone or as members of archives.

Names are relative to the folder of the table. ``pictures.zip/a.png`` is a member of an archive. If there is no file of
a name, it is sought in the archives in that folder: ``train.tsv`` with ``pictures.zip`` beside it works whether its
rows say ``a.png`` or ``pictures/a.png``.

A table may come from a stranger. Unless its reader was told otherwise, it cannot make weft read a file outside its
folder: neither by ``..`` nor by an absolute path nor by a link. Pipes and devices are never opened. Each failure is a
`DataError` of one line, with the row if the caller says which: ``train.tsv:17: pictures/a.png: no such file``.
"""

from __future__ import annotations

import os
from errno import EISDIR
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any

import numpy as np

from weft.data.arrays import frames, pictures
from weft.data.arrays.archives import Archive, ZipArchive, check_random_access, is_archive, open_archive
from weft.data.arrays.limits import DEFAULT_LIMITS, ArrayLimits
from weft.errors import DataError, plural, quote
from weft.files import read_bounded

SUFFIXES = (*pictures.SUFFIXES, *frames.SUFFIXES)
"""Endings of names of arrays."""
_ZIP = b"PK\x03\x04"


def names_array(text: str) -> bool:
    """Whether a text is the name of a picture, of frames or of sound, by its ending."""
    return text.lower().endswith(SUFFIXES)


def names_picture(text: str) -> bool:
    return text.lower().endswith(pictures.SUFFIXES)


def read_array(data: bytes, name: str, limits: ArrayLimits = DEFAULT_LIMITS) -> np.ndarray:
    """The array in the bytes of a file, whose kind the first bytes tell: a picture (height, width, channels) of uint8,
    or frames (time, features) of uint8, float16 or float32."""
    limits.check_bytes(name, len(data))
    if data.startswith(frames.MAGIC):
        return frames.read_npy(data, name, limits)
    if data.startswith(b"RIFF") and data[8:12] == b"WAVE":
        return frames.read_wav(data, name, limits)
    if data.startswith(_ZIP) and not name.lower().endswith(".npz"):
        raise DataError(f"{name}: an archive; name one of its members: {name}/…")
    return pictures.read_picture(data, name, limits)


class ArrayFiles:
    """Reads the arrays that a table names. It can be pickled; open archives are opened again by the other process."""

    def __init__(self, folder: Path | str, *, limits: ArrayLimits = DEFAULT_LIMITS, outside: bool = False) -> None:
        """``folder``: that of the table, or an archive. ``outside``: names may leave the folder; for tables whose
        author is trusted, such as those that were named on the command line."""
        self.folder = Path(folder)
        self.limits = limits
        self.outside = outside
        self._archives: dict[Path, Archive] = {}
        self._neighbors: dict[Path, list[Path]] = {}

    @classmethod
    def of_table(cls, table: Path | str, *, limits: ArrayLimits = DEFAULT_LIMITS, outside: bool = False) -> ArrayFiles:
        """Files beside a table."""
        return cls(Path(table).parent, limits=limits, outside=outside)

    def read(self, name: str, where: str = "") -> np.ndarray:
        """The array of that name; ``where``: file and row that name it, for messages."""
        return self._located(where, lambda: self._read(name))

    def locate(self, name: str) -> str:
        """A name that stands for the same file, or member of an archive, wherever it is read.

        Archives are searched here: who reads the name is not to look for it anywhere else.
        """
        if not name.strip() or "\0" in name:
            raise DataError(f"{quote(name)}: expected the name of a file")
        path = self._inside(name)
        if self._is_archive or os.path.lexists(path) or self._archive_of(name) is not None:
            return str(path)
        archive, member = self._beside(name)
        return str(archive / member)

    def read_bytes(self, name: str, where: str = "") -> bytes:
        """The content of the file of that name, not decoded."""
        return self._located(where, lambda: self._bytes(name))

    def close(self) -> None:
        for archive in self._archives.values():
            archive.close()
        self._archives.clear()

    def __enter__(self) -> ArrayFiles:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_archives": {}, "_neighbors": {}}

    @property
    def _is_archive(self) -> bool:
        return is_archive(self.folder.name) and self.folder.is_file()

    @staticmethod
    def _located(where: str, read: Any) -> Any:
        try:
            return read()
        except DataError as error:
            raise DataError(f"{where}: {error}" if where else str(error)) from None

    def _read(self, name: str) -> np.ndarray:
        if name.lower().endswith(".npz") and (path := self._inside(name)).is_file():
            archive = self._opened(path, name)
            assert isinstance(archive, ZipArchive)  # by its suffix
            names = [*archive.names()]
            if len(names) != 1:
                raise DataError(f"{name}: {plural(len(names), 'array')}, expected 1; name the array: {name}/NAME.npy")
            return read_array(archive.read(names[0], self.limits), name, self.limits)
        return read_array(self._bytes(name), name, self.limits)

    def _bytes(self, name: str) -> bytes:
        if not name.strip() or "\0" in name:
            raise DataError(f"{quote(name)}: expected the name of a file")
        if self._is_archive:
            return self._member(self.folder, name, name)
        if (archived := self._archive_of(name)) is not None:
            return self._member(*archived, name)
        check_random_access(name)
        try:
            return read_bounded(self._inside(name), max_bytes=self.limits.bytes, error=DataError)
        except FileNotFoundError:
            archive, member = self._beside(name)
            return self._opened(archive, archive.name).read(member, self.limits)
        except IsADirectoryError:
            raise DataError(f"{name}: is a folder, expected a file") from None
        except OSError as error:
            raise DataError(f"{name}: cannot be read: {error.strerror or error}") from None

    def _inside(self, name: str) -> Path:
        """The path of a name, which is refused if it leaves the folder."""
        pure = PurePosixPath(name)
        if not self.outside and (pure.is_absolute() or ".." in pure.parts):
            raise DataError(f"{name}: outside the folder of its table, which may only name files in that folder")
        return self._check_inside(self.folder / name, name)

    def _check_inside(self, path: Path, name: str) -> Path:
        """The path, which is refused if it is a link that leaves the folder."""
        if self.outside:
            return path
        try:
            is_inside = path.resolve().is_relative_to(self.folder.resolve())
        except (OSError, RuntimeError):  # a loop of links, or a name that is too long
            is_inside = False
        if not is_inside:
            raise DataError(f"{name}: a link that leaves the folder of its table, which may only name files there")
        return path

    def _archive_of(self, name: str) -> tuple[Path, str] | None:
        """The archive that a name goes through and the member that it names there; None if there is no such archive."""
        parts = PurePosixPath(name).parts
        for count in range(1, len(parts)):
            if is_archive(parts[count - 1]) and (path := self._inside(str(PurePosixPath(*parts[:count])))).is_file():
                return path, "/".join(parts[count:])
        return None

    def _beside(self, name: str) -> tuple[Path, str]:
        """The archive in a folder on the way to the file that has it, and the member: what follows the folder, or the
        archive."""
        path = self.folder / name
        for folder in path.parents:
            member = path.relative_to(folder).as_posix()
            for archive in self._archives_in(folder) if folder.is_dir() else ():
                for known in (member, member.removeprefix(f"{archive.stem}/")):
                    if known in self._opened(archive, archive.name):
                        return archive, known
            if folder == self.folder or (self.outside and folder != path.parent):
                break
        raise DataError(f"{name}: no such file")

    def _archives_in(self, folder: Path) -> list[Path]:
        if folder not in self._neighbors:
            try:
                names = sorted(path for path in folder.iterdir() if is_archive(path.name))
            except OSError:
                names = []
            self._neighbors[folder] = [path for path in names if self._check_inside(path, path.name).is_file()]
        return self._neighbors[folder]

    def _member(self, path: Path, member: str, name: str) -> bytes:
        archive = self._opened(path, name.removesuffix(f"/{member}"))
        try:
            return archive.read(member, self.limits)
        except KeyError:
            raise DataError(f"{name}: no such member of the archive {path.name}") from None

    def _opened(self, path: Path, name: str) -> Archive:
        if path not in self._archives:
            try:
                self._archives[path] = open_archive(path, name)
            except OSError as error:
                reason = "is a folder" if error.errno == EISDIR else error.strerror or error
                raise DataError(f"{name}: cannot be read: {reason}") from None
        return self._archives[path]
