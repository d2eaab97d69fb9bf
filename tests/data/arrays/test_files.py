import io
import os
import pickle

import numpy as np
import pytest
from PIL import Image

from fixtures.archives import write_tar, write_zip
from weft.data.arrays.files import ArrayFiles, names_array, names_picture, read_array
from weft.data.arrays.limits import ArrayLimits
from weft.errors import DataError

PICTURE = np.arange(35, dtype=np.uint8).reshape(5, 7)


def png(pixels=PICTURE) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def npy(frames) -> bytes:
    file = io.BytesIO()
    np.save(file, frames)
    return file.getvalue()


@pytest.fixture
def folder(tmp_path):
    corpus = tmp_path / "corpus"
    (corpus / "pictures").mkdir(parents=True)
    (corpus / "pictures" / "a.png").write_bytes(png())
    (tmp_path / "secret.png").write_bytes(png())
    return corpus


def test_names_are_relative_to_the_table(folder):
    files = ArrayFiles.of_table(folder / "train.tsv")
    assert np.array_equal(files.read("pictures/a.png")[:, :, 0], PICTURE)
    assert files.read_bytes("pictures/a.png") == png()


def test_frames_and_their_archives(folder):
    frames = np.ones((3, 2), np.float32)
    (folder / "a.npy").write_bytes(npy(frames))
    np.savez(folder / "one.npz", frames)
    np.savez_compressed(folder / "two.npz", first=frames, second=2 * frames)
    with ArrayFiles(folder) as files:
        assert np.array_equal(files.read("a.npy"), frames)
        assert np.array_equal(files.read("one.npz"), frames)
        assert np.array_equal(files.read("two.npz/second.npy"), 2 * frames)
        with pytest.raises(DataError, match=r"^t:3: two\.npz: 2 arrays, expected 1; name the array: two\.npz/NAME"):
            files.read("two.npz", "t:3")


@pytest.mark.parametrize("write, archive", [(write_zip, "pictures.zip"), (write_tar, "pictures.tar")])
class TestArchives:
    def test_a_member_by_its_path(self, tmp_path, write, archive):
        write(tmp_path / archive, {"a.png": png(), "deep/b.png": png(255 - PICTURE)})
        with ArrayFiles(tmp_path) as files:
            assert np.array_equal(files.read(f"{archive}/a.png")[:, :, 0], PICTURE)
            assert np.array_equal(files.read(f"{archive}/deep/b.png")[:, :, 0], 255 - PICTURE)
            with pytest.raises(DataError, match=f"^{archive}/c.png: no such member of the archive {archive}$"):
                files.read(f"{archive}/c.png")

    @pytest.mark.parametrize("member", ["a.png", "pictures/a.png"])
    @pytest.mark.parametrize("name", ["a.png", "pictures/a.png"])
    def test_archives_beside_the_table_are_searched(self, tmp_path, write, archive, member, name):
        write(tmp_path / archive, {member: png()})
        with ArrayFiles(tmp_path) as files:
            if member == "pictures/a.png" and name == "a.png":
                with pytest.raises(DataError, match=r"^a\.png: no such file$"):
                    files.read(name)
            else:
                assert np.array_equal(files.read(name)[:, :, 0], PICTURE)

    def test_the_folder_may_be_an_archive(self, tmp_path, write, archive):
        write(tmp_path / archive, {"pictures/a.png": png()})
        with ArrayFiles(tmp_path / archive) as files:
            assert np.array_equal(files.read("pictures/a.png")[:, :, 0], PICTURE)
            with pytest.raises(DataError, match=r"^t:3: b\.png: no such member"):
                files.read("b.png", "t:3")

    def test_copies_for_other_processes(self, tmp_path, write, archive):
        write(tmp_path / archive, {"a.png": png()})
        with ArrayFiles(tmp_path) as files:
            files.read("a.png")
            with pickle.loads(pickle.dumps(files)) as copy:
                assert np.array_equal(copy.read("a.png"), files.read("a.png"))


class TestNamesThatLeaveTheFolder:
    @pytest.mark.parametrize("name", ["../secret.png", "pictures/../../secret.png", "ABSOLUTE"])
    def test_refused(self, folder, name):
        name = name.replace("ABSOLUTE", str(folder.parent / "secret.png"))
        with pytest.raises(DataError, match=r"^train\.tsv:17: .*: outside the folder of its table"):
            ArrayFiles(folder).read(name, "train.tsv:17")
        assert ArrayFiles(folder, outside=True).read(name).shape == (5, 7, 1)

    def test_links(self, folder):
        (folder / "link.png").symlink_to(folder.parent / "secret.png")
        (folder / "out").symlink_to(folder.parent)
        (folder / "near.png").symlink_to(folder / "pictures" / "a.png")
        (folder / "loop.png").symlink_to(folder / "loop.png")
        write_zip(folder.parent / "other.zip", {"b.png": png()})
        (folder / "linked.zip").symlink_to(folder.parent / "other.zip")
        files = ArrayFiles(folder)
        for name in ("link.png", "out/secret.png", "linked.zip/b.png", "b.png"):
            with pytest.raises(DataError, match=r": a link that leaves the folder of its table"):
                files.read(name)
        with pytest.raises(DataError, match=r"^loop\.png: "):
            files.read("loop.png")
        assert files.read("near.png").shape == (5, 7, 1)

    def test_members_of_archives_are_names_only(self, folder):
        write_zip(folder / "a.zip", {"x.png": png()})
        with pytest.raises(DataError, match=r"outside the folder|no such member"):
            ArrayFiles(folder).read("a.zip/../../secret.png")


class TestBadFiles:
    @pytest.mark.parametrize(
        "name, message",
        [
            ("b.png", "b.png: no such file"),
            ("pictures", "pictures: is a folder, expected a file"),
            ("", "'': expected the name of a file"),
            ("a\0.png", "'a\\x00.png': expected the name of a file"),
            ("x" * 5000, "too long"),
            ("a.tar.gz", "a.tar.gz: a compressed tar archive"),
            ("pictures/a.png/b", "Not a directory"),
        ],
    )
    def test_one_line_with_the_row(self, folder, name, message):
        with pytest.raises(DataError) as error:
            ArrayFiles(folder).read(name, "train.tsv:17")
        assert str(error.value).startswith("train.tsv:17: ")
        assert message in str(error.value) or "leaves the folder" in str(error.value)
        assert "\n" not in str(error.value)

    def test_pipes_are_not_opened(self, folder):
        os.mkfifo(folder / "pipe.png")
        with pytest.raises(DataError, match=r"^t:1: .*pipe\.png: not a regular file$"):
            ArrayFiles(folder).read("pipe.png", "t:1")

    def test_large_files(self, folder):
        with pytest.raises(DataError, match="larger than 20 bytes"):
            ArrayFiles(folder, limits=ArrayLimits(bytes=20)).read("pictures/a.png")

    def test_an_archive_is_no_array(self, folder):
        write_zip(folder / "x.zip", {"a.png": png()})
        with pytest.raises(DataError, match=r"^x\.zip: an archive; name one of its members: x\.zip/…$"):
            ArrayFiles(folder).read("x.zip")


def test_kinds_are_recognized_by_content():
    assert read_array(png(), "a.wav").shape == (5, 7, 1)
    assert read_array(npy(np.ones((3, 2), np.uint8)), "a.png").shape == (3, 2)
    with pytest.raises(DataError, match="more than the limit of 3"):
        read_array(png(), "a.png", ArrayLimits(bytes=3))


def test_names():
    assert names_array("a/B.PNG") and names_array("a.wav") and not names_array("a cat.")
    assert names_picture("a.jpeg") and not names_picture("a.npy")
