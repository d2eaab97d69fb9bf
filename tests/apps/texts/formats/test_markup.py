"""HTML and XML: what is a unit, and that every character is kept, whatever it is."""

from __future__ import annotations

import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.generated_documents import check, reordering, translated
from weft.apps.texts.formats.markup import inline_pieces, read_html, read_xml, scan, text_pieces
from weft.apps.texts.pieces import Document
from weft.errors import DataError


def units(document: Document) -> list[str]:
    return [unit.raw for unit in document.units if unit.has_words]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>a <b>b</b></p><div>c</div>d", ["a <b>b</b>", "c", "d"]),
        ("a<br>b<hr/>c", ["a", "b", "c"]),
        ("<script>a < b</script><style>p > a</style><pre>x\n y</pre><textarea>a</textarea>", []),
        ("<p>see <code>a <b>b</b></code> here</p>", ["see <code>a <b>b</b></code> here"]),
        ("<p>see <code>a</p><p>b</p>", ["see <code>a", "b"]),  # unclosed: it ends with its text
        ('<p translate="no">a</p><p class="x notranslate">b</p><i translate=no>d</i> c', ["<i translate=no>d</i> c"]),
        ("<!DOCTYPE html><!-- a --><p>b <!-- c --> d</p>", ["b <!-- c --> d"]),
        ("<p title='a > b'>c</p>", ["c"]),
        ("1 < 2 and a <b", ["1 < 2 and a <b"]),
        ("<TABLE><TD>A<TD>B</TABLE>", ["A", "B"]),
    ],
)  # fmt: skip
def test_units_of_html(source: str, expected: list[str]) -> None:
    document = read_html(source)
    assert units(document) == expected and document.raw == source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<r><a>b <c>d</c></a><e/><f>g</f></r>", ["b <c>d</c>", "g"]),
        ("<r>a<b><c>d</c></b></r>", ["a<b><c>d</c></b>"]),
        ('<r><a translate="no">b</a><c>d</c></r>', ["d"]),
        ("<é:a>b</é:a>".replace("é:", "_"), ["b"]),
        ("<r><![CDATA[a < b]]><c>d</c></r>", ["d"]),
        ('<?xml version="1.0" encoding="latin-1"?><!DOCTYPE r><r>é</r>', ["é"]),
    ],
)
def test_units_of_xml(source: str, expected: list[str]) -> None:
    document = read_xml(source)
    assert units(document) == expected and document.raw == source


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("<a><b></a>", "a.xml:1: not well-formed XML: mismatched tag"),
        ("", "a.xml:1: not well-formed XML: no element found"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "a.xml:1: entities are declared here, which is not supported"),
    ],
)
def test_xml_that_is_refused(source: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_xml(source, "a.xml")
    assert str(caught.value) == message


def test_entities() -> None:
    [piece] = text_pieces("a &amp; b &eacute;")
    assert (piece.text, piece.raw) == ("a & b é", "a &amp; b &eacute;")
    assert [piece.raw for piece in text_pieces("x &lt;b&gt; y")] == ["x ", "&lt;b&gt;", " y"]
    assert [piece.kind for piece in inline_pieces("a <b>c</b><br/>")] == ["text", "open", "text", "close", "point"]


TOKENS = st.sampled_from(
    [
        "<",
        ">",
        "</",
        "b",
        "p",
        "<!--",
        "-->",
        '"',
        "'",
        "=",
        " ",
        "&",
        ";",
        "<script>",
        "</script>",
        "/>",
        "é",
        "<![CDATA[",
    ]
)


@given(st.lists(TOKENS, max_size=25).map("".join))
def test_every_character_is_kept(source: str) -> None:
    assert read_html(source).raw == source
    assert "".join(token.raw for token in scan(source, xml=True)) == source


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<a ", "<a '", '<a ="', "<a =\"'<a ='\"", "<b>", "</b>", "<code>", "<p>", "&amp;", "<script>", "<?", "</"],
)
def test_in_linear_time(piece: str) -> None:
    source = piece * 20_000
    start = time.process_time()
    assert read_html(source).raw == source
    assert time.process_time() - start < 30, "a quadratic scan takes far longer"


@pytest.mark.parametrize(
    "source",
    [
        "<p><a><b><!-- between --> he</b> drank</a> milk</p>",
        "<p><a><i><b><!-- between -->he</b> drank <u>the</u></i> white</a> milk</p>",
        "<div><a><b>he<p>drank the</p> white</b> milk</a> today</div>",
    ],
)
def test_tags_whose_partners_are_in_another_unit_keep_their_order(source: str) -> None:
    """A comment or a block within tags ends a unit: the next one has closing tags alone, which must not cross."""
    for number in range(40):
        check(source, translated(source, "html", reordering(Random(number))).text, "html")
