"""Pages, and outputs of notebooks."""

from __future__ import annotations

import re

from weft.pictures.html.elements import table, terms
from weft.pictures.html.page import fragment, page, style


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    document = page("a < b", "text & more")
    assert document.startswith("<!DOCTYPE html>") and "<title>a &lt; b</title>" in document
    assert "default-src 'none'" in document.replace("&#x27;", "'") and "<script" not in document
    assert "://" not in document and "@import" not in document and "url(" not in document


def test_the_style_applies_to_nothing_else() -> None:
    """So that the output of a cell does not change the notebook around it."""
    css = re.sub(r"/\*.*?\*/", "", style(), flags=re.S)
    selectors = [
        part.strip() for group in re.findall(r"([^{};]+)\{", css.partition(">")[2]) for part in group.split(",")
    ]
    assert len(selectors) > 50
    assert not [name for name in selectors if ".weft" not in name and not name.startswith("@") and ":" not in name]
    assert fragment("x").startswith('<div class="weft"><style>') and fragment("<x>").endswith("&lt;x&gt;</div>")


def test_both_color_schemes_and_paper() -> None:
    css = style()
    assert "prefers-color-scheme: dark" in css and "@media print" in css and "max-width" in css


def test_tables_and_terms() -> None:
    found = table(("name", "n"), [("a<", "1"), ("b", "2")], numbers=[1], caption="C<")
    assert found.startswith(
        '<div><p class="caption">C&lt;</p><div class="scroll"><table class="rows" aria-label="C&lt;">'
    )
    assert found.count("<tr>") == 3 and '<td class="number">1</td>' in found and "a&lt;" in found
    assert "<thead>" not in table(("", ""), [("a", "b")])
    assert terms([("a", "b")]) == "<dl><dt>a</dt><dd>b</dd></dl>"
