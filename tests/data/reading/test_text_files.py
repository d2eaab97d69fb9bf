"""Chunks of files, against reading the file whole."""

from __future__ import annotations

import csv
import io
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.corpus_rows import table
from weft.data.pairs import Pair, Row, RowError
from weft.data.reading import text_files
from weft.data.reading.corpora import Corpus, ParallelText, PlainLines, TextPairs
from weft.data.reading.delimited import CsvSplitter
from weft.data.reading.lines import read_lines
from weft.data.reading.text_files import Chunk, LineSplitter, decode_lines
from weft.errors import DataError


@pytest.fixture(params=[(1, 1), (4, 2), (20, 3), (1 << 20, 8192)])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Chunks so small that everything happens at their edges, and the default."""
    size, most = request.param
    monkeypatch.setattr(text_files, "CHUNK_BYTES", size)
    monkeypatch.setattr(text_files, "CHUNK_RECORDS", most)
    return size, most


def cut(path: Path) -> list[Chunk]:
    with LineSplitter(path) as splitter:
        return list(splitter.chunks())


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\nb", b"a\r\n\r\nb\r", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"])
def test_known_chunks(tmp_path: Path, sizes: tuple[int, int], content: bytes) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    found = cut(path)
    assert b"".join(chunk.data for chunk in found) == content.removeprefix(b"\xef\xbb\xbf")
    assert [line for chunk in found for line in decode_lines(chunk, "text")] == list(read_lines(path))


@given(
    content=st.lists(st.sampled_from([b"\n", b"\r\n", b"a", "é".encode(), b"\xff", b"\t", b"\xef\xbb\xbf"])),
    size=st.integers(1, 9),
    most=st.integers(1, 4),
)
def test_chunks_are_whole_lines_with_their_numbers(
    content: list[bytes], size: int, most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut"
    text = b"".join(content)
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "CHUNK_BYTES", size)
        patch.setattr(text_files, "CHUNK_RECORDS", most)
        found = cut(path)
    text = text.removeprefix(b"\xef\xbb\xbf")
    assert b"".join(chunk.data for chunk in found) == text
    number = 1
    for chunk in found:
        assert chunk.first_line == number and chunk.data
        count = chunk.data.count(b"\n") + (not chunk.data.endswith(b"\n"))
        assert count <= most and len(decode_lines(chunk, "cut")) == count
        number += count
    assert all(chunk.data.endswith(b"\n") for chunk in found[:-1])


def test_lines_that_are_no_utf8_are_told_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_bytes(b"a\tb\r\nc\xff\td\ne\tf\n\xe9\t\r")
    (block,) = TextPairs((str(path),)).blocks()
    advice = "; convert the file, e.g. with iconv"
    assert list(block.rows()) == [
        (1, Pair("a", "b")),
        (2, RowError("encoding", f"{path}:2: not valid UTF-8 (byte 0xff at column 2){advice}")),
        (3, Pair("e", "f")),
        (4, RowError("encoding", f"{path}:4: not valid UTF-8 (byte 0xe9 at column 1){advice}")),
    ]


@pytest.mark.parametrize("content", [b"a\nb\n" + b"x" * 100, b"a\nb\n" + b"x" * 99 + b"\nc\n"])
def test_a_line_has_a_longest_length(
    tmp_path: Path, sizes: tuple[int, int], content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "binary"
    path.write_bytes(content)
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 99)
    found = []
    with pytest.raises(DataError) as caught, LineSplitter(path) as splitter:
        for chunk in splitter.chunks():
            found += decode_lines(chunk, "")
    assert str(caught.value) == f"{path}:3: a line of more than 99 bytes; is this a text file?"
    assert found == ["a", "b"]


def test_a_line_may_be_as_long_as_that(tmp_path: Path, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"x" * 98 + b"\n" + b"y" * 99)
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 99)
    assert [line for chunk in cut(path) for line in decode_lines(chunk, "")] == ["x" * 98, "y" * 99]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none", "no such file"), (tmp_path, "is a folder, expected a file")):
        with pytest.raises(DataError) as caught:
            cut(path)
        assert str(caught.value) == f"{path}: {message}"


TEXT = st.text(st.sampled_from('ab,;"\n\r\té\ufeff\u2028'), max_size=6)


@given(
    rows=st.lists(st.lists(TEXT, min_size=2, max_size=3), max_size=8),
    size=st.integers(1, 30),
    most=st.integers(1, 3),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_csv_that_the_standard_library_writes(
    rows: list[list[str]], size: int, most: int, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.csv"
    if rows and rows[0][0].startswith("\ufeff"):
        return
    out = io.StringIO()
    lone = any("\r" in cell for row in rows for cell in row)  # which is not quoted before Python 3.13
    csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL if lone else csv.QUOTE_MINIMAL).writerows(rows)
    path.write_bytes(out.getvalue().encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "CHUNK_BYTES", size)
        patch.setattr(text_files, "CHUNK_RECORDS", most)
        found = [row for block in table(path, 1, 2).blocks() for row in block.rows()]
    assert [pair for _, pair in found] == [Pair(row[0], row[1]) for row in rows]
    starts = [1]
    for row in rows:
        starts.append(starts[-1] + sum(cell.count("\n") for cell in row) + 1)
    assert [number for number, _ in found] == starts[:-1]


@given(content=st.text(st.sampled_from('ab,"\n'), max_size=30), size=st.integers(1, 9), most=st.integers(1, 3))
def test_csv_means_what_it_means_to_the_standard_library(
    content: str, size: int, most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Record by record: the same cells, or an error where that (strictly) finds one."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "CHUNK_BYTES", size)
        patch.setattr(text_files, "CHUNK_RECORDS", most)
        with CsvSplitter(path, ",") as splitter:
            chunks = list(splitter.chunks())
    assert "".join(chunk.data.decode() for chunk in chunks) == content, "no byte is lost"
    for number, found in _rows_before_an_unclosed_quote(table(path, 1, 2)):
        rest = "".join(line + "\n" for line in content.split("\n")[number - 1 :]).removesuffix("\n")
        try:
            cells = next(csv.reader(io.StringIO(rest, newline=""), strict=True)) or [""]
        except csv.Error:
            assert isinstance(found, RowError) and found.kind == "csv"
        else:
            if len(cells) < 2:
                assert isinstance(found, RowError) and found.kind == "columns"
            else:
                assert found == Pair(cells[0], cells[1])


def _rows_before_an_unclosed_quote(corpus: Corpus) -> Iterator[Row]:
    """The rows; a quote that is never closed, an error of the file, is one in its place."""
    try:
        for block in corpus.blocks():
            yield from block.rows()
    except DataError as error:
        name, number, _ = str(error).split(":", 2)
        assert "has a quote that is never closed" in str(error) and name == str(corpus.files()[0])
        yield int(number), RowError("csv", str(error))


def test_a_record_has_a_longest_length(tmp_path: Path, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n"' + b"x\n" * 60)
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 99)
    with pytest.raises(DataError) as caught:
        for block in table(path, 1, 2).blocks():
            list(block.rows())
    assert str(caught.value) == f"{path}:2: a record of more than 99 bytes; is a quote never closed?"


@given(
    left=st.lists(st.sampled_from(["", "a", "bb", "c" * 9])),
    right=st.lists(st.sampled_from(["", "x", "yyyy"])),
    size=st.integers(1, 20),
    most=st.integers(1, 3),
    ended=st.booleans(),
)
def test_parallel_lines_stay_together(
    left: list[str], right: list[str], size: int, most: int, ended: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name, texts in (("left", left), ("right", right)):
        end = "\n" if ended or not texts or not texts[-1] else ""
        (folder / name).write_text("\n".join(texts) + (end if texts else ""))
    corpus = ParallelText((str(folder / "left"),), (str(folder / "right"),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "CHUNK_BYTES", size)
        patch.setattr(text_files, "CHUNK_RECORDS", most)
        found = [row for block in corpus.blocks() for row in block.rows()]
    assert [number for number, _ in found] == list(range(1, max(len(left), len(right)) + 1)), "every line is told of"
    both = min(len(left), len(right))
    assert [row for _, row in found[:both]] == [Pair(*pair) for pair in zip(left, right, strict=False)]
    assert {row.kind for _, row in found[both:] if isinstance(row, RowError)} == (
        {"unpaired"} if found[both:] else set()
    )


def test_blocks_can_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\nc\td\n" * 10_000)
    name = (str(path),)
    for corpus in (TextPairs(name), PlainLines(name), ParallelText(name, name), table(path, 1, 2, tags=2)):
        found = list(corpus.blocks())
        assert len(found) == 3 and all(block.name == str(path) for block in found)
        for block in found:
            assert list(pickle.loads(pickle.dumps(block)).rows()) == list(block.rows())
        numbers = [number for block in found for number, _ in block.rows()]
        assert numbers == list(range(1, 20_001))
