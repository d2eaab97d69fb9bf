"""gettext and JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.generated_documents import translated
from weft.apps.texts.formats import read_document
from weft.apps.texts.formats.catalogs import read_json, read_po
from weft.apps.texts.rendering import SentenceOutput
from weft.apps.texts.translation import Sentence
from weft.errors import DataError
from weft.text.words import words

PO = """msgid ""
msgstr "Language: fr\\n"

#, python-format
msgid "we drank %(n)d \\"cups\\""
msgstr ""

msgid "done"
msgstr "fait"

msgid ""
"two\\n"
"lines"
msgstr ""
""

msgid "a man"
msgid_plural "%d men"
msgstr[0] ""
msgstr[1] ""

#~ msgid "old"
#~ msgstr ""
"""


def upper(item: Sentence) -> SentenceOutput:
    text = " ".join(word if word[0] in "%<{" else word.upper() for word in item.text.split())
    return SentenceOutput(text, words(item.text), words(text), [(i, i) for i in range(len(words(item.text)))])


def test_gettext() -> None:
    assert read_po(PO).raw != PO, "an empty translation is filled with its source"
    output = translated(PO, "po", upper).text
    assert (
        output.splitlines()
        == PO.replace('\\"cups\\""\nmsgstr ""', '\\"cups\\""\nmsgstr "WE DRANK %(n)d \\"CUPS\\""')
        .replace('"lines"\nmsgstr ""', '"lines"\nmsgstr "TWO\\nLINES"')
        .replace('msgstr[0] ""', 'msgstr[0] "A MAN"')
        .replace('msgstr[1] ""', 'msgstr[1] "%d MEN"')
        .splitlines()
    )
    assert translated(output, "po", upper).text == output, "translated once"


def test_numbers_of_any_length_are_copied() -> None:
    source = '{"a": ' + "1" * 5000 + "}"
    assert read_json(source).raw == source


def test_json() -> None:
    source = '{"a b": "we <b class=\\"x\\">drank</b>\\nit", "k" : ["c &amp; {x}", 1, null, "\\u00e9t\\u00e9"], "e": ""}'
    assert read_json(source).raw == source
    output = translated(source, "json", upper).text
    assert json.loads(output) == {"a b": 'WE <b class="x">DRANK</b>\nIT', "k": ["C &amp; {x}", 1, None, "ÉTÉ"], "e": ""}
    assert '<b class=\\"x\\">' in output


@given(
    st.recursive(
        st.text(max_size=6) | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_every_character_of_json_is_kept(value: object) -> None:
    for source in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert read_json(source).raw == source
        assert type(json.loads(translated(source, "json", upper).text)) is type(value)


@pytest.mark.parametrize(
    ("format", "source", "message"),
    [
        ("json", '{"a": }', "a:1: not JSON: expecting value at column 7"),
        ("json", "[" * 100_000, "a: its lists and objects are nested too deeply"),
        ("po", "msgid a", "a:1: 'msgid a' is no line of a gettext catalog"),
        ("po", '"a"', "a:1: a string stands here before any msgid"),
    ],
)
def test_what_is_refused(format: str, source: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_document(source, format, "a")
    assert str(caught.value) == message
