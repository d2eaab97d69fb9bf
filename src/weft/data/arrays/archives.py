"""Archives of arrays, read in place: .zip, .npz (a zip of .npy files) and uncompressed .tar.

A member is read by its name. Its size is known before it is decompressed and compared with the limits, and no more than
that is ever decompressed: a zip bomb costs nothing. Links, devices and folders are not members, and nothing is
extracted to disk. The table of contents is read when an archive is opened, and kept in 24 bytes for a member of a tar
file, 48 for one of a zip file.
"""

from __future__ import annotations

import os
import struct
import tarfile
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np

from weft.data.arrays.limits import ArrayLimits
from weft.errors import DataError

SUFFIXES = (".zip", ".npz", ".tar")
"""Endings of names of archives."""
COMPRESSED_TAR = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
"""Archives without random access: every picture would need everything before it."""
DAMAGES = (tarfile.TarError, zlib.error, struct.error, EOFError, ValueError, OverflowError)
ZIP_TAIL = 22 + 0xFFFF
"""Bytes at the end of a zip file in which its directory is announced, behind which a comment may follow."""
ENCRYPTED, UTF_8, MAX_32 = 1, 0x800, 0xFFFFFFFF


class MemberIndex:
    """Where members are in a file: numbers of each, by the hash of its name. It has no object for a member."""

    def __init__(self, numbers: int) -> None:
        """``numbers``: of each member."""
        self._hashes, self._columns = array("Q"), [array("q") for _ in range(numbers)]
        self._sorted: tuple[np.ndarray, list[np.ndarray]] | None = None

    def add(self, name: str, *numbers: int) -> None:
        self._hashes.append(_hash_of(name))
        for column, number in zip(self._columns, numbers, strict=True):
            column.append(number)

    def finish(self) -> None:
        """All members have been added."""
        hashes_M = np.frombuffer(self._hashes, np.uint64)
        order_M = np.argsort(hashes_M, kind="stable")
        columns = [np.frombuffer(column, np.int64)[order_M] for column in self._columns]
        self._sorted = hashes_M[order_M], columns
        self._hashes, self._columns = array("Q"), []

    def find(self, name: str) -> list[int] | None:
        """The numbers of a member; of several with one name, the last counts."""
        assert self._sorted is not None
        hashes_M, columns = self._sorted
        hashed = np.uint64(_hash_of(name))
        row = int(np.searchsorted(hashes_M, hashed, "right")) - 1
        return [int(column[row]) for column in columns] if row >= 0 and hashes_M[row] == hashed else None


class Archive:
    """Members of a file."""

    kind: str

    def __init__(self, path: Path, name: str) -> None:
        """``name``: of the archive in messages."""
        self.name = name
        self._file = path.open("rb")
        try:
            self._index = self._read_index()
        except DAMAGES as error:
            self._file.close()
            raise DataError(f"{name}: not a {self.kind} archive, or a damaged one ({_reason(error)})") from None
        self._index.finish()

    def __contains__(self, member: str) -> bool:
        return self._index.find(member) is not None

    def read(self, member: str, limits: ArrayLimits) -> bytes:
        """The bytes of a member; KeyError if there is none of that name."""
        numbers = self._index.find(member)
        if numbers is None:
            raise KeyError(member)
        start, size, *others = numbers
        shown = f"{self.name}/{member}"
        limits.check_bytes(shown, size)
        try:
            data = self._read(start, size, *others)
            if len(data) != size:
                raise EOFError("it ends too early")
        except (*DAMAGES, OSError) as error:
            raise DataError(f"{shown}: cannot be read from its archive ({_reason(error)})") from None
        return data

    def close(self) -> None:
        self._file.close()

    def _bytes(self, start: int, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, start)

    def _read_index(self) -> MemberIndex:
        """Start and size of each member, and what else `_read` needs."""
        raise NotImplementedError

    def _read(self, start: int, size: int, *others: int) -> bytes:
        raise NotImplementedError


class TarArchive(Archive):
    """Members of a tar file."""

    kind = "tar"

    def _read_index(self) -> MemberIndex:
        index = MemberIndex(2)
        with tarfile.open(fileobj=self._file, mode="r:") as archive:
            while (member := archive.next()) is not None:
                if member.isreg() and not member.issparse():
                    if member.size < 0:
                        raise tarfile.HeaderError("a negative size")
                    index.add(member.name.removeprefix("./"), member.offset_data, member.size)
                archive.members = []  # type: ignore[attr-defined]  # tarfile would keep them all
        return index

    def _read(self, start: int, size: int, *_: int) -> bytes:
        return self._bytes(start, size)


class ZipArchive(Archive):
    """Members of a zip file, stored or deflated (APPNOTE.TXT 6.3.10; sections in brackets)."""

    kind = "zip"

    def names(self) -> Iterator[str]:
        """The names of all members, in the order of the directory."""
        return (name for name, *_ in self._directory())

    def _read_index(self) -> MemberIndex:
        index = MemberIndex(5)
        for name, *numbers in self._directory():
            index.add(name, *numbers)
        return index

    def _directory(self) -> Iterator[tuple[str, int, int, int, int, int]]:
        """Name, start, size, compressed size, method (−1: encrypted) and checksum of each file (4.3.12)."""
        count, position, shift = self._find_directory()
        file = self._file
        file.seek(position)
        for _ in range(count):
            fields = struct.unpack("<4s4x2H4x3L3H8xL", file.read(46))
            signature, flags, method, checksum, compressed, size, *lengths, start = fields
            if signature != b"PK\1\2":
                raise ValueError("its directory is damaged")
            name, extra, _ = (file.read(length) for length in lengths)
            size, compressed, start = _large_numbers(extra, size, compressed, start)
            if not name.endswith(b"/"):
                decoded = name.decode("utf-8" if flags & UTF_8 else "cp437")
                yield decoded, start + shift, size, compressed, -1 if flags & ENCRYPTED else method, checksum

    def _find_directory(self) -> tuple[int, int, int]:
        """Number of members, where the directory begins, and by what all positions are shifted (4.3.16)."""
        end = self._file.seek(0, os.SEEK_END)
        tail_start = max(end - ZIP_TAIL, 0)
        tail = self._bytes(tail_start, end - tail_start)
        end_record = tail.rfind(b"PK\5\6")
        if end_record < 0:
            raise ValueError("it has no directory")
        last = tail_start + end_record
        count, length, position = struct.unpack("<10xH2L", tail[end_record : end_record + 20])
        locator = self._bytes(last - 20, 20) if last >= 20 else b""
        if locator.startswith(b"PK\6\7"):  # zip64 (4.3.14)
            (last,) = struct.unpack("<8xQ4x", locator)
            signature, count, length, position = struct.unpack("<4s28x3Q", self._bytes(last, 56))
            if signature != b"PK\6\6":
                raise ValueError("its directory is damaged")
        if length > last:
            raise ValueError("its directory is damaged")
        return count, last - length, last - length - position

    def _read(self, start: int, size: int, *others: int) -> bytes:
        compressed, method, checksum = others
        if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            what = "it is encrypted" if method < 0 else f"it is compressed by method {method}; store or deflate it"
            raise ValueError(what)
        if compressed > size + size // 64 + 1024:  # deflated bytes are hardly more than those they stand for
            raise ValueError("its compressed size is wrong")
        signature, name, extra = struct.unpack("<4s22x2H", self._bytes(start, 30))
        if signature != b"PK\3\4":
            raise ValueError("its header is damaged")
        data = self._bytes(start + 30 + name + extra, compressed)
        if method == zipfile.ZIP_DEFLATED:
            inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            data = inflate.decompress(data, size + 1)
        if zlib.crc32(data) != checksum:
            raise ValueError("its checksum is wrong")
        return data


def _large_numbers(extra: bytes, *numbers: int) -> list[int]:
    """Sizes and position of a member, those that need 64 bits from the extra field (4.5.3)."""
    if MAX_32 not in numbers:
        return list(numbers)
    while len(extra) >= 4:
        kind, length = struct.unpack("<2H", extra[:4])
        if kind == 1:
            needed = sum(number == MAX_32 for number in numbers)
            large = iter(struct.unpack(f"<{needed}Q", extra[4 : 4 + 8 * needed]))
            return [next(large) if number == MAX_32 else number for number in numbers]
        extra = extra[4 + length :]
    return list(numbers)


def _reason(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:120]


def _hash_of(member: str) -> int:
    return int.from_bytes(blake2b(member.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


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
