"""TSV and CSV: headers, quoting, delimiters, and rows that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.corpus_rows import failure, rows, table, the_problem, write
from weft.data.pairs import Pair
from weft.data.reading.corpora import read


def test_columns_by_number(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", "src,tgt,tag\r\na b,x,N\r\né,,V\r\n,1.50,\r\n")
    assert len(list(read(table(path, 1, 2)))) == 4, "no header unless names are used"
    assert next(read(table(path, 1, 2, header=True))) == Pair("a b", "x")
    assert next(read(table(path, "src", 2))) == Pair("a b", "x")


def test_links(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "0-0 1-0\ta b\tc\n0-9\ta\tb\n")
    corpus = table(path, 2, 3, links=1)
    assert rows(corpus)[0] == (1, Pair("a b", "c", ((0, 0), (1, 0))))
    assert the_problem(corpus, 2)[0] == "links"


@pytest.mark.parametrize("kind", ["tsv", "csv"])
def test_ragged_rows(tmp_path: Path, kind: str) -> None:
    mark = "\t" if kind == "tsv" else ","
    path = write(tmp_path / f"a.{kind}", "a,b,c\n1,2\n".replace(",", mark))
    assert the_problem(table(path, "a", "b"), 2) == ("columns", "2 columns, expected 3 as in the header")
    assert the_problem(table(path, 1, 3), 2) == ("columns", "2 columns, but column 3 was requested")
    path = write(tmp_path / f"b.{kind}", "a,b\n\n1,2\n".replace(",", mark))
    assert the_problem(table(path, "a", "b"), 2) == ("columns", "1 column, expected 2 as in the header")


def test_headers_that_do_not_help(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "")
    assert failure(table(path, "a", "b")) == (f"{path}: is empty, expected a header with the names of the columns")
    write(tmp_path / "a.csv", "a,a,b\n")
    message = "column 'a' occurs 2 times in the header; give its number"
    assert failure(table(path, "a", "b")) == f"{path}:1: {message}"
    assert failure(table(path, 4, "b")) == f"{path}:1: 3 columns, but column 4 was requested"
    assert failure(table(path, "a", "b", header=False)) == (
        f"{path}: column 'a': csv without a header has numbers, not names"
    )
    write(tmp_path / "a.csv", b"a\xff,b\n")
    assert failure(table(path, "a", "b")).startswith(f"{path}:1: not valid UTF-8 (byte 0xff at column 2)")
    write(tmp_path / "a.csv", b'"a"x,b\n')
    assert failure(table(path, "a", "b")) == f"{path}:1: column 1 continues after its closing quote: 'x,b'"


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '\ufeff"a\nb",c\n1,2\n')
    assert rows(table(path, "a\nb", "c")) == [(3, Pair("1", "2"))]


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ('"a"b,c', "csv", "column 1 continues after its closing quote: 'b,c'"),
        ('"a,b\nc,d\ne,"f"\n', "csv", "column 1 continues after its closing quote 2 lines below: 'f\"'"),
        ("a", "columns", "1 column, but column 2 was requested"),
    ],
)
def test_csv_problems(tmp_path: Path, content: str, kind: str, message: str) -> None:
    path = write(tmp_path / "a.csv", f'"x\ny",z\n{content}')
    assert the_problem(table(path, 1, 2), 3) == (kind, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('"a', "column 1 has a quote that is never closed (1 line to the file's end)"),
        ('a,"b\nc\nd', "column 2 has a quote that is never closed (3 lines to the file's end)"),
    ],
)
def test_a_quote_that_is_never_closed_is_an_error_of_the_file(tmp_path: Path, content: str, message: str) -> None:
    """It takes all rows that follow, so it is not one bad row among others."""
    path = write(tmp_path / "a.csv", f'"x\ny",z\n{content}')
    assert failure(lambda: read(table(path, 1, 2), "skip")) == f"{path}:3: {message}"


def test_the_line_with_which_spreadsheets_name_the_delimiter(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "\ufeffsep=;\r\nen;de\r\na;b\r\n")
    assert rows(table(path, "en", "de", delimiter=";")) == [(3, Pair("a", "b"))]
    assert failure(table(path, "en", "fr", delimiter=";")).startswith(f"{path}:2: no column 'fr'")
    path = write(tmp_path / "b.csv", 'sep=xy,b\n"sep=","c"\n')
    assert [pair for _, pair in rows(table(path, 1, 2))] == [Pair("sep=xy", "b"), Pair("sep=", "c")]


def test_names_without_what_surrounds_them(tmp_path: Path) -> None:
    """White space, byte order marks of pasted files, blank lines before the header."""
    path = write(tmp_path / "a.csv", '\n,\nen, "de" , \ufefffr\n1,2,3\n'.replace('"', ""))
    assert rows(table(path, "de", "fr")) == [(4, Pair("2", "3"))]
    assert failure(table(path, "en", "es")).startswith(f"{path}:3: no column 'es'")


def test_odd_csv_that_is_none(tmp_path: Path) -> None:
    large = "x" * 200_000
    path = write(tmp_path / "a.csv", f'5" pipe,\0\n"{large}",a\rb\n')
    assert [pair for _, pair in rows(table(path, 1, 2))] == [Pair('5" pipe', "\0"), Pair(large, "a\rb")]


def test_csv_that_is_no_utf8(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b'"a\nb",c\r\n\xff,"d"\n"e",f')
    found = rows(table(path, 1, 2))
    assert found[0] == (1, Pair("a\nb", "c")) and found[2] == (4, Pair("e", "f"))
    assert the_problem(table(path, 1, 2), 3)[0] == "encoding"


def test_delimiters(tmp_path: Path) -> None:
    path = write(tmp_path / "a", 'a;b|"c;d"\n')
    assert list(read(table(path, 1, 2, delimiter="|"))) == [Pair("a;b", '"c;d"')]
    csv = table(write(tmp_path / "a.csv", 'a;"b;c"\n'), 1, 2, delimiter=";")
    assert list(read(csv)) == [Pair("a", "b;c")]
    path = str(tmp_path / "a.csv")
    message = "delimiter: '·'; in csv it is one ASCII character"
    assert failure(table(path, 1, 2, delimiter="·")) == f"{path}: {message}"


def test_what_json_has_not() -> None:
    message = "x.jsonl: column 1: columns of jsonl have names, not numbers"
    assert failure(table("x.jsonl", 1, "b")) == message
    message = "x.json: jsonl has neither a header nor a delimiter"
    assert failure(table("x.json", "a", "b", delimiter=",")) == message
