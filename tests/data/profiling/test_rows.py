"""Rows of every format, and their number."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from weft.data.profiling.inputs import PairInput
from weft.data.profiling.rows import READ_BYTES, RowStream
from weft.errors import DataError

ROWS = [["a", "b"], ["c d", "e"], ["ü", "f"]]


def _write(path: Path) -> PairInput:
    tsv = "".join("\t".join(row) + "\n" for row in ROWS)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(tsv.encode()))
    elif path.suffix == ".tsv":
        path.write_text(tsv, "utf-8")
    elif path.suffix == ".csv":
        path.write_text("".join(f'"{source}",{target}\n' for source, target in ROWS), "utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"x": {"s": s}, "t": t, "n": [1]}) + "\n" for s, t in ROWS), "utf-8")
    elif path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        sources, targets = zip(*ROWS, strict=True)
        parquet.write_table(pyarrow.table({"x.s": sources, "t": targets}), path)
    else:
        path.write_text("".join(row[0] + "\n" for row in ROWS), "utf-8")
        path.with_suffix(".tgt").write_text("".join(row[1] + "\n" for row in ROWS), "utf-8")
        return PairInput(str(path), str(path.with_suffix(".tgt")))
    return PairInput(str(path))


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.csv", "a.jsonl", "a.parquet", "a.src"])
def test_rows_of_every_format(name: str, tmp_path: Path) -> None:
    stream = RowStream(_write(tmp_path / name))
    assert list(stream) == ROWS
    assert (stream.count.rows, stream.count.certainty, stream.bad_rows) == (3, "exact", 0)
    if name in ("a.jsonl", "a.parquet"):
        assert stream.names == ("x.s", "t")


def test_a_large_file_is_read_at_several_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.profiling.rows.CHUNK_BYTES", 1_000)
    (tmp_path / "a.tsv").write_text("".join(f"{number:08}\tx\n" for number in range(10_000)))
    stream = RowStream(PairInput(str(tmp_path / "a.tsv")), read_bytes=10_000)
    numbers = [int(row[0]) for row in stream]
    assert numbers == sorted(numbers)
    assert numbers[-1] > 9_000
    assert len(numbers) < 1_200
    assert (stream.count.rows, stream.count.certainty) == (10_000, "estimated")


def test_a_compressed_file_is_counted_beyond_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.reading.blocks.CHUNK_BYTES", 1_000)
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"word\tx\n" * 1_000_000))
    stream = RowStream(PairInput(str(path)), read_bytes=1_000)
    assert sum(1 for _ in stream) < 500_000
    assert (stream.count.rows, stream.count.certainty) == (1_000_000, "exact")


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"s": "a", "t": "b"}\nno\n')
    stream = RowStream(PairInput(str(tmp_path / "a.jsonl")))
    assert list(stream) == [["a", "b"]]
    assert stream.bad_rows == 1
    assert "a.jsonl:2: not valid JSON" in (stream.first_error or "")


@pytest.mark.parametrize("read_bytes", [READ_BYTES, 1])
def test_parallel_files_of_unequal_length_are_refused(read_bytes: int, tmp_path: Path) -> None:
    """Where a line is missing is not known: every pair after it would be wrong."""
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    pair_input = PairInput(str(tmp_path / "a.en"), str(tmp_path / "a.de"))
    with pytest.raises(DataError, match=r"a\.en:3: has no counterpart; .*a\.en has 3 lines, .*a\.de has 2 lines"):
        list(RowStream(pair_input, read_bytes))
