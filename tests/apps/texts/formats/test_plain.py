"""Plain text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.apps.texts.formats import ENDINGS, FORMATS, format_of, read_document
from weft.apps.texts.formats.plain import read_plain
from weft.errors import DataError


@given(st.text(alphabet="a.{}% \r\n\x0b\x0c\x85\u2028", max_size=30))
def test_lines_are_units(source: str) -> None:
    document = read_plain(source)
    assert document.raw == source
    assert [unit.raw for unit in document.units] == [line for line in source.splitlines() if line]


@pytest.mark.parametrize("piece", ["a", "{", "a.", "\r"])
def test_a_long_line_without_an_end_takes_linear_time(piece: str) -> None:
    start = time.process_time()
    assert read_plain(piece * 200_000).raw == piece * 200_000
    assert time.process_time() - start < 30, "a quadratic expression takes minutes"


def test_formats_by_their_endings() -> None:
    assert (format_of("a/b.HTM"), format_of("a.po"), format_of("a.txt"), format_of("-")) == ("html", "po", None, None)
    assert set(ENDINGS.values()) | {"text"} == set(FORMATS)
    with pytest.raises(DataError, match=r"format 'htm': expected one of text, html, .*; did you mean 'html'"):
        read_document("", "htm")
