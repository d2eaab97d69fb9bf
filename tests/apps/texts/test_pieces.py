"""Placeholders in texts."""

from __future__ import annotations

import time

import pytest

from weft.apps.texts.pieces import Document, Piece, Unit, protected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello {name}, you", ["{name}"]),
        ("%s of %(n)d at 100%%", ["%s", "%(n)d", "%%"]),
        ("{count, plural, one {a man} other {# men}}", ["{count, plural, one {a man} other {# men}}"]),
        ("{{name}} ${total} {0:.2f}", ["{{name}}", "${total}", "{0:.2f}"]),
        ('see https://a.org/b?c=d. or <x id="1"/>', ["https://a.org/b?c=d", '<x id="1"/>']),
        ("x.y@z.org", ["x.y@z.org"]),
        ("a { b", []),
    ],
)
def test_what_is_protected(text: str, expected: list[str]) -> None:
    pieces = protected(text)
    assert [piece.text for piece in pieces if piece.kind == "placeholder"] == expected
    assert "".join(piece.raw for piece in pieces) == text


def test_as_it_stands_in_the_file() -> None:
    pieces = protected("a<b>", [0, 1, 5, 6, 10], "a&lt;b&gt;")
    assert pieces == [Piece("text", "a", "a"), Piece("placeholder", "&lt;b&gt;", "<b>")]


def test_documents() -> None:
    document = Document(["<p>", Unit(protected("a {b}")), "</p>"])
    assert document.raw == "<p>a {b}</p>" and [unit.raw for unit in document.units] == ["a {b}"]
    assert Unit(protected("a {b}")).has_words and not Unit(protected("12 {b}")).has_words


@pytest.mark.parametrize("piece", ["{", "{a", "{{a}", "%", "@a", "<a", "http://", "{a{b}", "a", "a.b", "a@"])
def test_any_text_in_linear_time(piece: str) -> None:
    start = time.process_time()
    text = f"{piece * 50_000}:"  # with one of the signs without which nothing is looked for
    assert "".join(one.raw for one in protected(text)) == text
    assert time.process_time() - start < 30, "a quadratic expression takes hours"
