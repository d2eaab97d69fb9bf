import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.archives import write_tar, write_zip
from weft.data.arrays.archives import check_random_access, is_archive, open_archive
from weft.data.arrays.limits import DEFAULT_LIMITS, ArrayLimits
from weft.errors import DataError


@pytest.mark.parametrize("name", ["a.zip", "a.tar"])
class TestArchives:
    def write(self, path, members):
        (write_zip if path.suffix == ".zip" else write_tar)(path, members)
        return open_archive(path, path.name)

    def test_members_are_read_by_name(self, tmp_path, name):
        archive = self.write(tmp_path / name, {"x.png": b"1", "folder/y.png": b"22"})
        if name == "a.zip":
            assert [*archive.names()] == ["x.png", "folder/y.png"]
        assert archive.read("folder/y.png", DEFAULT_LIMITS) == b"22"
        with pytest.raises(KeyError):
            archive.read("y.png", DEFAULT_LIMITS)
        archive.close()

    def test_large_members_are_refused(self, tmp_path, name):
        archive = self.write(tmp_path / name, {"x.png": bytes(1000)})
        with pytest.raises(DataError, match=rf"^{name}/x.png: 1,000 bytes, more than the limit of 999$"):
            archive.read("x.png", ArrayLimits(bytes=999))
        archive.close()

    def test_damaged_archives(self, tmp_path, name):
        (tmp_path / name).write_bytes(b"not an archive")
        with pytest.raises(DataError, match=rf"^{name}: not a \w+ archive, or a damaged one"):
            open_archive(tmp_path / name, name)


def test_a_zip_that_declares_less_than_it_has_expands_no_further(tmp_path):
    path = tmp_path / "bomb.zip"
    write_zip(path, {"x.png": bytes(1_000_000)})
    path.write_bytes(path.read_bytes().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    archive = open_archive(path, "bomb.zip")
    with pytest.raises(DataError, match=r"^bomb\.zip/x\.png: cannot be read from its archive"):
        archive.read("x.png", ArrayLimits(bytes=100))
    archive.close()


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_of_a_zip_are_those_that_python_reads(tmp_path, compression, monkeypatch):
    """Also with folders, a comment, 64-bit sizes, and more than 65,535 members."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    path = tmp_path / "a.zip"
    names = ["ä.png", "folder/y.png", *(f"{number}.png" for number in range(66_000 if compression else 3))]
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.mkdir("folder")
        for name in names:
            with archive.open(name, "w", force_zip64=True) as file:
                file.write(name.encode() * 40)
        archive.comment = b"about these pictures"
    opened = open_archive(path, "a.zip")
    assert [*opened.names()] == names
    for name in (*names[:5], names[-1]):
        assert opened.read(name, DEFAULT_LIMITS) == name.encode() * 40
    opened.close()


def test_a_zip_behind_other_bytes(tmp_path):
    path = tmp_path / "a.zip"
    write_zip(path, {"x.png": b"123"})
    path.write_bytes(b"#!/bin/sh" + path.read_bytes())
    opened = open_archive(path, "a.zip")
    assert opened.read("x.png", DEFAULT_LIMITS) == b"123"
    opened.close()


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_damaged_zip_is_an_error_of_one_line(tmp_path_factory, position, value):
    path = tmp_path_factory.mktemp("zip") / "a.zip"
    write_zip(path, {"x.png": b"123" * 20})
    data = bytearray(path.read_bytes())
    data[min(position, len(data) - 1)] = value
    path.write_bytes(bytes(data))
    try:
        assert open_archive(path, "a.zip").read("x.png", DEFAULT_LIMITS) == b"123" * 20
    except KeyError:
        pass
    except DataError as error:
        assert "\n" not in str(error)


def test_an_encrypted_member(tmp_path):
    path = tmp_path / "a.zip"
    write_zip(path, {"x.png": b"123"}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(bytes(data))
    archive = open_archive(path, "a.zip")
    with pytest.raises(DataError, match=r"^a\.zip/x\.png: cannot be read from its archive \(.*encrypted"):
        archive.read("x.png", DEFAULT_LIMITS)
    archive.close()


def test_links_are_no_members(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("x.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    opened = open_archive(path, "a.tar")
    with pytest.raises(KeyError):
        opened.read("x.png", DEFAULT_LIMITS)
    opened.close()


def test_members_of_a_tar_are_found_by_name_and_of_several_the_last(tmp_path):
    path = tmp_path / "a.tar"
    write_tar(path, {f"{number}.png": bytes([number]) * 3 for number in range(50)})
    with tarfile.open(path, "a") as archive:
        again = tarfile.TarInfo("./7.png")
        again.size = 2
        archive.addfile(again, io.BytesIO(b"ab"))
    opened = open_archive(path, "a.tar")
    assert [opened.read(f"{number}.png", DEFAULT_LIMITS) for number in (0, 7, 49)] == [bytes(3), b"ab", bytes([49]) * 3]
    with pytest.raises(KeyError):
        opened.read("50.png", DEFAULT_LIMITS)
    opened.close()


def test_a_truncated_tar(tmp_path):
    path = tmp_path / "a.tar"
    write_tar(path, {"x.png": bytes(5000)})
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(DataError, match=r"^a\.tar(: not a tar archive|/x\.png: cannot be read)"):
        open_archive(path, "a.tar").read("x.png", DEFAULT_LIMITS)


def test_a_tar_with_a_negative_size(tmp_path):
    path = tmp_path / "a.tar"
    member = tarfile.TarInfo("x.png")
    member.size = -5
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(DataError, match=r"^a\.tar: not a tar archive, or a damaged one"):
        open_archive(path, "a.tar")


def test_names():
    assert is_archive("A.ZIP") and is_archive("a.tar") and not is_archive("a.tar.gz")
    with pytest.raises(DataError, match=r"^a\.tgz: a compressed tar archive.*; decompress it$"):
        check_random_access("a.tgz")
