"""HTML and XML as documents: a scanner of tags that keeps every character, and what is a unit.

HTML: a unit is the text between tags of blocks; other tags stand in it. Scripts, styles, code, preformatted text,
formulas and what says `translate="no"` are copied. XML: a unit is an element that has text itself, with all that it
contains.

The scanner reads every character once: an unclosed comment or tag ends with the file, as in browsers.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, cast
from xml.parsers import expat

from weft.apps.texts.pieces import Dialect, Document, Kind, Piece, Unit, protected
from weft.errors import DataError

TAG = re.compile(r"""</?(?:[^\W\d]|:)(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+>""")
BEGINNING = (re.compile("</?[A-Za-z]"), re.compile(r"</?(?:[^\W\d]|:)"))
"""The beginning of a tag, in HTML and in XML."""
NAME = re.compile(r"</?([^\s/>=]++)")
NOT_TRANSLATED = re.compile(
    r"""\stranslate\s*+=\s*+["']?no\b|\sclass\s*+=\s*+(?:"[^"]*?\bnotranslate\b|'[^']*?\bnotranslate\b|notranslate\b)""",
    re.IGNORECASE,
)
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
BLOCK_NAMES = """
    address article aside audio blockquote body br button canvas caption center col colgroup dd details dialog dir
    div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html
    iframe legend li link main menu meta nav noframes noscript object ol optgroup option p pre script section select
    style summary table tbody td template textarea tfoot th thead title tr ul video
"""
BLOCKS = frozenset(BLOCK_NAMES.split())
"""Elements of HTML around which a text ends."""
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
RAW = frozenset(["script", "style", "xmp", "iframe", "noembed", "noframes", "textarea"])
"""Elements whose content is no markup."""
COPIED = frozenset(["code", "kbd", "samp", "var", "pre", "svg", "math"])
"""Elements that are not translated."""


class Token(NamedTuple):
    """A stretch of markup."""

    kind: str
    """"text", "open", "close", "empty" (a tag that has no content), or "other": a comment, a declaration."""
    raw: str
    name: str = ""
    is_copied: bool = False
    """Whether it opens an element that says that it is not translated."""


def scan(source: str, *, xml: bool = False) -> Iterator[Token]:
    """The tokens of markup, which together are the source."""
    position = start = 0
    while (position := source.find("<", position)) >= 0:
        end = _end_of_markup(source, position, xml)
        if end is None:
            position += 1
            continue
        if start < position:
            yield Token("text", source[start:position])
        token = _token(source[position:end], xml)
        yield token
        if not xml and token.kind == "open" and token.name in RAW:
            closing = re.compile(rf"</{token.name}(?![A-Za-z0-9])", re.IGNORECASE).search(source, end)
            content = len(source) if closing is None else closing.start()
            if content > end:
                yield Token("other", source[end:content])
            end = content
        start = position = end
    if start < len(source):
        yield Token("text", source[start:])


def _end_of_markup(source: str, start: int, xml: bool) -> int | None:
    """The end of what a < begins; None if it is text."""
    following = source[start + 1 : start + 2]
    if following == "!":
        closing = "-->" if source.startswith("<!--", start) else "]]>" if source.startswith("<![CDATA[", start) else ">"
        if closing == ">" and xml and 0 <= source.find("[", start) < source.find(">", start):
            closing = "]>"
        return _after(source, closing, start + 2)
    if following == "?":
        return _after(source, "?>" if xml else ">", start)
    match = BEGINNING[xml].match(source, start)
    if match is None:
        return _after(source, ">", start) if following == "/" else None
    match = TAG.match(source, start)
    return len(source) if match is None else match.end()


def _after(source: str, closing: str, start: int) -> int:
    end = source.find(closing, start)
    return len(source) if end < 0 else end + len(closing)


@lru_cache(maxsize=1 << 14)
def _token(raw: str, xml: bool) -> Token:
    match = NAME.match(raw)
    if match is None or raw[1] in "!?" or not raw.endswith(">"):
        return Token("other", raw)
    name = match[1] if xml else match[1].lower()
    if raw[1] == "/":
        return Token("close", raw, name)
    is_empty = raw.endswith("/>") or (not xml and name in VOID)
    is_copied = (not xml and name in COPIED) or bool("translate" in raw.lower() and NOT_TRANSLATED.search(raw))
    return Token("empty" if is_empty else "open", raw, name, is_copied)


def encode_markup(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text_pieces(raw: str, *, xml: bool = False, decode: bool = True) -> list[Piece]:
    """A text of markup as pieces, its entities decoded if the format has them."""
    if "&" not in raw or not decode:
        return protected(raw)
    decoded: list[str] = []
    offsets: list[int] = []
    end = 0
    for match in ENTITY.finditer(raw):
        text = html.unescape(match[0])
        if xml and match[0][1] != "#" and match[0] not in ("&amp;", "&lt;", "&gt;", "&quot;", "&apos;"):
            text = match[0]  # defined elsewhere: copied like a placeholder
        decoded.append(raw[end : match.start()])
        offsets += range(end, match.start())
        decoded.append(text)
        offsets += [match.start()] * len(text)
        end = match.end()
    decoded.append(raw[end:])
    offsets += range(end, len(raw) + 1)
    return protected("".join(decoded), offsets, raw)


def inline_pieces(source: str, *, xml: bool = False, copied: frozenset[str] = frozenset()) -> list[Piece]:
    """The pieces of a unit: its text, and its tags; ``copied``: names of elements that are not translated."""
    return list(_pieces(joined_copies(scan(source, xml=xml), xml=xml, copied=copied), xml=xml))


def _pieces(tokens: Iterable[Token], *, xml: bool) -> Iterator[Piece]:
    for token in tokens:
        if token.kind == "text":
            yield from text_pieces(token.raw, xml=xml)
        else:
            yield _tag_piece(token)


def _tag_piece(token: Token) -> Piece:
    kind = token.kind if token.kind in ("open", "close") else "point"
    return Piece(cast("Kind", kind), token.raw, name=token.name)


def joined_copies(tokens: Iterable[Token], *, xml: bool, copied: frozenset[str] = frozenset()) -> Iterator[Token]:
    """The tokens, each element that is not translated as one: "other" within a text, "copy" if it is a block.

    Within a text it ends with the text at the latest, so that an unclosed one does not take the rest of the file.
    ``copied``: further names of elements that are not translated.
    """
    kept: list[str] = []
    name, depth = "", 0
    for token in tokens:
        if not depth:
            if token.kind == "open" and (token.is_copied or token.name in copied):
                kept, name, depth = [token.raw], token.name, 1
            else:
                yield token
            continue
        is_inline = not xml and name not in BLOCKS
        if is_inline and token.name in BLOCKS and token.kind != "text":
            yield Token("other", "".join(kept))
            yield token
            kept, depth = [], 0
            continue
        kept.append(token.raw)
        depth += (token.kind == "open" and token.name == name) - (token.kind == "close" and token.name == name)
        if not depth:
            yield Token("other" if xml or is_inline else "copy", "".join(kept))
            kept = []
    if kept:
        yield Token("other", "".join(kept))


HTML = Dialect(encode_markup, inline_pieces)
XML = Dialect(encode_markup, partial(inline_pieces, xml=True))


def read_html(source: str, name: str = "HTML") -> Document:
    """An HTML document or a part of one."""
    parts: list[str | Unit] = []
    pieces: list[Piece] = []
    for token in joined_copies(scan(source), xml=False):
        if token.kind == "copy" or (token.name in BLOCKS and token.kind != "text") or token.raw[:2] in ("<!", "<?"):
            is_comment = token.kind == "other" and any(piece.kind == "text" and piece.text.strip() for piece in pieces)
            if is_comment and token.raw.startswith("<!--"):
                pieces.append(Piece("point", token.raw))
                continue
            parts += [Unit(pieces, HTML)] if pieces else []
            pieces = []
            parts.append(token.raw)
        elif token.kind == "text":
            pieces += text_pieces(token.raw)
        else:
            pieces.append(_tag_piece(token))
    return Document([*parts, Unit(pieces, HTML)] if pieces else parts)


def check_xml(source: str, name: str) -> None:
    """Fail on what is not well formed, and on declared entities, which may have any size."""
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise DataError(f"{name}:{parser.CurrentLineNumber}: entities are declared here, which is not supported")

    parser.EntityDeclHandler = refuse
    text = source.removeprefix("\ufeff")
    text = re.sub(r"""^(<\?xml[^>]*?)\sencoding\s*=\s*(?:"[^"]*"|'[^']*')""", r"\1", text, count=1)
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as error:
        raise DataError(f"{name}:{error.lineno}: not well-formed XML: {expat.ErrorString(error.code)}") from None


def read_xml(source: str, name: str = "XML") -> Document:
    """A well-formed XML document: elements with text of their own are units, with the elements in them."""
    check_xml(source, name)
    tokens = list(joined_copies(scan(source, xml=True), xml=True))
    parents, has_text = _elements(tokens)
    parts: list[str | Unit] = []
    pieces: list[Piece] = []
    unit = -1
    for index, token in enumerate(tokens):
        parent = parents[index]
        inside = unit >= 0 and not (token.kind == "close" and parent == unit)
        if not inside and unit >= 0:
            parts.append(Unit(pieces, XML))
            pieces, unit = [], -1
        if unit < 0 and token.kind != "close" and parent in has_text:
            unit = parent
        if unit >= 0:
            pieces += _pieces((token,), xml=True)
        else:
            parts.append(token.raw)
    return Document(parts)


def _elements(tokens: Sequence[Token]) -> tuple[list[int], set[int]]:
    """The element that each token stands in, by the index of its opening tag (of a closing tag, its own), and those
    that have text of their own."""
    parents: list[int] = []
    has_text: set[int] = set()
    stack = [-1]
    for index, token in enumerate(tokens):
        parents.append(stack[-1])
        if token.kind == "open":
            stack.append(index)
        elif token.kind == "close" and len(stack) > 1:
            stack.pop()
        elif token.kind == "text" and token.raw.strip():
            has_text.add(stack[-1])
    return parents, has_text
