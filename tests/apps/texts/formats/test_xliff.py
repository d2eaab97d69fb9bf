"""XLIFF."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from fixtures.generated_documents import translated
from weft.apps.texts.formats import read_document
from weft.apps.texts.rendering import SentenceOutput
from weft.apps.texts.translation import Sentence
from weft.errors import DataError
from weft.text.words import words

XLIFF = """<xliff version="1.2"><file><body>
  <trans-unit id="1">
    <source>we <g id="1">drank</g> <x id="2"/><ph id="3">&lt;b&gt;</ph> it &amp; left</source>
  </trans-unit>
  <trans-unit id="2"><source>done</source><target>fait</target></trans-unit>
  <trans-unit id="3"><source>a man</source><target state="new"/></trans-unit>
  <trans-unit id="4"><source>a dog</source><target></target></trans-unit>
  <trans-unit id="5" translate="no"><source>x</source></trans-unit>
</body></file></xliff>
"""


def upper(item: Sentence) -> SentenceOutput:
    text = item.text.upper()
    return SentenceOutput(text, words(item.text), words(text), [(i, i) for i in range(len(words(text)))])


def test_targets() -> None:
    output = translated(XLIFF, "xliff", upper).text
    expected = XLIFF.replace(
        "left</source>\n",
        'left</source>\n    <target>WE <g id="1">DRANK</g> <x id="2"/>'
        '<ph id="3">&lt;b&gt;</ph> IT &amp; LEFT</target>\n',
    )
    expected = expected.replace('<target state="new"/>', '<target state="new">A MAN</target>')
    assert output == expected.replace("<target></target>", "<target>A DOG</target>")
    ElementTree.fromstring(output)
    assert translated(output, "xliff", upper).text == output, "translated once"


def test_version_2() -> None:
    source = (
        '<xliff version="2.0"><file><unit id="1"><segment><source>a <pc id="1">b</pc></source></segment>'
        "<ignorable><source> c</source></ignorable></unit></file></xliff>"
    )
    output = translated(source, "xliff", upper).text
    assert output == source.replace("</source></segment>", '</source><target>A <pc id="1">B</pc></target></segment>')


def test_other_xml() -> None:
    with pytest.raises(DataError, match=r"a: no <xliff> stands in it; name other XML files \.xml"):
        read_document("<a/>", "xliff", "a")
