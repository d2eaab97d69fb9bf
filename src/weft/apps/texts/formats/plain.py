"""Plain text as a document: a unit is a line. Placeholders, URLs and e-mail addresses stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from weft.apps.texts.pieces import PLAIN, Document, Unit, protected

BREAK = re.compile(r"\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")


def read_plain(source: str, name: str = "the text") -> Document:
    """A text of sentences, lines and paragraphs."""
    return Document(list(_parts(source)))


def _parts(source: str) -> Iterator[str | Unit]:
    end = 0
    for match in BREAK.finditer(source):
        if end < match.start():
            yield Unit(protected(source[end : match.start()]), PLAIN)
        yield match[0]
        end = match.end()
    if end < len(source):
        yield Unit(protected(source[end:]), PLAIN)
