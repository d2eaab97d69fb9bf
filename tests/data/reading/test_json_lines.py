"""JSON lines: values as text, and lines that give no pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.corpus_rows import rows, table, the_problem, write
from weft.data.pairs import Pair
from weft.data.reading.corpora import read


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("{x", "json", "not valid JSON (column 2: Expecting property name enclosed in double quotes)"),
        (
            " {",
            "json",
            "an object over several lines, expected a JSON object ({…}) in each line; `jq -c '.'` converts it",
        ),
        (
            '[{"a": 1}, {}]',
            "json",
            "is a list, expected a JSON object ({…}) in each line; `jq -c '.[]'` converts it",
        ),
        ('[{"a": 1}, 2]', "json", "is a list, expected a JSON object ({…}) in each line"),
        ("[]", "json", "is a list, expected a JSON object ({…}) in each line"),
        (
            "[",
            "json",
            "a list over several lines, expected a JSON object ({…}) in each line; `jq -c '.[]'` converts it",
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
        ('{"a": {"b": "\\ud800"}, "t": ""}', "encoding", "column 'a.b' has a lone surrogate, which is not valid text"),
    ],
)
def test_lines_that_give_no_pair(tmp_path: Path, line: str, kind: str, message: str) -> None:
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
def test_values_as_text(tmp_path: Path, value: str, text: str) -> None:
    path = write(tmp_path / "a.jsonl", f'{{"a": 1, "t": "x", "n": NaN, "a": {value}}}\n')
    assert list(read(table(path, "a", "t"))) == [Pair(text, "x")], "the last of equal names wins"


def test_a_dotted_name_may_be_a_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"a.b": "1", "a": {"b": "2"}}\n')
    assert list(read(table(path, "a.b", "a.b"))) == [Pair("1", "1")]
