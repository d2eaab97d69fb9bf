"""Lines of files and of pipes, and chunks of lines."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.reading import lines, text_files
from weft.data.reading.lines import chunk_lines, read_lines, stream_lines
from weft.errors import DataError


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\n\r\n\nb", ["a", "", "", "b"]),
        (b"a\rb\nc\r", ["a\rb", "c\r"]),  # a lone CR is a character
        (b"a\r\r\n", ["a\r"]),
        ("a\u2028b\u2029c\x85d\x0ce\x0bf\x1cg\n".encode(), ["a\u2028b\u2029c\x85d\x0ce\x0bf\x1cg"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),  # only the first is a byte order mark
        (b"\xef\xbb\xbf", [""]),
        (b"\0\n \t\n", ["\0", " \t"]),
    ],
)
def test_known_answers(tmp_path, content, expected):
    path = tmp_path / "text"
    path.write_bytes(content)
    assert list(read_lines(path)) == expected
    assert list(read_lines(str(path))) == expected
    (tmp_path / "text.gz").write_bytes(gzip.compress(content))
    assert list(read_lines(tmp_path / "text.gz")) == expected


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xc3\xa9\r\nb\xff"), encoding="ascii"))
    found = read_lines("-")
    assert next(found) == "é"
    with pytest.raises(DataError, match=r"^<standard input>:2: not valid UTF-8 \(byte 0xff at column 2\); "):
        next(found)
    assert not sys.stdin.buffer.closed


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"ok\n12345678901\xff\n", ":2: not valid UTF-8 (byte 0xff at column 12)"),
        (b"\xc3\xa9\xc3\xa9\x80", ":1: not valid UTF-8 (byte 0x80 at column 3)"),  # columns are characters
        (b"a\xc3\n\xa9\n", ":1: not valid UTF-8 (byte 0xc3 at column 2)"),
        (b"\xed\xa0\x80", ":1: not valid UTF-8 (byte 0xed at column 1)"),
    ],
)
def test_invalid_utf8(tmp_path, content, where):
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert str(caught.value) == f"{path}{where}; convert the file, e.g. with iconv"


@given(st.binary())
def test_any_bytes_give_lines_or_one_message(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_bytes(content)
    try:
        found = list(read_lines(path))
    except DataError as error:
        assert "\n" not in str(error)
        with pytest.raises(UnicodeDecodeError):
            content.decode()
    else:
        text = content.decode().removeprefix("\ufeff")
        *ended, last = text.split("\n")
        expected = [line.removesuffix("\r") for line in ended] + ([last] if last else [])
        assert found == (expected if text else [""] * bool(content))


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\0")).filter(lambda line: line[-1:] != "\r"))
)
def test_written_lines_come_back(tmp_path_factory, written):
    """But for NULs: a file of them may be refused as UTF-16."""
    path = tmp_path_factory.getbasetemp() / "lines"
    if written and written[0].startswith("\ufeff"):
        return
    path.write_bytes("".join(line + "\n" for line in written).encode())
    assert list(read_lines(path)) == written


def failure(path) -> str:
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    return str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    assert failure(tmp_path / "none") == f"{tmp_path / 'none'}: no such file"
    assert failure(tmp_path) == f"{tmp_path}: is a folder, expected a file"
    assert failure(tmp_path / ("a" * 300)).endswith(": File name too long")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path):
    path = tmp_path / "secret"
    path.touch(mode=0o000)
    assert failure(path) == f"{path}: Permission denied"


def test_no_permission_as_anybody(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lines, "open_decompressed", refuse)
    assert failure(tmp_path / "secret") == f"{tmp_path / 'secret'}: Permission denied"


def test_damaged_gzip(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(b"plain text\n")
    assert failure(path) == f"{path}: not a gzip file, though its name ends in .gz"
    whole = gzip.compress(b"a\n" * 10)
    path.write_bytes(whole[:-6])
    assert failure(path) == f"{path}: damaged gzip file (after line 10)"
    path.write_bytes(whole[:12] + b"\xff\xff" + whole[14:])
    assert failure(path) == f"{path}: damaged gzip file (after line 0)"


def test_a_line_has_a_longest_length(tmp_path, monkeypatch):
    path = tmp_path / "binary"
    path.write_bytes(b"a\n" + b"x" * 100)
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 99)
    assert failure(path) == f"{path}:2: a line of more than 99 bytes; is this a text file?"


def test_lines_are_read_one_at_a_time(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"first\n" + b"x" * 100_000 + b"\n\xff")
    found = read_lines(path)
    assert next(found) == "first"  # the bad byte further on does not matter yet


LINES = st.lists(st.one_of(st.none(), st.text(max_size=5)))


@given(LINES, st.integers(1, 4), st.integers(1, 9))
def test_chunks(stream: list[str | None], max_lines: int, characters: int) -> None:
    found = list(chunk_lines(stream, max_lines=max_lines, max_characters=characters))
    assert [line for chunk in found for line in chunk] == [line for line in stream if line is not None]
    assert all(1 <= len(chunk) <= max_lines for chunk in found)
    assert all(len("".join(chunk[:-1])) < characters for chunk in found), "full with its last line, not before"
    place = 0
    for chunk in found:  # each ends for a reason
        while stream[place] is None:
            place += 1
        place += len(chunk)
        pause = place < len(stream) and stream[place] is None
        assert len(chunk) == max_lines or len("".join(chunk)) >= characters or pause or place == len(stream)


@given(st.lists(st.text(max_size=5)), st.integers(1, 4), st.integers(1, 9))
def test_chunks_are_the_same_from_any_on(stream: list[str], max_lines: int, characters: int) -> None:
    found = list(chunk_lines(stream, max_lines=max_lines, max_characters=characters))
    for place in range(len(found)):
        rest = stream[sum(map(len, found[:place])) :]
        assert list(chunk_lines(rest, max_lines=max_lines, max_characters=characters)) == found[place:]


def test_a_chunk_reads_no_further_than_it_needs() -> None:
    taken: list[str] = []

    def stream() -> Iterator[str]:
        for line in "abcdef":
            taken.append(line)
            yield line

    found = chunk_lines(stream(), max_lines=2, max_characters=100)
    assert next(found) == ["a", "b"] and taken == ["a", "b"]


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], object]]:
    """Standard input is a pipe; what it is given."""
    monkeypatch.setattr(lines, "IDLE_SECONDS", 0.01)
    reading, writing = os.pipe()
    handle = [writing]

    def write(content: bytes) -> None:
        if content:
            os.write(handle[0], content)
        else:
            os.close(handle.pop())

    with os.fdopen(reading, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield write
        for left in handle:
            os.close(left)


class TestPipes:
    def test_a_pipe_that_pauses(self, pipe: Callable[[bytes], object]) -> None:
        found = stream_lines("-")
        pipe(b"a\r\nb\n")
        assert [next(found) for _ in range(3)] == ["a", "b", None]
        pipe(b"c\n\xc3")
        assert [next(found) for _ in range(2)] == ["c", None], "half a line is no line"
        pipe(b"\xa9\n\nlast")
        pipe(b"")
        assert list(found) == ["é", "", "last"], "the end is no pause"

    def test_chunks_of_it(self, pipe: Callable[[bytes], object]) -> None:
        found = chunk_lines(stream_lines("-"), max_lines=2, max_characters=100)
        pipe(b"a\nb\nc\n")
        assert next(found) == ["a", "b"] and next(found) == ["c"]
        pipe(b"")
        assert list(found) == []

    def test_an_empty_pipe(self, pipe: Callable[[bytes], object]) -> None:
        pipe(b"")
        assert list(stream_lines("-")) == []

    @given(content=st.binary(max_size=40), sizes=st.lists(st.integers(1, 7), min_size=1))
    def test_any_bytes_in_any_pieces(self, content: bytes, sizes: list[int], tmp_path_factory: Any) -> None:
        path = tmp_path_factory.getbasetemp() / "pieces"
        path.write_bytes(content)
        reading, writing = os.pipe()
        os.write(writing, content)
        os.close(writing)
        turns = iter(sizes * 40)
        read = os.read
        with pytest.MonkeyPatch.context() as patch, os.fdopen(reading, "r") as stdin:
            patch.setattr(sys, "stdin", stdin)
            patch.setattr(os, "read", lambda handle, max_lines: read(handle, min(max_lines, next(turns))))
            assert outcome(lambda: stream_lines("-")) == outcome(lambda: read_lines(path))

    def test_a_file_does_not_pause(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_bytes(b"a\nb")
        assert list(stream_lines(tmp_path / "text")) == ["a", "b"]

    def test_a_named_pipe(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lines, "IDLE_SECONDS", 0.01)
        os.mkfifo(tmp_path / "pipe")
        with (tmp_path / "pipe").open("r+b", buffering=0) as both:
            both.write(b"a\n")
            found = stream_lines(tmp_path / "pipe")
            assert next(found) == "a" and next(found) is None

    def test_no_file_of_the_system(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb")))
        assert list(stream_lines("-")) == ["a", "b"]

    def test_a_line_has_a_longest_length(
        self, pipe: Callable[[bytes], object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 9)
        pipe(b"a\n" + b"x" * 30)
        found = stream_lines("-")
        assert next(found) == "a"
        with pytest.raises(DataError, match=r"^<standard input>:2: a line of more than 9 bytes; "):
            next(found)

    def test_a_closed_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(DataError, match=r"^<standard input>: is closed; give a file$"):
            list(read_lines("-"))


def outcome(read: Callable[[], Iterator[str | None]]) -> list[str]:
    """The lines, and the message that ended them."""
    found = []
    try:
        for line in read():
            found.append(line or "")
    except DataError as error:
        found.append("error " + str(error).partition(":")[2])
    return found
