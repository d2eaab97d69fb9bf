"""Tables of every format: what they say, and what they say of bad rows and bad files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fixtures.corpus_rows import failure, rows, table, the_problem, write
from weft.data.pairs import Pair, RowError
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


class TestCells:
    def test_columns_by_number(self, tmp_path: Path) -> None:
        path = table_file(tmp_path, "csv")
        assert len(list(read(table(path, 1, 2)))) == 4, "no header unless names are used"
        assert next(read(table(path, 1, 2, header=True))) == Pair("a b", "x")
        assert next(read(table(path, "src", 2))) == Pair("a b", "x")

    def test_links(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.tsv", "0-0 1-0\ta b\tc\n0-9\ta\tb\n")
        corpus = table(path, 2, 3, links=1)
        assert rows(corpus)[0] == (1, Pair("a b", "c", ((0, 0), (1, 0))))
        assert the_problem(corpus, 2)[0] == "links"

    @pytest.mark.parametrize("kind", ["tsv", "csv"])
    def test_ragged_rows(self, tmp_path: Path, kind: str) -> None:
        mark = "\t" if kind == "tsv" else ","
        path = write(tmp_path / f"a.{kind}", "a,b,c\n1,2\n".replace(",", mark))
        assert the_problem(table(path, "a", "b"), 2) == ("columns", "2 columns, expected 3 as in the header")
        assert the_problem(table(path, 1, 3), 2) == ("columns", "2 columns, but column 3 was asked for")
        path = write(tmp_path / f"b.{kind}", "a,b\n\n1,2\n".replace(",", mark))
        assert the_problem(table(path, "a", "b"), 2) == ("columns", "1 column, expected 2 as in the header")

    def test_headers_that_do_not_help(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", "")
        assert failure(table(path, "a", "b")) == (f"{path}: is empty, expected a header with the names of the columns")
        write(tmp_path / "a.csv", "a,a,b\n")
        message = "column 'a' stands 2 times in the header; give its number"
        assert failure(table(path, "a", "b")) == f"{path}:1: {message}"
        assert failure(table(path, 4, "b")) == f"{path}:1: 3 columns, but column 4 was asked for"
        assert failure(table(path, "a", "b", header=False)) == (
            f"{path}: column 'a': csv without a header has numbers, not names"
        )
        write(tmp_path / "a.csv", b"a\xff,b\n")
        assert failure(table(path, "a", "b")).startswith(f"{path}:1: not valid UTF-8 (byte 0xff at column 2)")
        write(tmp_path / "a.csv", b'"a"x,b\n')
        assert failure(table(path, "a", "b")) == f"{path}:1: column 1 goes on after its closing quote: 'x,b'"

    def test_a_byte_order_mark_is_no_part_of_a_name(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", '\ufeff"a\nb",c\n1,2\n')
        assert rows(table(path, "a\nb", "c")) == [(3, Pair("1", "2"))]

    @pytest.mark.parametrize(
        ("content", "kind", "message"),
        [
            ('"a', "csv", "column 1 has a quote that is never closed (1 line to the file's end)"),
            ('a,"b\nc\nd', "csv", "column 2 has a quote that is never closed (3 lines to the file's end)"),
            ('"a"b,c', "csv", "column 1 goes on after its closing quote: 'b,c'"),
            ("a", "columns", "1 column, but column 2 was asked for"),
        ],
    )
    def test_csv_problems(self, tmp_path: Path, content: str, kind: str, message: str) -> None:
        path = write(tmp_path / "a.csv", f'"x\ny",z\n{content}')
        assert the_problem(table(path, 1, 2), 3) == (kind, message)

    def test_odd_csv_that_is_none(self, tmp_path: Path) -> None:
        large = "x" * 200_000
        path = write(tmp_path / "a.csv", f'5" pipe,\0\n"{large}",a\rb\n')
        assert [pair for _, pair in rows(table(path, 1, 2))] == [Pair('5" pipe', "\0"), Pair(large, "a\rb")]

    def test_csv_that_is_no_utf8(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", b'"a\nb",c\r\n\xff,"d"\n"e",f')
        found = rows(table(path, 1, 2))
        assert found[0] == (1, Pair("a\nb", "c")) and found[2] == (4, Pair("e", "f"))
        assert the_problem(table(path, 1, 2), 3)[0] == "encoding"

    def test_delimiters(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a", 'a;b|"c;d"\n')
        assert list(read(table(path, 1, 2, delimiter="|"))) == [Pair("a;b", '"c;d"')]
        csv = table(write(tmp_path / "a.csv", 'a;"b;c"\n'), 1, 2, delimiter=";")
        assert list(read(csv)) == [Pair("a", "b;c")]
        path = str(tmp_path / "a.csv")
        message = "delimiter: '·'; in csv it is one ASCII character"
        assert failure(table(path, 1, 2, delimiter="·")) == f"{path}: {message}"

    def test_what_json_has_not(self) -> None:
        message = "x.jsonl: column 1: columns of jsonl have names, not numbers"
        assert failure(table("x.jsonl", 1, "b")) == message
        message = "x.json: jsonl has neither a header nor a delimiter"
        assert failure(table("x.json", "a", "b", delimiter=",")) == message


class TestJson:
    @pytest.mark.parametrize(
        ("line", "kind", "message"),
        [
            ("{", "json", "not valid JSON (column 2: Expecting property name enclosed in double quotes)"),
            (
                "[",
                "json",
                "a list that goes on, expected a JSON object ({…}) in each line; `jq -c '.[]'` makes it so",
            ),
            ("", "json", "is a blank line, expected a JSON object ({…}) in each line"),
            ("[1]", "json", "is a list, expected a JSON object ({…}) in each line"),
            ("5", "json", "is text or a number, expected a JSON object ({…}) in each line"),
            ("null", "json", "is null, expected a JSON object ({…}) in each line"),
            ("[" * 200_000, "json", "JSON that is nested too deeply"),
            ('{"a": {"b": "x"}}', "columns", "no column 't'; choose one of a"),
            ("{}", "columns", "no column 'a.b'"),
            ('{"a": {"b": null}, "t": "x"}', "columns", "column 'a.b' is null, expected text"),
            ('{"a": {"b": NaN}, "t": "x"}', "columns", "column 'a.b' is null, expected text"),
            ('{"a": {"b": ["x"]}, "t": "x"}', "type", "column 'a.b' is a list, expected text"),
            ('{"a": {"b": {}}, "t": "x"}', "type", "column 'a.b' is an object, expected text"),
            ('{"a": "x", "t": "x"}', "columns", "no column 'a.b'; did you mean 'a'?"),
            ('{"a": {"b": "\\ud800"}, "t": ""}', "encoding", "column 'a.b' has a lone surrogate, which no text has"),
        ],
    )
    def test_lines_that_give_no_pair(self, tmp_path: Path, line: str, kind: str, message: str) -> None:
        good = '{"a": {"b": "x"}, "t": "y"}\n'
        path = write(tmp_path / "a.jsonl", f"{good}{line}\n{good}")
        corpus = table(path, "a.b", "t")
        assert the_problem(corpus, 2)[0] == kind
        if "did you mean" not in message:
            assert the_problem(corpus, 2)[1] == message
        assert len(rows(corpus)) == 3

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("1", "1"),
            ("1.0", "1.0"),
            ("-1e400", "-1e400"),
            ("9" * 5000, "9" * 5000),
            ("true", "true"),
            ('"\\ud83d\\ude00"', "😀"),
            ('"\\n\\u0000"', "\n\0"),
        ],
    )
    def test_values_as_text(self, tmp_path: Path, value: str, text: str) -> None:
        path = write(tmp_path / "a.jsonl", f'{{"a": 1, "t": "x", "n": NaN, "a": {value}}}\n')
        assert list(read(table(path, "a", "t"))) == [Pair(text, "x")], "the last of equal names wins"

    def test_a_dotted_name_may_be_a_name(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", '{"a.b": "1", "a": {"b": "2"}}\n')
        assert list(read(table(path, "a.b", "a.b"))) == [Pair("1", "1")]


class TestParquet:
    def test_nested_and_odd_columns(self, tmp_path: Path) -> None:
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

    def test_text_that_is_no_utf8(self, tmp_path: Path) -> None:
        bad = pa.Array.from_buffers(
            pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
        )
        pq.write_table(pa.table({"a": bad}), tmp_path / "a.parquet")
        found = rows(table(tmp_path / "a.parquet", "a", "a"))
        assert found[0] == (1, Pair("a", "a"))
        assert isinstance(found[1][1], RowError) and found[1][1].kind == "encoding"

    def test_batches_of_many_and_of_large_rows(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        texts = [str(number) for number in range(20_000)]
        pq.write_table(pa.table({"a": texts}), path)
        corpus = table(path, "a", "a")
        assert [pair.source for pair in read(corpus)] == texts and len(list(corpus.blocks())) == 3
        pq.write_table(pa.table({"a": ["x" * 1_000_000] * 9}), path)
        assert len(list(corpus.blocks())) > 1 and [number for number, _ in rows(corpus)] == list(range(1, 10))

    def test_packed_and_empty(self, tmp_path: Path) -> None:
        import gzip

        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"a": ["x"]}), path)
        packed = write(tmp_path / "b.parquet.gz", gzip.compress(path.read_bytes()))
        assert list(read(table(packed, "a", "a"))) == [Pair("x", "x")]
        pq.write_table(pa.table({"a": pa.array([], pa.string())}), path)
        assert list(read(table(path, "a", "a"))) == []

    def test_what_is_no_parquet(self, tmp_path: Path) -> None:
        for content in (b"", b"text\n" * 100):
            path = write(tmp_path / "a.parquet", content)
            assert failure(table(path, "a", "a")).startswith(f"{path}: cannot be read: ")
        path = str(tmp_path / "none.parquet")
        assert failure(table(path, "a", "a")) == f"{path}: no such file"
