"""Tables, and lists of terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.pictures.html.elements import Content, Html, element

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
