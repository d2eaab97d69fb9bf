"""Packed files, pipes, and what can be wrong with them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.pairs import Pair
from weft.data.reading import compression as unpacking
from weft.data.reading.compression import compression_of, inner_name, open_rereadable
from weft.data.reading.corpora import TextPairs, read
from weft.data.reading.lines import read_lines
from weft.data.reading.pair_files import read_pairs, write_pairs
from weft.errors import DataError
from weft.runtime.activity import Activity, observing

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}
every = pytest.mark.parametrize("suffix", PACK)


def contents(path: Path) -> bytes:
    with open_rereadable(path) as file:
        return file.read()


def failure(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        list(read(TextPairs((str(path),))))
    with pytest.raises(DataError) as again:
        list(read_lines(path))
    assert str(again.value) == str(caught.value) or "(after line" in str(caught.value)
    return str(caught.value)


@every
@settings(max_examples=30)
@given(pieces=st.lists(st.binary(max_size=40), min_size=1, max_size=4))
def test_archives_end_to_end_are_all_read(
    suffix: str, pieces: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"ends{suffix}"
    path.write_bytes(b"".join(map(PACK[suffix], pieces)))
    assert contents(path) == b"".join(pieces)


@every
def test_large_archives_end_to_end(suffix: str, tmp_path: Path) -> None:
    piece = os.urandom(300_000) + bytes(700_000)
    (tmp_path / f"large{suffix}").write_bytes(PACK[suffix](piece) * 2)
    assert contents(tmp_path / f"large{suffix}") == piece * 2


@every
def test_what_is_no_archive(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.tsv{suffix}"
    called = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}[suffix]
    for content in (b"", b"a\tb\n"):
        path.write_bytes(content)
        assert failure(path) == f"{path}: not a {called} file, though its name ends in {suffix}"


@every
@pytest.mark.parametrize("lines", [3, 100_000])
def test_a_cut_off_archive_says_after_which_line(tmp_path: Path, suffix: str, lines: int) -> None:
    path = tmp_path / f"a.tsv{suffix}"
    whole = PACK[suffix](b"".join(b"%d\tb\n" % number for number in range(lines)))
    called = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}[suffix]
    for left in (len(whole) - 1, len(whole) * 2 // 3, 7):
        path.write_bytes(whole[:left])
        given = []
        with pytest.raises(DataError) as caught:
            for pair in read_pairs(path):
                given.append(int(pair.source))
        assert str(caught.value) == f"{path}: damaged {called} file (after line {len(given)})"
        assert given == list(range(len(given)))


@every
def test_what_stands_after_an_archive_is_not_passed_over(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.tsv{suffix}"
    whole = PACK[suffix](b"a\tb\n")
    for rest in (b"plain text", whole[:-2], whole[:3]):
        path.write_bytes(whole + rest)
        assert ": damaged " in failure(path)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_padding_is_no_damage(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = PACK[suffix](b"a\n")
    path.write_bytes(whole + bytes(512) + whole + bytes(300_000))
    assert contents(path) == b"a\na\n"


@every
def test_a_changed_byte_is_an_error_or_changes_nothing(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    content = b"some\ttext\n" * 5
    whole = PACK[suffix](content)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            found = [f"{pair.source}\t{pair.target}\n" for pair in read_pairs(path)]
        except DataError as error:
            assert "\n" not in str(error)
        else:
            # pyarrow writes zstd frames without a checksum, so there a byte of the text may change
            assert "".join(found).encode() == content or suffix == ".zst"


def test_names() -> None:
    assert inner_name("x/data.tsv.gz") == "data.tsv" and inner_name("data.csv") == "data.csv"
    assert compression_of("A.GZ") and compression_of("-") is None and compression_of("a.gz.tsv") is None


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_written_pairs_are_packed_as_the_name_says(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"p.tsv{suffix}"
    pairs = [Pair("a b", "c", ((0, 0),)), Pair("é", "", None)] * 100
    assert write_pairs(path, pairs) == 200
    packing = compression_of(path)
    assert packing is None or path.read_bytes().startswith(packing.magics)
    assert list(read_pairs(path)) == pairs and [*tmp_path.iterdir()] == [path]
    before = path.read_bytes()
    write_pairs(path, pairs)
    assert path.read_bytes() == before, "the same pairs make the same bytes"


@pytest.mark.parametrize("suffix", PACK)
def test_a_pair_that_cannot_be_written_leaves_the_old_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"p.tsv{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(DataError, match=r"pair 2: a tab in the text"):
        write_pairs(path, [Pair("x", "y"), Pair("\t", "")])
    assert path.read_bytes() == b"old" and [*tmp_path.iterdir()] == [path]


class TestPipes:
    def test_standard_input_can_be_read_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        corpus = TextPairs(("-",))
        for content in (b"a\tb\nc\td", b"e\tf\n"):  # another standard input is another corpus
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
            first = list(read(corpus))
            assert list(read(corpus)) == first and len(first) == content.count(b"\t")
            running = [corpus.blocks() for _ in range(2)]
            assert [next(blocks).name for blocks in running] == ["<standard input>"] * 2, "each at its own place"
        assert corpus.files() == []

    def test_no_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(DataError, match=r"^<standard input>: is closed; give a file$"):
            list(read(TextPairs(("-",))))

    @pytest.mark.parametrize("name", ["pipe", "pipe.gz"])
    def test_a_named_pipe_can_be_read_again(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        os.mkfifo(path)
        content = b"a\tb\n" * 100_000
        packed = gzip.compress(content) if name.endswith(".gz") else content
        writer = threading.Thread(target=lambda: path.write_bytes(packed))
        writer.start()
        assert contents(path) == content and contents(path) == content
        assert TextPairs((str(path),)).files() == [], "there is nothing of it to look at later"
        writer.join()

    def test_pipes_of_one_name_in_two_folders(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process may read the second long after the first."""
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            monkeypatch.chdir(tmp_path / name)
            os.mkfifo("pipe")
            path, content = Path("pipe").absolute(), name.encode()
            writer = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
            writer.start()
            assert contents(Path("pipe")) == content == contents(Path("pipe"))
            writer.join(60)
            assert not writer.is_alive()

    def test_waiting_for_a_program_that_writes_to_it_is_an_activity(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        waiting: list[str] = []

        class Observer:
            def begin(self, activity: Activity) -> None:
                waiting.append(activity.what)
                if len(waiting) == 1:
                    threading.Thread(target=lambda: path.write_bytes(b"a\n")).start()

            def end(self, activity: Activity) -> None: ...

        with observing(Observer()), unpacking.open_decompressed(path) as file:
            assert file.read() == b"a\n"
        assert waiting == [f"waiting for a program that writes to {path}"]

    def test_a_full_disk_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Full(io.BytesIO):
            def write(self, data: object) -> int:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
        monkeypatch.setattr(unpacking.tempfile, "TemporaryFile", Full)
        with pytest.raises(DataError, match=r"^<standard input>: 4 bytes and more leave less than .* or set TMPDIR$"):
            list(read(TextPairs(("-",))))


def test_pyarrow_is_asked_for_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(PACK[".zst"](b"a\tb\n"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"a\.zst: needs pyarrow; pip install pyarrow$"):
        list(read_pairs(path))


def test_a_pipe_without_end_is_refused(tmp_path, monkeypatch):
    def endless(chunk):
        return io.BufferedReader(
            type(
                "Endless",
                (io.RawIOBase,),
                {
                    "readable": lambda self: True,
                    "readinto": lambda self, buffer: buffer.__setitem__(slice(0, len(chunk)), chunk) or len(chunk),
                },
            )()
        )

    with (tmp_path / "copy").open("wb") as copy:
        monkeypatch.setattr("weft.data.reading.lines.MAX_LINE_BYTES", 1 << 20)
        with pytest.raises(DataError, match=r"^/dev/zero: a line of more than 1048576 bytes; is this a text file\?$"):
            unpacking.copy_bounded(endless(b"\0" * 4096), copy, "/dev/zero")
        with pytest.raises(DataError, match=r"^/dev/urandom: is binary data, expected UTF-8 text$"):
            unpacking.copy_bounded(endless(bytes(range(256)) * 16), copy, "/dev/urandom")
        monkeypatch.setattr(unpacking, "MIN_FREE_BYTES", 1 << 60)
        with pytest.raises(DataError, match=r"^<standard input>: 67,[0-9,]+ bytes and more leave less than .* TMPDIR$"):
            unpacking.copy_bounded(endless(b"a\tb\n" * 1024), copy, "-")
