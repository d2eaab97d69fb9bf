"""Formats of documents: each is a function from the text of a file to a `Document`.

    plain.py       text, line by line
    markup.py      HTML and XML
    xliff.py       XLIFF, whose sources get targets
    markdown.py    Markdown
    subtitles.py   SubRip and WebVTT
    catalogs.py    gettext and JSON
    docx.py        Word: its paragraphs become a text with simple tags, and back

To add one: write the function and add its line to `FORMATS`, and its endings to `ENDINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from weft.apps.texts.formats.catalogs import read_json, read_po
from weft.apps.texts.formats.docx import read_docx
from weft.apps.texts.formats.markdown import read_markdown
from weft.apps.texts.formats.markup import read_html, read_xml
from weft.apps.texts.formats.plain import read_plain
from weft.apps.texts.formats.subtitles import read_srt, read_vtt
from weft.apps.texts.formats.xliff import read_xliff
from weft.apps.texts.pieces import Document
from weft.errors import DataError, nearest

FORMATS: dict[str, Callable[[str, str], Document]] = {
    "text": read_plain,
    "html": read_html,
    "xml": read_xml,
    "markdown": read_markdown,
    "srt": read_srt,
    "vtt": read_vtt,
    "po": read_po,
    "xliff": read_xliff,
    "json": read_json,
    "docx": read_docx,
}
"""The reader of each format; its arguments are the text and the name of a file."""
ENDINGS = {
    **{".html": "html", ".htm": "html", ".xhtml": "html", ".xml": "xml", ".md": "markdown", ".markdown": "markdown"},
    **{".srt": "srt", ".vtt": "vtt", ".po": "po", ".pot": "po", ".xliff": "xliff", ".xlf": "xliff", ".json": "json"},
    ".docx": "docx",
}


def format_of(path: Path | str) -> str | None:
    """The format of a file by the ending of its name; None if it has no such ending."""
    return ENDINGS.get(Path(path).suffix.lower())


def read_document(text: str, format: str, name: str = "the text") -> Document:
    """A document of a format; ``name``: where it comes from, for errors."""
    if format not in FORMATS:
        raise DataError(f"format {format!r}: expected one of {', '.join(FORMATS)}; {nearest(format, FORMATS)}")
    return FORMATS[format](text, name)
