"""Markdown: what is a unit, and that every character is kept."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.apps.texts.formats.markdown import MARKDOWN, encode, inline_pieces, read_markdown


def units(source: str) -> list[str]:
    document = read_markdown(source)
    assert document.raw == source
    return [unit.raw for unit in document.units if unit.has_words]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# A *b* #\n\nc\nd\n", ["A *b*", "c\nd"]),
        ("a\n===\n", ["a"]),
        ("- a\n  b\n- c\n  1. d\n- [ ] e\n", ["a\n  b", "c", "d", "e"]),
        ("> a\n> b\n>> c\n", ["a\n> b", "c"]),
        ("a  \nb\\\nc\n", ["a", "b", "c"]),  # hard breaks
        ("```py\na\n```\n~~~\nb\n~~~\nc", ["c"]),
        ("a\n\n    b\n\nc", ["a", "c"]),
        ("- a\n\n  b\n\n      c\n", ["a", "b"]),
        ("| a | b *c* |\n|---|:-:|\n| d \\| e | 1 |\n", ["a", "b *c*", "d \\| e"]),
        ("[a]: http://b\n[^1]: c d\n", ["c d"]),
        ("---\ntitle: a\n---\nb", ["b"]),
        ("<div>\na\n</div>\n<!-- b -->\n<script>\nc\n</script>\n", ["a"]),
        ("<br>\na *b*\n", ["a *b*"]),
        ("***\n- - -\n", []),
        ("a\n2. b\n", ["a\n2. b"]),  # no item: only 1 begins one within a paragraph
    ],
)
def test_units(source: str, expected: list[str]) -> None:
    assert units(source) == expected


def marks(source: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.raw) for piece in inline_pieces(source) if piece.kind != "text"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("**a** _b_", [("open", "**"), ("close", "**"), ("open", "_"), ("close", "_")]),
        ("snake_case 2 * 3", []),
        ("\\*a\\*", []),
        ("`a *b*` c", [("point", "`a *b*`")]),
        ('[a](b "c") ![d](e)', [("open", "["), ("close", '](b "c")'), ("open", "!["), ("close", "](e)")]),
        ("[a][b] [c]", [("open", "["), ("close", "][b]"), ("point", "["), ("point", "]")]),
        ("a *b", [("point", "*")]),
        ("a[^1] <http://b.c>", [("point", "[^1]"), ("point", "<http://b.c>")]),
        ("**`a`**", [("open", "**"), ("point", "`a`"), ("close", "**")]),
    ],
)
def test_marks(source: str, expected: list[tuple[str, str]]) -> None:
    assert marks(source) == expected


@given(st.text(alphabet="ab *_[]()`<>\\&|~!1.#-", max_size=20))
def test_outputs_have_no_marks(text: str) -> None:
    assert not any(kind in ("open", "close") for kind, _ in marks(f"x{encode(text)}x"))


def test_what_begins_a_block_is_escaped() -> None:
    assert [MARKDOWN.at_beginning(text) for text in ("- a", "1. a", "# a", "a", "12) b")] == [
        *("\\- a", "1\\. a", "\\# a", "a", "12\\) b")
    ]


@given(st.text(alphabet="a *_[]()`<>\n|-:#\t1.\\", max_size=40))
def test_every_character_is_kept(source: str) -> None:
    assert read_markdown(source).raw == source


@pytest.mark.parametrize(
    "piece", ["*", "**a", "[", "[a](", "`", "``a`", "> ", "|", "\\", "a|b\n|-|\n", "](a ", "- ", "* *\n"]
)
def test_in_linear_time(piece: str) -> None:
    source = piece * 5_000
    start = time.process_time()
    assert read_markdown(source).raw == source
    assert time.process_time() - start < 30, "a quadratic expression takes far longer"
