"""Rows of every format, and their number."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from weft.data.columns.rows import READ_BYTES, PairInput, RowStream
from weft.errors import DataError
from weft.runtime.activity import Activity, observing

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
    assert [row.cells for row in stream] == ROWS
    assert (stream.count.rows, stream.count.certainty, stream.bad_rows) == (3, "exact", 0)
    if name in ("a.jsonl", "a.parquet"):
        assert stream.names == ("x.s", "t")


def test_a_large_file_is_read_at_several_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.columns.rows.CHUNK_BYTES", 1_000)
    (tmp_path / "a.tsv").write_text("".join(f"{number:08}\tx\n" for number in range(10_000)))
    stream = RowStream(PairInput(str(tmp_path / "a.tsv")), read_bytes=10_000)
    numbers = [int(row.cells[0] or 0) for row in stream]
    assert numbers == sorted(numbers)
    assert numbers[-1] > 9_000
    assert len(numbers) < 1_200
    assert (stream.count.rows, stream.count.certainty) == (10_000, "estimated")


def test_a_compressed_file_is_counted_beyond_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.reading.text_files.CHUNK_BYTES", 1_000)
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"word\tx\n" * 1_000_000))
    stream = RowStream(PairInput(str(path)), read_bytes=1_000)
    assert sum(1 for _ in stream) < 500_000
    assert (stream.count.rows, stream.count.certainty) == (1_000_000, "exact")


def test_very_many_short_rows_are_counted_beyond_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.columns.rows.READ_ROWS", 1_000)
    (tmp_path / "pairs.tsv").write_text("a\tb\n" * 50_000, "utf-8")
    stream = RowStream(PairInput(str(tmp_path / "pairs.tsv")))
    read = sum(1 for _ in stream)
    assert 1_000 <= read < 10_000 and stream.count.rows == 50_000


@pytest.mark.parametrize("lines", ["{long}", "a\tb\n{many}c{long}", "{many}{long}\na\tb\n"])
def test_a_line_without_end_is_refused_wherever_it_is(
    lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read to its end, a gigabyte, at every offset that is within it."""
    monkeypatch.setattr("weft.data.reading.text_files.MAX_LINE_BYTES", 1000)
    monkeypatch.setattr("weft.data.columns.rows.CHUNK_BYTES", 100)
    path = tmp_path / "a.tsv"
    path.write_text(lines.format(long="x" * 20_000, many="a\tb\n" * 1000), "utf-8")
    message = r"a\.tsv(, from byte [0-9,]+ on)?: a line of more than 1000 bytes; is this a text file\?$"
    with pytest.raises(DataError, match=message):
        list(RowStream(PairInput(str(path)), 1000))


def test_of_a_few_very_long_lines_only_some_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.columns.rows.CHUNK_BYTES", 100)
    path = tmp_path / "a.tsv"
    path.write_text(f"a\t{'x' * 9_997}\n" * 50, "utf-8")
    stream = RowStream(PairInput(str(path)), 30_000)
    assert 6 <= len(list(stream)) <= 8 and (stream.count.rows, stream.count.certainty) == (50, "estimated")


def test_rows_are_counted_by_an_activity(tmp_path: Path) -> None:
    """A compressed file of gigabytes takes seconds to sample and to count."""
    activities: list[Activity] = []

    class Observer:
        def begin(self, activity: Activity) -> None:
            activities.append(activity)

        def end(self, activity: Activity) -> None: ...

    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * 20_000))
    with observing(Observer()):
        list(RowStream(PairInput(str(path)), 1000))
    assert [(reading.what, reading.unit, reading.done) for reading in activities] == [
        (f"reading {path}", "rows", 20_000)
    ]


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"s": "a", "t": "b"}\nno\n')
    stream = RowStream(PairInput(str(tmp_path / "a.jsonl")))
    assert [row.cells for row in stream] == [["a", "b"]]
    assert stream.bad_rows == 1
    assert "a.jsonl:2: not valid JSON" in (stream.first_error or "")


def _texts(path: Path, content: str | bytes, **options: int) -> tuple[RowStream, list[list[str | None]]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    stream = RowStream(PairInput(str(path)), **options)
    return stream, [row.cells for row in stream]


def test_a_row_without_a_text_has_none_in_its_place(tmp_path: Path) -> None:
    lines = ['{"t": "b1"}', '{"s": null, "t": "b2"}', '{"s": "a", "t": 3, "u": {"v": {"w": true}}}', '{"s": ["x"]}']
    stream, rows = _texts(tmp_path / "a.jsonl", "\n".join(lines))
    assert rows == [["b1"], ["b2"], ["3", "a", "true"], [None, None, None]]
    assert stream.names == ("t", "s", "u.v.w"), "those of all rows, in the order in which they come"
    assert stream.ordered_names == ("s", "t", "u.v.w"), "in the order of most rows"
    assert stream.other_fields == {"s": None} and stream.bad_rows == 0


def test_fields_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.columns.rows.MAX_NAMES", 3)
    monkeypatch.setattr("weft.data.columns.rows.MAX_DEPTH", 2)
    stream, _ = _texts(tmp_path / "a.jsonl", "".join(json.dumps({f"k{n}": "x", f"l{n}": []}) + "\n" for n in range(9)))
    assert stream.names == ("k0", "k1", "k2") and [*stream.other_fields] == ["l0", "l1", "l2"]
    stream, _ = _texts(tmp_path / "b.jsonl", '{"a": {"b": {"c": {"d": "x"}, "e": "y"}}}\n')
    assert stream.names == ("a.b.e",) and [*stream.other_fields] == ["a.b.c"]


def test_columns_of_parquet_that_are_text(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"day": pyarrow.array([1], pyarrow.date32()), "x": [{"y": {"s": "a", "n": [1]}}], "t": [2.5], "e": [None]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    stream = RowStream(PairInput(str(tmp_path / "a.parquet")))
    assert [row.cells for row in stream] == [["a", "2.5", None]] and stream.names == ("x.y.s", "t", "e")
    parquet.write_table(pyarrow.table({"s": [["a"]], "t": ["b"]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet: 1 column of text \(t\); expected two$"):
        list(RowStream(PairInput(str(tmp_path / "b.parquet"))))


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("a,b\n", None),
        ("Frage, kurz;Antwort\nja;nein\n", ";"),
        ("a b\n\nc|d\n", "|"),
        ("sep=\t\na, b\tc; d\n", "\t"),
        ("\ufeffsep=,\r\na;b\r\n", None),
        ('"a;b",c\n"d;e;f",g\n', None),
        ("one\ntwo\n", None),
        ("", None),
        ("a;b\n" + "".join("x, y" * (n % 5) + ";z\n" for n in range(60)), ";"),
    ],
)
def test_the_delimiter_is_the_one_that_lines_have_equally_often(
    content: str, delimiter: str | None, tmp_path: Path
) -> None:
    assert _texts(tmp_path / "a.csv", content)[0].delimiter == delimiter


def test_lines_that_end_with_carriage_returns(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        _texts(tmp_path / "a.tsv", "a\tb\rc\td\r")
    message = "its lines end with CR, expected LF or CR LF; convert it, e.g. with tr '\\r' '\\n'"
    assert str(caught.value) == f"{tmp_path / 'a.tsv'}: {message}"
    assert _texts(tmp_path / "a.tsv", "a\tb\r")[1] == [["a", "b\r"]]
    assert _texts(tmp_path / "a.tsv", "a\tb\rc\n")[1] == [["a", "b\rc"]], "one line has its line end"


def test_a_large_file_is_text_without_its_byte_order_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.columns.rows.CHUNK_BYTES", 1_000)
    text = "".join(f"{number:08}\tx\n" for number in range(2_000))
    assert _texts(tmp_path / "a.tsv", "\ufeff" + text, read_bytes=2_000)[1][0] == ["00000000", "x"]
    with pytest.raises(DataError, match="is UTF-16 text"):
        _texts(tmp_path / "a.tsv", text.encode("utf-16"), read_bytes=2_000)
    half = len(text) // 2
    damaged = text[:half].encode() + text[half:].encode().replace(b"x", b"\xff")
    stream, _ = _texts(tmp_path / "a.tsv", damaged, read_bytes=2_000)
    assert f"{tmp_path / 'a.tsv'}, from byte " in (stream.first_error or "")


@pytest.mark.parametrize("read_bytes", [READ_BYTES, 1])
def test_parallel_files_of_unequal_length_are_refused(read_bytes: int, tmp_path: Path) -> None:
    """Where a line is missing is not known: every pair after it would be wrong."""
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    pair_input = PairInput(str(tmp_path / "a.en"), str(tmp_path / "a.de"))
    with pytest.raises(DataError, match=r"a\.en:3: has no counterpart; .*a\.en has 3 lines, .*a\.de has 2 lines"):
        list(RowStream(pair_input, read_bytes))
