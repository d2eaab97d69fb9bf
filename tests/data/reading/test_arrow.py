"""Parquet files: types of columns, batches, and files that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fixtures.corpus_rows import failure, rows, table, write
from weft.data.pairs import Pair, RowError
from weft.data.reading.corpora import read


def test_nested_and_odd_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    content = pa.table(
        {
            "translation": [{"en": "a", "fr": "b", "x": 1}, {"en": "c", "fr": None, "x": 2}, None],
            "number": pa.array([1, 2, None]),
            "bytes": pa.array([b"\xc3\xa9", b"\xff", b""]),
            "kind": pa.array(["p", "q", None]).dictionary_encode(),
            "real": [0.5, float("nan"), 1.0],
            "list": [["a"], [], None],
        }
    )
    pq.write_table(content, path, row_group_size=2)
    found = rows(table(path, ["translation.en", "kind"], ["translation.fr", "number"]))
    assert found[0] == (1, Pair("a p", "b 1")) and [number for number, _ in found] == [1, 2, 3]
    messages = [row.message for _, row in found[1:] if isinstance(row, RowError)]
    assert messages[0] == f"{path}:2: column 'translation.fr' is null, expected text" and len(messages) == 2
    kinds = [row.kind if isinstance(row, RowError) else row for _, row in rows(table(path, "bytes", "real"))]
    assert kinds == [Pair("é", "0.5"), "encoding", Pair("", "1.0")]
    message = failure(table(path, "list", "number"))
    assert message.startswith(f"{path}: column 'list' is list<") and message.endswith(", expected text")
    message = failure(table(path, "translation.de", "number"))
    assert message.startswith(f"{path}: no column 'translation.de'")


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    )
    pq.write_table(pa.table({"a": bad}), tmp_path / "a.parquet")
    found = rows(table(tmp_path / "a.parquet", "a", "a"))
    assert found[0] == (1, Pair("a", "a"))
    assert isinstance(found[1][1], RowError) and found[1][1].kind == "encoding"


def test_batches_of_many_and_of_large_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [str(number) for number in range(20_000)]
    pq.write_table(pa.table({"a": texts}), path)
    corpus = table(path, "a", "a")
    assert [pair.source for pair in read(corpus)] == texts and len(list(corpus.blocks())) == 3
    pq.write_table(pa.table({"a": ["x" * 1_000_000] * 9}), path)
    assert len(list(corpus.blocks())) > 1 and [number for number, _ in rows(corpus)] == list(range(1, 10))


def test_packed_and_empty(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["x"]}), path)
    packed = write(tmp_path / "b.parquet.gz", gzip.compress(path.read_bytes()))
    assert list(read(table(packed, "a", "a"))) == [Pair("x", "x")]
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), path)
    assert list(read(table(path, "a", "a"))) == []


def test_what_is_no_parquet(tmp_path: Path) -> None:
    for content in (b"", b"text\n" * 100):
        path = write(tmp_path / "a.parquet", content)
        assert failure(table(path, "a", "a")).startswith(f"{path}: cannot be read: ")
    path = str(tmp_path / "none.parquet")
    assert failure(table(path, "a", "a")) == f"{path}: no such file"
