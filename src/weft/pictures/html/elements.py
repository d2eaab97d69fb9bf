"""Elements of HTML and SVG: every text is escaped, every character visible."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from weft.pictures.labels import one_line

VOID = frozenset({"br", "col", "hr", "img", "link", "meta"})
"""Elements without content."""
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that HTML does not allow, or that reorder the text around them."""
Attribute = str | int | float | bool | None


class Html(str):
    """Markup. A plain ``str`` is text, and is escaped wherever it becomes part of markup."""

    __slots__ = ()


Content = str | Html


def element(name: str, /, *children: Content, **attributes: Attribute) -> Html:
    """An element: ``element("td", "a < b", class_="number")`` → ``<td class="number">a &lt; b</td>``.

    Of the names of attributes, a final underscore is removed, others become hyphens. None and False: no attribute.
    """
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{opening}>")
    return Html(f"<{opening}>{join(children)}</{name}>")


def join(parts: Iterable[Content]) -> Html:
    """Parts one after the other; those that are plain text are escaped."""
    return Html("".join(part if isinstance(part, Html) else _escaped(part) for part in parts))


def data_text(text: str, empty: str = "(empty)") -> Html:
    """A text of the data: in one line, in its own direction, with a symbol for each invisible character."""
    if not text.strip():
        return element("span", empty, class_="faint")
    return element("bdi", one_line(text), dir="auto")


def data_lines(text: str) -> Html:
    """A text of several lines, for example a file, in its own lines."""
    return element("pre", "\n".join(one_line(line) if line else "" for line in text.splitlines()))


def svg_line(x1: float, y1: float, x2: float, y2: float, style: str) -> Html:
    """A line of SVG; ``style``: its class."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=style)


def svg_text(x: float, y: float, text: str, anchor: str, style: str) -> Html:
    """A text of SVG; ``anchor``: start, middle or end; ``style``: its class, if not empty."""
    return element("text", text, x=x, y=y, text_anchor=anchor, class_=style or None)


def rounded(value: float) -> str:
    """A coordinate: at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _escaped(text: str, *, quote: bool = False) -> str:
    return html.escape(HARMFUL.sub("\N{REPLACEMENT CHARACTER}", text), quote=quote)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = rounded(value) if isinstance(value, float) else str(value)
    return f' {name}="{_escaped(text, quote=True)}"'


SHORT = 28
"""Characters of a heading of a row that is never broken."""


def table(
    header: Sequence[str], rows: Iterable[Sequence[Content]], *, numbers: Iterable[int] = (), caption: str = ""
) -> Html:
    """A table whose first column has the headings of its rows; ``numbers`` are columns aligned at their end."""
    aligned = set(numbers)

    def cell(name: str, index: int, content: Content, **attributes: str) -> Html:
        return element(name, content, class_="number" if index in aligned else None, **attributes)

    head = element("tr", *(cell("th", index, name, scope="col") for index, name in enumerate(header)))
    lines = []
    for first, *others in rows:
        cells = (cell("td", index, content) for index, content in enumerate(others, 1))
        is_short = not isinstance(first, Html) and len(first) <= SHORT
        heading = element("th", first, scope="row", class_="short" if is_short else None)
        lines.append(element("tr", heading, *cells))
    parts = [element("thead", head)] if any(header) else []
    parts.append(element("tbody", *lines))
    box = element("div", element("table", *parts, class_="rows", aria_label=caption or None), class_="scroll")
    return element("div", element("p", caption, class_="caption"), box) if caption else box


def terms(rows: Iterable[tuple[str, Content]]) -> Html:
    """Terms with their descriptions."""
    return element(
        "dl", *(element(name, content) for row in rows for name, content in zip(("dt", "dd"), row, strict=True))
    )
