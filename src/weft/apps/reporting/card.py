"""The model card of the run folder, README.md, on the page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from weft.apps.reporting.section import paragraph
from weft.pictures.html.elements import Content, Html, element, join
from weft.pictures.labels import one_line

MAX_CHARACTERS = 100_000


@dataclass(frozen=True)
class CardSection:
    """The model card: headings, paragraphs, lists and code of its Markdown are shown as such, the rest as text."""

    text: str
    """Markdown; empty if the run has no card."""
    key: str = "card"
    title: str = "Model card"

    def record(self) -> str | None:
        return self.text or None

    def html(self) -> Html:
        if not self.text.strip():
            return paragraph("This run has no README.md.")
        return join(_blocks(self.text))


def card_section(path: Path | None) -> CardSection:
    if path is None or path.is_symlink() or not path.is_file():  # a link may lead out of the run folder
        return CardSection("")
    with path.open(encoding="utf-8", errors="replace") as file:
        return CardSection(file.read(MAX_CHARACTERS))


def _blocks(text: str) -> list[Html]:
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if heading := re.match(r"#{1,6}\s+(.*)", lines[0]):
            blocks.append(element("h3", *_inline(heading[1])))
            lines = lines[1:]
        if not lines:
            continue
        if all(line.lstrip().startswith(("- ", "* ")) for line in lines):
            blocks.append(element("ul", *(element("li", *_inline(line.lstrip()[2:])) for line in lines)))
        else:
            blocks.append(element("p", *_inline(" ".join(lines))))
    return blocks


def _inline(text: str) -> list[Content]:
    """Text with `code` in it."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # a lone backtick
        return [one_line(text)]
    return [
        element("code", one_line(piece)) if odd % 2 else one_line(piece) for odd, piece in enumerate(pieces) if piece
    ]
