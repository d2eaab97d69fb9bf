"""Standard input and named pipes: they can be read more than once, and must end."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest

from weft.data.reading import pipes, text_files
from weft.data.reading.corpora import TextPairs, read
from weft.data.reading.text_files import open_rereadable
from weft.errors import DataError
from weft.runtime.activity import Activity, observing


def contents(path: Path) -> bytes:
    with open_rereadable(path) as file:
        return file.read()


def test_standard_input_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = TextPairs(("-",))
    for content in (b"a\tb\nc\td", b"e\tf\n"):  # another standard input is another corpus
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        first = list(read(corpus))
        assert list(read(corpus)) == first and len(first) == content.count(b"\t")
        running = [corpus.blocks() for _ in range(2)]
        assert [next(blocks).name for blocks in running] == ["<standard input>"] * 2, "each at its own place"
    assert corpus.files() == []


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match=r"^<standard input>: is closed; give a file$"):
        list(read(TextPairs(("-",))))


@pytest.mark.parametrize("name", ["pipe", "pipe.gz"])
def test_a_named_pipe_can_be_read_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    content = b"a\tb\n" * 100_000
    packed = gzip.compress(content) if name.endswith(".gz") else content
    writer = threading.Thread(target=lambda: path.write_bytes(packed))
    writer.start()
    assert contents(path) == content and contents(path) == content
    assert TextPairs((str(path),)).files() == [], "there is nothing of it to look at later"
    writer.join()


def test_pipes_of_one_name_in_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_waiting_for_a_program_that_writes_to_it_is_an_activity(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    waiting: list[str] = []

    class Observer:
        def begin(self, activity: Activity) -> None:
            waiting.append(activity.what)
            if len(waiting) == 1:
                threading.Thread(target=lambda: path.write_bytes(b"a\n")).start()

        def end(self, activity: Activity) -> None: ...

    with observing(Observer()), text_files.open_decompressed(path) as file:
        assert file.read() == b"a\n"
    assert waiting == [f"waiting for a program that writes to {path}"]


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
    monkeypatch.setattr(pipes.tempfile, "TemporaryFile", Full)
    with pytest.raises(DataError, match=r"^<standard input>: 4 bytes and more leave less than .* or set TMPDIR$"):
        list(read(TextPairs(("-",))))


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
        monkeypatch.setattr("weft.data.reading.text_files.MAX_LINE_BYTES", 1 << 20)
        with pytest.raises(DataError, match=r"^/dev/zero: a line of more than 1048576 bytes; is this a text file\?$"):
            pipes.copy_bounded(endless(b"\0" * 4096), copy, "/dev/zero")
        with pytest.raises(DataError, match=r"^/dev/urandom: is binary data, expected UTF-8 text$"):
            pipes.copy_bounded(endless(bytes(range(256)) * 16), copy, "/dev/urandom")
        monkeypatch.setattr(pipes, "MIN_FREE_BYTES", 1 << 60)
        with pytest.raises(DataError, match=r"^<standard input>: 67,[0-9,]+ bytes and more leave less than .* TMPDIR$"):
            pipes.copy_bounded(endless(b"a\tb\n" * 1024), copy, "-")
