"""The model card on the page."""

from __future__ import annotations

from weft.apps.reporting.card import CardSection


def test_markdown_of_the_card() -> None:
    shown = CardSection("# Name\n\ntext of\ntwo lines\n\n- one `a<b`\n- two\n\nlone ` backtick <b>").html()
    assert shown == (
        "<h3>Name</h3><p>text of two lines</p><ul><li>one <code>a&lt;b</code></li><li>two</li></ul>"
        "<p>lone ` backtick &lt;b&gt;</p>"
    )
    assert "no README.md" in CardSection("").html() and CardSection("").record() is None
