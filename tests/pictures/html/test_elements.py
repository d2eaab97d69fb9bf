"""Elements: text stays text."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from weft.pictures.html.elements import Html, data_lines, data_text, element, join, rounded


def test_elements_and_attributes() -> None:
    cell = element("td", "a < b & c", class_="number", stroke_width=1.50, hidden=True, id=None, open=False)
    assert cell == '<td class="number" stroke-width="1.5" hidden>a &lt; b &amp; c</td>'
    assert element("p", element("b", "x"), " > y") == "<p><b>x</b> &gt; y</p>"
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert element("p", title='"><script>') == '<p title="&quot;&gt;&lt;script&gt;"></p>'
    assert element("p", "a\x00\u202eb\n", title="\ud800") == '<p title="\ufffd">a\ufffd\ufffdb\n</p>'
    assert join(["<", Html("<br>")]) == "&lt;<br>" and isinstance(join([]), Html)
    assert [rounded(value) for value in (1.0, 0.126, -0.001, 10.0)] == ["1", "0.13", "0", "10"]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(), st.text(st.sampled_from("<>&\"'/!-[]=sciptbold;#x20\u202e\x00")))
def test_no_text_becomes_markup(text: str, hostile: str) -> None:
    reader = _Reader()
    reader.feed(element("p", data_text(text), hostile, title=hostile))
    reader.close()
    assert reader.tags in (["p", "bdi"], ["p", "span"])
    data_text(text).encode("utf-8")  # also of half a surrogate pair


def test_texts_of_the_data() -> None:
    assert data_text("a\tb") == '<bdi dir="auto">a⇥b</bdi>'
    assert data_lines("a <b>\n\n c\x00") == "<pre>a &lt;b&gt;\n\n c⟨0⟩</pre>"
    assert data_text("  ") == '<span class="faint">(empty)</span>'
    assert "202E" in data_text("x\u202ey") and "\u202e" not in data_text("x\u202ey")
