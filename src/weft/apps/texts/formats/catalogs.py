"""Catalogs of strings, gettext (.po) and JSON, as documents: a unit is a line of a string.

JSON: all strings but keys are translated. Gettext: entries without a translation get one; others, the header and
obsolete entries stay as they are. Tags, entities and placeholders in strings are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from weft.apps.texts.formats.markup import ENTITY, scan
from weft.apps.texts.pieces import Dialect, Document, Piece, Unit, protected
from weft.errors import DataError

JSON_STRING = re.compile(r'"((?:[^"\\]++|\\.)*+)"')
JSON_ESCAPE = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.)")
PO_ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)")
PO_LINE = re.compile(
    r'(?P<head>\s*(?:(?P<name>msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s+)?)"(?P<text>(?:[^"\\]++|\\.)*+)"\s*$'
)
PO_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def inline_pieces(raw: str, *, escape: re.Pattern[str], decode: Callable[[str], str]) -> Iterator[Piece]:
    """The pieces of a line of a string."""
    text, offsets, end = [], [], 0
    for match in escape.finditer(raw):
        decoded = decode(match[0])
        text += [raw[end : match.start()], decoded]
        offsets += [*range(end, match.start()), *[match.start()] * len(decoded)]
        end = match.end()
    text.append(raw[end:])
    offsets += range(end, len(raw) + 1)
    start = 0
    for token in scan("".join(text)):
        stop = start + len(token.raw)
        original = raw[offsets[start] : offsets[stop]]
        if token.kind == "text":
            yield from _text(token.raw, offsets[start : stop + 1], raw)
        elif token.kind in ("open", "close"):
            yield Piece("open" if token.kind == "open" else "close", original, name=token.name)
        else:
            yield Piece("point", original)
        start = stop


def _text(text: str, offsets: Sequence[int], raw: str) -> Iterator[Piece]:
    """A text between tags: entities are kept like tags."""
    end = 0
    for match in ENTITY.finditer(text):
        yield from protected(text[end : match.start()], offsets[end : match.start() + 1], raw)
        yield Piece("placeholder", raw[offsets[match.start()] : offsets[match.end()]], match[0])
        end = match.end()
    yield from protected(text[end:], offsets[end:], raw)


def _from_json(escaped: str) -> str:
    decoded = str(json.loads(f'"{escaped}"'))
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half of a pair is no text


def _to_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _from_po(escaped: str) -> str:
    code = escaped[1:]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16)) if code[0] == "x" and len(code) > 1 else PO_NAMED.get(code, code)


def _to_po(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")


JSON = Dialect(_to_json, partial(inline_pieces, escape=JSON_ESCAPE, decode=_from_json))
PO = Dialect(_to_po, partial(inline_pieces, escape=PO_ESCAPE, decode=_from_po))


def units(raw: str, dialect: Dialect) -> Iterator[str | Unit]:
    """The lines of a string as units."""
    assert dialect.pieces is not None
    for part in re.split(r"((?<!\\)(?:\\\\)*+(?:\\r)?\\n)", raw):
        if re.fullmatch(r"(?:\\\\)*+(?:\\r)?\\n", part) or not part:
            yield part
        else:
            yield Unit(list(dialect.pieces(part)), dialect)


def read_json(source: str, name: str = "JSON") -> Document:
    """A JSON file: the strings in it that are no keys."""
    try:
        json.loads(source.removeprefix("\ufeff"), parse_int=str)  # whose digits have no limit
    except json.JSONDecodeError as error:
        message = error.msg[:1].lower() + error.msg[1:]
        raise DataError(f"{name}:{error.lineno}: not JSON: {message} at column {error.colno}") from None
    except RecursionError:
        raise DataError(f"{name}: its lists and objects are nested too deeply") from None
    parts: list[str | Unit] = []
    end = 0
    for match in JSON_STRING.finditer(source):
        if re.compile(r"\s*:").match(source, match.end()):
            continue
        parts += [source[end : match.start(1)], *units(match[1], JSON)]
        end = match.end(1)
    return Document([*parts, source[end:]])


class _Entry(NamedTuple):
    """A message of a gettext catalog: its lines, and its strings by their names, as they stand there."""

    lines: list[str]
    strings: dict[str, str]


def read_po(source: str, name: str = "catalog") -> Document:
    """A gettext catalog: translations of its messages that have none."""
    parts: list[str | Unit] = []
    for entry in _entries(source, name):
        singular, plural = entry.strings.get("msgid", ""), entry.strings.get("msgid_plural", "")
        for line in entry.lines:
            match = PO_LINE.match(line)
            field = match["name"] if match and not line.lstrip().startswith("#") else None
            is_empty = field is not None and field.startswith("msgstr") and not entry.strings[field]
            if match is None or not is_empty or not singular:
                parts.append(line)
                continue
            text = singular if field in ("msgstr", "msgstr[0]") or not plural else plural
            parts += [line[: match.start("text")], *units(text, PO), line[match.end("text") :]]
    return Document(parts)


def _entries(source: str, name: str) -> Iterable[_Entry]:
    """The messages of a catalog; blank lines and comments belong to one of them."""
    entry = _Entry([], {})
    field = ""
    for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", source), 1):
        match = PO_LINE.match(line)
        text = line.strip("\ufeff \t\r\n")
        if text and not text.startswith("#") and match is None:
            raise DataError(f"{name}:{number}: {text[:40]!r} is no line of a gettext catalog")
        begins = match is not None and match["name"] in ("msgctxt", "msgid") and "msgid" in entry.strings
        if begins or (not text and entry.strings):
            yield entry
            entry, field = _Entry([], {}), ""
        entry.lines.append(line)
        if match is not None and not text.startswith("#"):
            field = match["name"] or field
            if not field:
                raise DataError(f"{name}:{number}: a string stands here before any msgid")
            entry.strings[field] = entry.strings.get(field, "") + match["text"]
    yield entry
