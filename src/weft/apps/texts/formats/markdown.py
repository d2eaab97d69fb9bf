"""Markdown as a document: CommonMark with tables and footnotes, read line by line.

A unit is a paragraph, whose lines are joined and broken again, a heading, a table cell, or the text of a list item.
Copied are code, front matter, definitions of links, list markers, quotation marks of lines, rules. Emphasis, links,
images and tags of HTML stand in the text. A mark of emphasis pairs with the next of its own length; all others are kept
as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from weft.apps.texts.formats.markup import BLOCKS, joined_copies, scan, text_pieces
from weft.apps.texts.pieces import Dialect, Document, Piece, Unit, protected

QUOTE = re.compile(r" {0,3}>[ \t]?")
LIST = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(?:\[[ xX]\][ \t]+)?|$)")
HEADING = re.compile(r"( {0,3}#{1,6}[ \t]+)(.*?)([ \t]+#+)?[ \t]*$")
FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|=+[ \t]*)$")
DELIMITERS = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*+\|?[ \t]*$")
DEFINITION = re.compile(r" {0,3}\[(?!\^)[^\[\]\n]{1,999}\]:[ \t]*\S+.*$")
FOOTNOTE = re.compile(r" {0,3}\[\^[^\[\]\s]{1,99}\]:[ \t]*")
COPIED_BLOCK = re.compile(r" {0,3}<(script|style|pre|textarea)\b", re.IGNORECASE)
TAG_LINE = re.compile(r""" {0,3}</?[A-Za-z][A-Za-z0-9-]*(?:[^<>"'\n]|"[^"\n]*+"|'[^'\n]*+')*+>[ \t\r]*$""")
"""A line that begins a block of HTML: a tag alone."""
MARKER_LIKE = re.compile(r"(?:[-*+#>=|~`:]|\d{1,9}[.)](?:\s|$))")
"""Text that would begin another kind of block at the beginning of a line."""
SPECIAL = re.compile(r"[\\`\[\]|]|(?<!\s)\*|\*(?!\s)|(?<![^\W_])_|_(?![^\W_])|~~|<(?=[A-Za-z/!?])|&(?=#?\w+;)")
"""Characters of an output that would be markup. Those of words such as snake_case are not."""
ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
AUTOLINK = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*:")
DELIMITER = re.compile(r"\*+|_+|~~")
LINK_END = re.compile(
    r"\]\((?:[ \t]*(?:<[^<>\n]*>|(?:[^\s()\\]|\\.|\([^\s()]*\))*+)"
    r"(?:[ \t]+(?:\"[^\"]*+\"|'[^']*+'|\([^()]*+\)))?[ \t]*\))"
    r"|\]\[[^\[\]\n]{0,999}\]|\]"
)


class _Line(NamedTuple):
    """A line of Markdown."""

    prefix: str
    """Quotation marks, list markers, indentation."""
    content: str
    end: str
    """Spaces and the line break."""
    begins: bool
    """Whether its prefix begins an item."""
    depth: str
    """The quotation marks."""


def read_markdown(source: str, name: str = "Markdown") -> Document:
    """A Markdown document."""
    reader = _Reader()
    lines = source.splitlines(keepends=True) if "\f" not in source and "\v" not in source else _lines(source)
    reader.read(lines)
    return Document(reader.parts)


def _lines(source: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", source)


class _Reader:
    """Reads lines; a paragraph is kept until it ends."""

    def __init__(self) -> None:
        self.parts: list[str | Unit] = []
        self.paragraph: list[_Line] = []
        self.previous_blank = True
        self.item_width = 0
        """The indentation of the text of the last list item; 0: no list."""

    def read(self, lines: list[str]) -> None:
        index = self._front_matter(lines)
        while index < len(lines):
            end = self._copied_block(lines, index)
            if end > index:
                self._end_paragraph()
                self.parts.append("".join(lines[index:end]))
                self.previous_blank, index = True, end
                continue
            line = self._line(lines[index])
            following = lines[index + 1] if index + 1 < len(lines) else ""
            if self._is_table(line, following):
                index = self._table(lines, index)
                continue
            self._add(line)
            index += 1
        self._end_paragraph()

    def _front_matter(self, lines: list[str]) -> int:
        if not lines or lines[0].rstrip() != "---":
            return 0
        end = next((number for number, line in enumerate(lines[1:], 2) if line.rstrip() in ("---", "...")), 0)
        self.parts += ["".join(lines[:end])] if end else []
        return end

    def _copied_block(self, lines: list[str], index: int) -> int:
        """The end of the block that begins here and is copied: code, a script, a comment, a rule, a definition."""
        line = lines[index]
        text = QUOTE.sub("", line) if line.lstrip().startswith(">") else line
        inner = LIST.match(text)
        body = text if inner is None or RULE.match(text) else text[inner.end() :]
        fence = FENCE.match(body)
        if fence and not (fence[1][0] == "`" and "`" in body[fence.end() :]):
            close = re.compile(rf"[ \t>]*{re.escape(fence[1][0])}{{{len(fence[1])},}}[ \t]*$")
            return next((end for end in range(index + 1, len(lines)) if close.match(lines[end])), len(lines) - 1) + 1
        block = COPIED_BLOCK.match(text)
        if block:
            close = re.compile(f"</{block[1]}", re.IGNORECASE)
            return next((end for end in range(index, len(lines)) if close.search(lines[end])), len(lines) - 1) + 1
        if text.lstrip(" ").startswith("<!--"):
            return next((end for end in range(index, len(lines)) if "-->" in lines[end]), len(lines) - 1) + 1
        is_code = self.previous_blank and re.match(r" {4}|\t", _deindented(text, self.item_width)) and text.strip()
        if is_code and not (self.item_width and inner):
            return index + 1
        if RULE.match(text) and (text.strip()[:1] != "=" or self.paragraph):
            return index + 1
        return index + 1 if not self.paragraph and (DEFINITION.match(text) or TAG_LINE.match(text)) else index

    def _line(self, raw: str) -> _Line:
        """A line as its parts. Each list marker, and each quotation mark, is followed by what it holds."""
        position, begins, depth = 0, False, ""
        while True:
            quote = QUOTE.match(raw, position)
            marker = None if quote else LIST.match(raw, position)
            if quote:
                depth += ">"
            elif marker and (begins or self._may_begin_item(marker[0].strip())):
                begins = True
                self.item_width = marker.end()
            else:
                break
            position = (quote or marker).end()  # type: ignore[union-attr]
        footnote = FOOTNOTE.match(raw, position)
        if footnote:
            position, begins = footnote.end(), True
        stripped = raw[position:].lstrip(" \t")
        position = len(raw) - len(stripped)
        content = stripped.rstrip()
        return _Line(raw[:position], content, stripped[len(content) :], begins, depth)

    def _may_begin_item(self, marker: str) -> bool:
        """Whether a marker begins an item: within a paragraph outside of lists, a number does only if it is 1."""
        return not self.paragraph or bool(self.item_width) or not marker[:1].isdigit() or marker[:-1] == "1"

    def _add(self, line: _Line) -> None:
        heading = HEADING.match(line.content)
        if not line.content:
            self._end_paragraph()
            self.parts.append("".join((line.prefix, line.end)))
            self.previous_blank = True
            return
        if self.previous_blank and not line.begins and not line.prefix:
            self.item_width = 0
        self.previous_blank = False
        if line.begins or heading or (self.paragraph and line.depth != self.paragraph[-1].depth and line.depth):
            self._end_paragraph()
        if heading:
            self.parts += [line.prefix + heading[1], *units(heading[2])]
            self.parts.append(line.content[len(heading[1]) + len(heading[2]) :] + line.end)
            return
        self.paragraph.append(line)
        hard_break = line.end.startswith("  ") or (line.content.endswith("\\") and not line.content.endswith("\\\\"))
        if hard_break:
            self._end_paragraph()

    def _end_paragraph(self) -> None:
        """The lines of the paragraph as a unit, with the breaks between them."""
        lines, self.paragraph = self.paragraph, []
        if not lines:
            return
        last = lines[-1]
        slash = "\\" if last.content.endswith("\\") and not last.content.endswith("\\\\") else ""
        contents = [line.content for line in lines[:-1]] + [last.content.removesuffix(slash)]
        breaks = [before.end + line.prefix for before, line in pairwise(lines)]
        self.parts += [lines[0].prefix, *units("\n".join(contents), breaks), slash + last.end]

    def _is_table(self, line: _Line, following: str) -> bool:
        rest = following[len(line.prefix) :] if following.startswith(line.prefix) else following
        return "|" in line.content and "|" in rest and bool(DELIMITERS.match(rest))

    def _table(self, lines: list[str], index: int) -> int:
        self._end_paragraph()
        delimiters = index + 1
        while index < len(lines) and "|" in lines[index]:
            line = self._line(lines[index])
            if index == delimiters:
                self.parts.append(lines[index])
            else:
                self.parts += [line.prefix, *_cells(line.content), line.end]
            index += 1
        self.previous_blank = False
        return index


def _deindented(text: str, width: int) -> str:
    return text[width:] if width and not text[:width].strip(" \t") else text


def _cells(content: str) -> Iterator[str | Unit]:
    """The cells of a row of a table, and what stands between them."""
    for cell in re.split(r"((?<!\\)\|)", content):
        text = cell.strip()
        if text and text != "|":
            start = cell.index(text)
            yield cell[:start]
            yield from units(text)
            yield cell[start + len(text) :]
        else:
            yield cell


def units(content: str, breaks: Iterable[str] = ()) -> list[str | Unit]:
    """A text as units: tags of HTML blocks, which stand around texts, are copied."""
    remaining = iter(breaks)
    parts: list[str | Unit] = []
    pieces: list[Piece] = []
    for piece in inline_pieces(content):
        if piece.kind in ("open", "close", "point") and piece.name.lstrip("<") in BLOCKS:
            parts += _unit(pieces)
            pieces = []
            parts.append(_with_breaks(piece.raw, remaining))
        elif piece.kind == "text" and "\n" in piece.raw:
            lines = piece.raw.split("\n")
            for number, line in enumerate(lines):
                if number:
                    pieces.append(Piece("break", next(remaining, "\n")))
                pieces += [Piece("text", line, _plain(line))] if line else []
        elif "\n" in piece.raw:
            pieces.append(piece._replace(raw=_with_breaks(piece.raw, remaining)))
        else:
            pieces.append(piece)
    return parts + _unit(pieces)


def _unit(pieces: list[Piece]) -> list[str | Unit]:
    """Pieces as a unit, without the line breaks around it."""
    start, end = 0, len(pieces)
    while start < end and pieces[start].kind == "break":
        start += 1
    while end > start and pieces[end - 1].kind == "break":
        end -= 1
    before, after = ("".join(piece.raw for piece in part) for part in (pieces[:start], pieces[end:]))
    parts: list[str | Unit] = [before, *([Unit(pieces[start:end], MARKDOWN)] if start < end else []), after]
    return [part for part in parts if part]


def _with_breaks(raw: str, breaks: Iterator[str]) -> str:
    return re.sub("\n", lambda _: next(breaks, "\n"), raw)


def inline_pieces(content: str) -> list[Piece]:
    """The pieces of a text: code and escapes first, then links and images, then emphasis."""
    pieces: list[Piece] = []
    start = 0
    for raw, is_code in _code_spans(content):
        if is_code:
            pieces.append(Piece("point", raw))
            start += len(raw)
            continue
        for token in joined_copies(scan(raw), xml=False):
            end = start + len(token.raw)
            if token.kind == "text":
                pieces += _linked(token.raw, content[start - 1 : start] or " ", content[end : end + 1] or " ")
            elif token.kind in ("open", "close") and not AUTOLINK.match(token.raw):
                pieces.append(Piece("open" if token.kind == "open" else "close", token.raw, name=f"<{token.name}"))
            else:
                pieces.append(Piece("point", token.raw, name=token.name))
            start = end
    return _paired(pieces)


def _code_spans(content: str) -> Iterator[tuple[str, bool]]:
    """The text and its code spans: from a run of backquotes to the next one as long."""
    ticks = [match for match in re.finditer(r"\\`|`+", content) if match[0] != "\\`"]
    last = {len(match[0]): number for number, match in enumerate(ticks)}
    end = number = 0
    while number < len(ticks):
        size = len(ticks[number][0])
        if last[size] > number:
            close = next(other for other in range(number + 1, len(ticks)) if len(ticks[other][0]) == size)
            yield content[end : ticks[number].start()], False
            yield content[ticks[number].start() : ticks[close].end()], True
            end, number = ticks[close].end(), close
        number += 1
    yield content[end:], False


def _linked(raw: str, left: str, right: str) -> Iterator[Piece]:
    """A text with the marks of links, images and emphasis as tags, not paired yet; ``left`` and ``right``: what stands
    beside it."""
    end = 0
    for match in re.finditer(rf"\\.|!?\[(?!\^)|\[\^[^\[\]\s]{{1,99}}\]|{LINK_END.pattern}|{DELIMITER.pattern}", raw):
        mark = match[0]
        is_delimiter = bool(DELIMITER.fullmatch(mark))
        before = raw[match.start() - 1] if match.start() else left
        flanks = _flanks(before, raw[match.end() : match.end() + 1] or right, mark[0])
        if mark[0] == "\\" or (is_delimiter and not flanks):
            continue  # an escape, or a sign such as that of a product
        yield from _text(raw[end : match.start()])
        end = match.end()
        if is_delimiter:
            yield Piece("point", mark, name=mark + flanks)
        elif mark.startswith("[^"):
            yield Piece("point", mark)
        else:
            yield Piece("close" if mark[0] == "]" else "open", mark, name="[")
    yield from _text(raw[end:])


def _flanks(before: str, after: str, mark: str) -> str:
    """Whether a mark between two characters may open (o) or close (c) emphasis   CommonMark 0.31, 6.2."""
    left = not after.isspace() and (after.isalnum() or not before.isalnum())
    right = not before.isspace() and (before.isalnum() or not after.isalnum())
    opens = left and (mark != "_" or not right or not before.isalnum())
    closes = right and (mark != "_" or not left or not after.isalnum())
    return "o" * opens + "c" * closes


def _text(raw: str) -> list[Piece]:
    if not raw:
        return []
    if "\\" not in raw and "&" not in raw:
        return protected(raw)
    if "\\" not in raw:
        return text_pieces(raw)
    text, offsets, end = [], [], 0
    for match in ESCAPE.finditer(raw):
        text += [raw[end : match.start()], match[1]]
        offsets += [*range(end, match.start()), match.start()]
        end = match.end()
    text.append(raw[end:])
    offsets += range(end, len(raw) + 1)
    return protected("".join(text), offsets, raw)


def _plain(raw: str) -> str:
    return "".join(piece.text for piece in _text(raw))


def _paired(pieces: list[Piece]) -> list[Piece]:
    """The pieces, marks of emphasis that belong together as tags; brackets of no link are text."""
    result = list(pieces)
    opened: dict[str, list[int]] = {}
    brackets: list[int] = []
    for index, piece in enumerate(pieces):
        if piece.name == "[":
            if piece.kind == "open":
                brackets.append(index)
            elif brackets and piece.raw != "]":
                brackets.pop()
                continue
            else:
                others = [brackets.pop()] if brackets else []
                for other in (*others, index):
                    result[other] = Piece("point", pieces[other].raw)
        elif piece.kind == "point" and piece.name and piece.name[0] in "*_~":
            mark = piece.raw
            kinds = piece.name[len(mark) :]
            waiting = opened.setdefault(mark, [])
            if "c" in kinds and waiting:
                partner = waiting.pop()
                result[partner] = Piece("open", mark, name=mark)
                result[index] = Piece("close", mark, name=mark)
            elif "o" in kinds:
                waiting.append(index)
    for index in brackets:
        result[index] = Piece("point", pieces[index].raw)
    return result


def encode(text: str) -> str:
    """An output with what would be markup escaped."""
    return SPECIAL.sub(lambda match: "".join(f"\\{character}" for character in match[0]), text)


def _at_beginning(text: str) -> str:
    match = MARKER_LIKE.match(text)
    if match is None:
        return text
    end = len(match[0].rstrip())
    return f"{text[: end - 1]}\\{text[end - 1 :]}" if text[end - 1 : end] != "\\" else text


MARKDOWN = Dialect(encode, partial(inline_pieces), re.compile(r"[-*+#>=|~`:_<\[]|\d{1,9}[.)]"), _at_beginning)
