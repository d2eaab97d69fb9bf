"""Readers given anything: every record is a pair or a problem, or the file is one error; nothing is lost in silence."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.corpus_rows import dialogues, instructions, table
from weft.data.pairs import Pair, Row, RowError
from weft.data.reading import text_files
from weft.data.reading.corpora import Corpus, ParallelText, PlainLines, TextPairs, read
from weft.errors import DataError

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}
packed = pytest.mark.parametrize("suffix", PACK)

LINES: dict[str, Callable[[str], Corpus]] = {
    "pairs": lambda path: TextPairs((path,)),
    "lines": lambda path: PlainLines((path,)),
    "both": lambda path: ParallelText((path,), (path,)),
    "tsv": lambda path: table(path, [1, 2], 2, tags=1, links=2, format="tsv"),
    "jsonl": lambda path: table(path, ["a", "b.c"], "b", format="jsonl"),
    "instructions": lambda path: instructions(path, format="jsonl"),
}
"""Formats in which every line is a row."""
OTHERS: dict[str, Callable[[str], Corpus]] = {
    "csv": lambda path: table(path, 1, 2, format="csv"),
    "header": lambda path: table(path, "a", "b", format="csv"),
    "header_tsv": lambda path: table(path, "a", "b", format="tsv"),
    "dialogues": lambda path: dialogues(path, format="jsonl"),
    "tab_dialogues": lambda path: dialogues(path, format="tsv"),
    "parquet": lambda path: table(path, "a", "b", format="parquet"),
}
SOUP = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\n", b"\r\n", b"\r", b"\t", b'"', b",", b"a", b"b", b"{", b"}", b"[", b"]", b":", b'"a"', b"\0"]
        ),
        st.sampled_from(
            [b"\xef\xbb\xbf", "é".encode(), b"\xff", b"\xc3", b'{"a": 1, "b": {"c": "x"}}', b"0-0", b"a\tb\n"]
        ),
        st.sampled_from(
            [b'{"instruction": "x", "output": "y"}', b'["a", "b"]', b'"\\ud800"', b"N;V", b"null", b"a,b\n"]
        ),
        st.binary(max_size=4),
    ),
    max_size=20,
).map(b"".join)


NO_TEXT = re.compile(": is (UTF-16|UTF-32|compressed|a zip|a Parquet|an Excel|an old Excel)")
"""The beginning of a file that is no text (weft.data.reading.text_files)."""


def outcome(corpus: Corpus) -> list[Row] | str:
    """All rows of a corpus, or the one line that says why there are none."""
    try:
        found = [row for block in corpus.blocks() for row in block.rows()]
    except DataError as error:
        assert "\n" not in str(error)
        return str(error)
    for number, row in found:
        assert isinstance(row, Pair | RowError) and number >= 1
        if isinstance(row, RowError):
            assert "\n" not in row.message and f":{number}: " in row.message
        else:
            f"{row.source}{row.target}".encode()  # text that can be written
    problems: Counter[str] = Counter()
    kept = list(read(corpus, "skip", problems))
    assert len(kept) + problems.total() == len(found), "skipped rows are counted"
    return found


def count_lines(content: bytes) -> int:
    content = content.removeprefix(b"\xef\xbb\xbf")
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


@packed
@given(content=SOUP, size=st.sampled_from([1, 7, 1 << 20]), most=st.sampled_from([1, 3, 8192]))
@settings(max_examples=40)
def test_every_line_is_a_row(
    suffix: str, content: bytes, size: int, most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzz{suffix}"
    path.write_bytes(PACK[suffix](content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "CHUNK_BYTES", size)
        patch.setattr(text_files, "CHUNK_RECORDS", most)
        for make in LINES.values():
            found = outcome(make(str(path)))
            if isinstance(found, str):
                assert NO_TEXT.search(found)
                return
            assert [number for number, _ in found] == list(range(1, count_lines(content) + 1))
        for make in OTHERS.values():
            found = outcome(make(str(path)))
            if isinstance(found, list):
                numbers = [number for number, _ in found]
                assert numbers == sorted(numbers) and all(number <= count_lines(content) for number in numbers)


@given(content=SOUP)
def test_every_line_of_csv_belongs_to_a_row(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(content)
    whole = outcome(table(path, 1, 1))
    if isinstance(whole, str):
        assert "a quote that is never closed" in whole or NO_TEXT.search(whole)
        return
    starts = [number for number, _ in whole] + [count_lines(content) + 1]
    rows = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for (number, row), after in zip(whole, starts[1:], strict=True):
        if isinstance(row, Pair):  # the first cell is what stands at the beginning of the lines from here to the next
            record = b"\n".join(rows[number - 1 : after - 1]).decode()
            cell = record[1:].replace('""', '"') if record.startswith('"') else record
            assert cell.startswith(row.source) and (row.source.count("\n") <= after - number - 1)
    assert starts[0] == 1 and starts == sorted(set(starts)), "every line, once"


def valid(kind: str) -> bytes:
    """A good file of a format."""
    out = io.BytesIO()
    if kind in ("pairs", "tsv", "lines", "both", "tab_dialogues", "header_tsv"):
        return "a\tb\nN\t0-0\nc d\té\r\nx\ty\t0-0\n".encode()
    if kind in ("csv", "header"):
        return 'a,b\r\n"x\ny","z ""é"""\n1,2\n'.encode()
    if kind in ("jsonl", "instructions", "dialogues"):
        record: dict[str, Any] = {
            "a": "é",
            "b": {"c": 1},
            "instruction": "x",
            "output": "y",
            "turns": ["a", {"text": "b"}],
        }
        return (json.dumps(record) + "\n").encode() * 3
    pq.write_table(pa.table({"a": ["x", "é", None], "b": [1, 2, 3]}), out)
    return out.getvalue()


@packed
@pytest.mark.parametrize("kind", [*LINES, *OTHERS])
@given(data=st.data())
@settings(max_examples=15)
def test_a_changed_file(suffix: str, kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / f"changed{suffix}"
    content = bytearray(PACK[suffix](valid(kind)))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 5))
        content[start : start + length] = data.draw(st.binary(max_size=5))
    path.write_bytes(content)
    found = outcome({**LINES, **OTHERS}[kind](str(path)))
    if not suffix and kind in LINES and not isinstance(found, str):  # else the file is no UTF-8 text
        assert isinstance(found, list) and len(found) == count_lines(bytes(content))


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff"), max_size=6)
PLAIN = TEXT.filter(lambda text: not set(text) & set("\t\n\r"))


@packed
@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "parquet"])
@given(data=st.data())
@settings(max_examples=15)
def test_what_is_written_comes_back(
    suffix: str, kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"written.{kind}{suffix}"
    text = PLAIN if kind == "tsv" else TEXT
    pairs = data.draw(st.lists(st.builds(Pair, text, text, st.none()), max_size=5))
    rows = [(pair.source, pair.target) for pair in pairs]
    if kind == "tsv":
        content = "".join("\t".join(row) + "\n" for row in [("s", "t"), *rows]).encode()
    elif kind == "csv":
        out = io.StringIO()
        csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("s", "t"), *rows])
        content = out.getvalue().encode()
    elif kind == "jsonl":
        ascii_only = data.draw(st.booleans())
        lines = [json.dumps({"s": source, "t": target}, ensure_ascii=ascii_only) + "\n" for source, target in rows]
        content = "".join(lines).encode()
    else:
        held = io.BytesIO()
        texts = [pa.array(side, pa.string()) for side in ([row[0] for row in rows], [row[1] for row in rows])]
        pq.write_table(pa.table(texts, names=["s", "t"]), held)
        content = held.getvalue()
    path.write_bytes(PACK[suffix](content))
    assert list(read(table(path, "s", "t"))) == pairs


def test_a_file_of_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(256)) * 3)
    for make in (*LINES.values(), *OTHERS.values()):
        outcome(make(str(path)))
