"""Lines put together, and lines that come when they come."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.reading import lines
from weft.data.reading.lines import chunk_lines, read_lines, stream_lines
from weft.errors import DataError

LINES = st.lists(st.one_of(st.none(), st.text(max_size=5)))


@given(LINES, st.integers(1, 4), st.integers(1, 9))
def test_windows(stream: list[str | None], max_lines: int, characters: int) -> None:
    found = list(chunk_lines(stream, max_lines=max_lines, max_characters=characters))
    assert [line for window in found for line in window] == [line for line in stream if line is not None]
    assert all(1 <= len(window) <= max_lines for window in found)
    assert all(len("".join(window[:-1])) < characters for window in found), "full with its last line, not before"
    place = 0
    for window in found:  # each ends for a reason
        while stream[place] is None:
            place += 1
        place += len(window)
        pause = place < len(stream) and stream[place] is None
        assert len(window) == max_lines or len("".join(window)) >= characters or pause or place == len(stream)


@given(st.lists(st.text(max_size=5)), st.integers(1, 4), st.integers(1, 9))
def test_windows_are_the_same_from_any_on(stream: list[str], max_lines: int, characters: int) -> None:
    found = list(chunk_lines(stream, max_lines=max_lines, max_characters=characters))
    for place in range(len(found)):
        rest = stream[sum(map(len, found[:place])) :]
        assert list(chunk_lines(rest, max_lines=max_lines, max_characters=characters)) == found[place:]


def test_a_window_reads_no_further_than_it_needs() -> None:
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


class TestArriving:
    def test_a_pipe_that_pauses(self, pipe: Callable[[bytes], object]) -> None:
        found = stream_lines("-")
        pipe(b"a\r\nb\n")
        assert [next(found) for _ in range(3)] == ["a", "b", None]
        pipe(b"c\n\xc3")
        assert [next(found) for _ in range(2)] == ["c", None], "half a line is no line"
        pipe(b"\xa9\n\nlast")
        pipe(b"")
        assert list(found) == ["é", "", "last"], "the end is no pause"

    def test_windows_of_it(self, pipe: Callable[[bytes], object]) -> None:
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
        monkeypatch.setattr(lines, "MAX_LINE_BYTES", 9)
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
