"""Archives of arrays, read in place: .zip, .npz (a zip of .npy files) and uncompressed .tar.

A member is read by its name. Its size is known before it is decompressed and compared with the limits, and no more than
that is ever decompressed: a zip bomb costs nothing. Links, devices and folders are not members, and nothing is
extracted to disk. The table of contents is read when an archive is opened and kept; a million members take about half
a gigabyte.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from pathlib import Path

from weft.data.arrays.limits import ArrayLimits
from weft.errors import DataError

SUFFIXES = (".zip", ".npz", ".tar")
"""Endings of names of archives."""
COMPRESSED_TAR = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
"""Archives without random access: every picture would need everything before it."""


class ZipArchive:
    """Members of a zip file."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        try:
            self._file = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise DataError(f"{name}: not a zip archive, or a damaged one ({error})") from None
        self._members = {info.filename: info for info in self._file.infolist() if not info.is_dir()}

    @property
    def members(self) -> list[str]:
        return list(self._members)

    def __contains__(self, member: str) -> bool:
        return member in self._members

    def read(self, member: str, limits: ArrayLimits) -> bytes:
        """The bytes of a member; KeyError if there is none of that name."""
        info = self._members[member]
        shown = f"{self.name}/{member}"
        limits.check_bytes(shown, info.file_size)
        try:
            with self._file.open(info) as file:
                data = file.read(info.file_size)
                file.read(1)  # compares the checksum, which is behind the last byte
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise DataError(f"{shown}: cannot be read from its archive ({reason[:120]})") from None
        if len(data) != info.file_size:
            raise DataError(f"{shown}: cannot be read from its archive (it ends too early)")
        return data

    def close(self) -> None:
        self._file.close()


class TarArchive:
    """Members of a tar file: where each begins, and how long it is."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._members: dict[str, tuple[int, int]] = {}
        try:
            with tarfile.open(path, "r:") as archive:
                while (member := archive.next()) is not None:
                    if member.isreg() and not member.issparse():
                        self._members[member.name.removeprefix("./")] = (member.offset_data, member.size)
                    archive.members = []  # type: ignore[attr-defined]  # tarfile would keep them all
            if any(size < 0 for _, size in self._members.values()):
                raise tarfile.HeaderError("a negative size")
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise DataError(f"{name}: not a tar archive, or a damaged one ({error})") from None
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def members(self) -> list[str]:
        return list(self._members)

    def __contains__(self, member: str) -> bool:
        return member in self._members

    def read(self, member: str, limits: ArrayLimits) -> bytes:
        """The bytes of a member; KeyError if there is none of that name."""
        start, size = self._members[member]
        limits.check_bytes(f"{self.name}/{member}", size)
        data = os.pread(self._handle, size, start)
        if len(data) != size:
            raise DataError(f"{self.name}/{member}: cannot be read from its archive (it ends too early)")
        return data

    def close(self) -> None:
        os.close(self._handle)


Archive = ZipArchive | TarArchive


def open_archive(path: Path, name: str) -> Archive:
    """The archive in a file; ``name`` is for messages."""
    return (TarArchive if path.suffix.lower() == ".tar" else ZipArchive)(path, name)


def is_archive(name: str) -> bool:
    """Whether a name is that of an archive whose members can be read in place."""
    return name.lower().endswith(SUFFIXES)


def check_random_access(name: str) -> None:
    """Refuse an archive that is compressed as a whole."""
    if name.lower().endswith(COMPRESSED_TAR):
        raise DataError(f"{name}: a compressed tar archive, whose members cannot be read in place; decompress it")
