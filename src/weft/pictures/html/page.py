"""A standalone HTML page, and its content as the output of a notebook cell."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from weft.pictures.html.elements import Content, Html, element, join

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content-Security-Policy: the page can neither run a script nor load anything."""


@cache
def style() -> Html:
    """The style sheet, as an element."""
    return element("style", Html("\n" + Path(__file__).with_name("style.css").read_text("utf-8")))


def page(title: str, *content: Content) -> Html:
    """A whole document."""
    head = join(
        [
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=POLICY),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("link", rel="icon", href="data:,"),
            element("title", title),
            style(),
        ]
    )
    body = element("body", *content, class_="weft")
    return join([Html("<!DOCTYPE html>\n"), element("html", element("head", head), "\n", body, lang="en"), "\n"])


def fragment(*content: Content) -> Html:
    """The output of a notebook cell: with its style, which applies to nothing else."""
    return element("div", style(), *content, class_="weft")
