"""Plain text as a document: a unit is a line. Placeholders, URLs and e-mail addresses stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from weft.apps.texts.pieces import PLAIN, Document, Unit, protected

LINE = re.compile(r"([^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]*)(\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029])")


def read_plain(source: str, name: str = "the text") -> Document:
    """A text of sentences, lines and paragraphs."""
    return Document(list(_parts(source)))


def _parts(source: str) -> Iterator[str | Unit]:
    end = 0
    for match in LINE.finditer(source):
        if match[1]:
            yield Unit(protected(match[1]), PLAIN)
        yield match[2]
        end = match.end()
    if end < len(source):
        yield Unit(protected(source[end:]), PLAIN)
