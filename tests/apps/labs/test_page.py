"""Results as HTML: self-contained, escaped, and the same bytes."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from weft.apps.labs.lab import LabResult
from weft.apps.labs.page import labs_page


class Balance(HTMLParser):
    """Fails at an element that is closed out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_one_page_of_all_labs(result: LabResult) -> None:
    other = replace(result, lab=replace(result.lab, name="other"))
    text = str(labs_page([result, other]))
    parser = Balance()
    parser.feed(text)
    assert not parser.open
    assert text.count("<h2") == 2 and '<a href="#other">' in text and 'id="other"' in text
    assert not re.search(r"<script|src=|url\(|https?:", text)
    assert "A &lt;note&gt;." in text and "with &lt;attention&gt;" in text
    assert text == str(labs_page([result, other]))
    assert all(version in text for version in (f"torch {result.environment['torch']}", "weft "))
