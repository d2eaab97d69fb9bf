"""Subtitles, SubRip (.srt) and WebVTT (.vtt), as documents: a unit is the text of a cue.

The lines of a cue are translated together and broken again into as many lines; a line that begins with a dash, for
another speaker, is a unit of its own. Numbers, times, settings, notes, styles and regions are copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from weft.apps.texts.formats.markup import encode_markup, scan, text_pieces
from weft.apps.texts.pieces import Dialect, Document, Piece, Unit
from weft.errors import DataError

TIMES = re.compile(r"\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}")
SPEAKER = re.compile(r"\s*[-‐‑–—]\s*")
MARK = re.compile(r"\{\\[^{}]{0,200}\}|<\d[\d:.]{0,20}>")
"""A setting of a line, and the time of a word."""


def inline_pieces(text: str, *, entities: bool) -> Iterator[Piece]:
    """The pieces of a cue: WebVTT has entities, SubRip has none."""
    for token in scan(text):
        if token.kind == "text":
            yield from _text(token.raw, entities)
        elif token.kind in ("open", "close") and not token.name[:1].isdigit():
            yield Piece("open" if token.kind == "open" else "close", token.raw, name=token.name.split(".")[0])
        else:
            yield Piece("point", token.raw)


def _text(raw: str, entities: bool) -> Iterator[Piece]:
    end = 0
    for match in MARK.finditer(raw):
        yield from text_pieces(raw[end : match.start()], decode=entities)
        yield Piece("point", match[0])
        end = match.end()
    yield from text_pieces(raw[end:], decode=entities)


SRT = Dialect(str, partial(inline_pieces, entities=False))
VTT = Dialect(encode_markup, partial(inline_pieces, entities=True))


def read_srt(source: str, name: str = "subtitles") -> Document:
    """SubRip subtitles."""
    return _read(source, name, SRT)


def read_vtt(source: str, name: str = "subtitles") -> Document:
    """WebVTT subtitles."""
    if not source.removeprefix("\ufeff").startswith("WEBVTT"):
        raise DataError(f"{name}:1: WebVTT begins with a line WEBVTT; of SubRip subtitles, name the file .srt")
    return _read(source, name, VTT)


def _read(source: str, name: str, dialect: Dialect) -> Document:
    parts: list[str | Unit] = []
    cues = 0
    in_cue = False
    lines: list[str] = []
    for line in re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", source):
        if in_cue and line.strip():
            lines.append(line)
            continue
        if in_cue:
            parts += _cue(lines, dialect)
            lines, in_cue = [], False
        parts.append(line)
        if TIMES.match(line):
            cues, in_cue = cues + 1, True
    if source.strip("\ufeff \r\n\t") and not cues and dialect is SRT:
        raise DataError(f"{name}: no times such as 00:00:01,000 --> 00:00:02,000 stand in it; is it SubRip?")
    return Document([*parts, *_cue(lines, dialect)])


def _cue(lines: list[str], dialect: Dialect) -> Iterator[str | Unit]:
    """The text of a cue: a unit for every speaker."""
    assert dialect.pieces is not None
    pieces: list[Piece] = []
    for number, line in enumerate(lines):
        content = line.rstrip("\r\n")
        marker = SPEAKER.match(content)
        if marker:
            if pieces:
                yield Unit(pieces[:-1], dialect)
                yield pieces[-1].raw
            yield marker[0]
            pieces, content = [], content[marker.end() :]
        pieces += dialect.pieces(content)
        end = line[len(line.rstrip("\r\n")) :]
        if number + 1 < len(lines):
            pieces.append(Piece("break", end))
        else:
            yield Unit(pieces, dialect)
            yield end
