"""Documents as data: what is copied, and units of text with the tags and placeholders that stand in them.

    document   copied text and units, which together are the file, character by character
    unit       the text of a paragraph, heading, cell, cue or string: what is split into sentences
    piece      a stretch of a unit: text, a tag that opens or closes, a point (an empty tag), or a placeholder
    dialect    how text is written in a format: a decoder's inverse, and what separates the lines of a unit

A format is a function from the text of a file to a `Document`; `weft.apps.texts.formats` lists them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from weft.translation.flags import PLACEHOLDER

Kind = Literal["text", "open", "close", "point", "placeholder", "break"]
BRACES = r"\{(?:[^{}\n]|\{[^{}\n]{0,300}+\}){0,300}+\}"
"""{name}, {{name}}, and a message with a choice: {count, plural, one {a man} other {men}}."""
PROTECTED = re.compile(rf"\$?{BRACES}|{PLACEHOLDER.pattern}|%%")
"""Text that must come out as it went in."""


class Piece(NamedTuple):
    """A stretch of a unit."""

    kind: Kind
    raw: str
    """As it stands in the file."""
    text: str = ""
    """As a model reads it; empty for tags."""
    name: str = ""
    """The name of a tag, by which one that closes finds the one that it closes."""


class Dialect(NamedTuple):
    """How text is written in a format."""

    encode: Callable[[str], str] = str
    """From the text of an output to that of the file."""
    pieces: Callable[[str], Iterable[Piece]] | None = None
    """The pieces of a translated unit, read again: it must have those of its source. None: there are only
    placeholders."""
    cannot_begin: re.Pattern[str] | None = None
    """Text that may not stand at the beginning of a line."""
    at_beginning: Callable[[str], str] = str
    """Changes what would, at the beginning of a unit."""


PLAIN = Dialect()


@dataclass
class Unit:
    """Text that is translated, with the tags in it."""

    pieces: list[Piece]
    dialect: Dialect = PLAIN
    raw: str = field(init=False)
    """As it stands in the file."""

    def __post_init__(self) -> None:
        self.raw = "".join(piece.raw for piece in self.pieces)

    @property
    def has_words(self) -> bool:
        """Whether there is anything to translate: a letter outside tags and placeholders."""
        return any(character.isalpha() for piece in self.pieces if piece.kind == "text" for character in piece.text)


class Document(NamedTuple):
    """A file: what is copied, as texts, and what is translated."""

    parts: list[str | Unit]

    @property
    def units(self) -> list[Unit]:
        return [part for part in self.parts if isinstance(part, Unit)]

    @property
    def raw(self) -> str:
        return "".join(part if isinstance(part, str) else part.raw for part in self.parts)


def protected(text: str, offsets: Sequence[int] | None = None, source: str = "") -> list[Piece]:
    """A decoded text as pieces of text and placeholders.

    ``offsets``: where each character and the end stand in ``source``, if the text is written otherwise there.
    """

    def piece(kind: Kind, start: int, end: int) -> Piece:
        part = text[start:end]
        return Piece(kind, part if offsets is None else source[offsets[start] : offsets[end]], part)

    pieces: list[Piece] = []
    end = 0
    if any(character in text for character in "{%@:<"):
        for match in PROTECTED.finditer(text):
            pieces += [piece("text", end, match.start())] if match.start() > end else []
            pieces.append(piece("placeholder", match.start(), match.end()))
            end = match.end()
    return [*pieces, piece("text", end, len(text))] if end < len(text) else pieces
