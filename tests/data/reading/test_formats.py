"""Tables of every format give the same pairs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fixtures.corpus_rows import failure, rows, table, the_problem, write
from weft.data.pairs import Pair
from weft.data.reading.corpora import read

DATA = [("a b", "x", "N;ACC(PL)"), ("é", "", "V"), ("", "1.50", "")]
NAMES = ("src", "tgt", "tag")


def table_file(folder: Path, kind: str) -> str:
    """The same table in every format."""
    path = folder / f"data.{kind}"
    if kind in ("tsv", "csv"):
        mark = "\t" if kind == "tsv" else ","
        return write(path, "".join(mark.join(row) + "\r\n" for row in (NAMES, *DATA)))
    if kind == "jsonl":
        lines = [json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False) + "\n" for row in DATA]
        return write(path, "".join(lines).replace('"1.50"', "1.50"))  # a number as it is written
    columns = {name: [row[place] for row in DATA] for place, name in enumerate(NAMES)}
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "parquet"])
class TestTables:
    def test_columns_by_name(self, tmp_path: Path, kind: str) -> None:
        corpus = table(table_file(tmp_path, kind), ["src", "tag"], "tgt", tags="tag")
        expected = [Pair("a b <N><ACC(PL)>", "x"), Pair("é <V>", ""), Pair("", "1.50")]
        assert [pair for _, pair in rows(corpus)] == expected
        start = 2 if kind in ("tsv", "csv") else 1
        assert [number for number, _ in rows(corpus)] == [start, start + 1, start + 2]

    def test_an_unknown_column(self, tmp_path: Path, kind: str) -> None:
        path = table_file(tmp_path, kind)
        place = "" if kind == "parquet" else ":1"
        assert failure(table(path, "srcc", "tgt")) == f"{path}{place}: no column 'srcc'; did you mean 'src'?"

    def test_bad_tags(self, tmp_path: Path, kind: str) -> None:
        corpus = table(table_file(tmp_path, kind), "src", "tgt", tags="src")
        number = 2 if kind in ("tsv", "csv") else 1
        assert the_problem(corpus, number) == (
            "tags",
            "column 'src', 'a b', is not a list of features such as 'N;ACC(PL)'",
        )

    def test_the_format_can_be_told(self, tmp_path: Path, kind: str) -> None:
        path = Path(table_file(tmp_path, kind)).rename(tmp_path / "data")
        corpus = table(path, "src", "tgt", format=kind)  # type: ignore[arg-type]
        assert next(read(corpus)) == Pair("a b", "x")
