"""Archives of arrays, read in place: .zip, .npz (a zip of .npy files) and uncompressed .tar.

A member is read by its name. Its size is known before it is decompressed and compared with the limits, and no more than
that is ever decompressed: a zip bomb costs nothing. Links, devices and folders are not members, and nothing is
extracted to disk. The table of contents is read when an archive is opened and kept: 24 bytes for a member of a tar
file, about 500 for one of a zip file. Keep a million pictures in tar files.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from array import array
from hashlib import blake2b
from pathlib import Path

import numpy as np

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
    """Members of a tar file: where each begins, and how long it is, by the hashes of their names."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        hashes, starts, sizes = array("Q"), array("q"), array("q")
        try:
            with tarfile.open(path, "r:") as archive:
                while (member := archive.next()) is not None:
                    if member.isreg() and not member.issparse():
                        hashes.append(_hash_of(member.name.removeprefix("./")))
                        starts.append(member.offset_data)
                        sizes.append(member.size)
                    archive.members = []  # type: ignore[attr-defined]  # tarfile would keep them all
            if min(sizes, default=0) < 0:
                raise tarfile.HeaderError("a negative size")
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise DataError(f"{name}: not a tar archive, or a damaged one ({error})") from None
        order = np.argsort(np.frombuffer(hashes, np.uint64), kind="stable")
        self._hashes = np.frombuffer(hashes, np.uint64)[order]
        self._starts, self._sizes = (np.frombuffer(values, np.int64)[order] for values in (starts, sizes))
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __contains__(self, member: str) -> bool:
        return self._row_of(member) is not None

    def read(self, member: str, limits: ArrayLimits) -> bytes:
        """The bytes of a member; KeyError if there is none of that name."""
        row = self._row_of(member)
        if row is None:
            raise KeyError(member)
        start, size = int(self._starts[row]), int(self._sizes[row])
        limits.check_bytes(f"{self.name}/{member}", size)
        data = os.pread(self._handle, size, start)
        if len(data) != size:
            raise DataError(f"{self.name}/{member}: cannot be read from its archive (it ends too early)")
        return data

    def _row_of(self, member: str) -> int | None:
        """Where a member is in the index; of several with one name, the last counts."""
        hashed = np.uint64(_hash_of(member))
        row = int(np.searchsorted(self._hashes, hashed, "right")) - 1
        return row if row >= 0 and self._hashes[row] == hashed else None

    def close(self) -> None:
        os.close(self._handle)


def _hash_of(member: str) -> int:
    return int.from_bytes(blake2b(member.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


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
