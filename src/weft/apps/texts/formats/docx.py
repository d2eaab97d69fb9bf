"""Word documents (.docx): a ZIP archive whose paragraphs become a text with simple tags, and back.

    <docx><part><p>he <f1>hit</f1> me with a <h1>pie</h1>.<o1/></p> …</part> …</docx>

    f   text in another format than most of its paragraph (runs, with their properties)
    h   links, insertions: elements that have runs in them
    o   all else in a paragraph: tabs, line breaks, pictures, fields, footnote marks

`document_text` makes this text, which is translated as XML is; `translated_docx` puts it back: each stretch of text
becomes a run with its properties. Parts: the body, headers, footers, footnotes and endnotes. All else in the archive,
text boxes and comments too, is copied.

No file is trusted: `ArchiveLimits` bounds what an archive unpacks to, whatever it declares; nothing is extracted, and
declared entities are refused.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.apps.texts.formats.markup import Token, check_xml, read_xml, scan
from weft.apps.texts.pieces import Document
from weft.errors import DataError

PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
CONTAINERS = frozenset(["w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:fldSimple"])
"""Elements of a paragraph that have runs in them."""
DROPPED = frozenset(["w:proofErr", "w:lastRenderedPageBreak"])
"""Marks of Word's spelling and layout, which are wrong for another text."""
NAMESPACE = re.compile(
    r"""\sxmlns(?::([^\s=]++))?\s*=\s*["']http://(?:schemas\.openxmlformats\.org/wordprocessingml/2006|"""
    r"""purl\.oclc\.org/ooxml/wordprocessingml)/main["']"""
)
"""The prefix of Word's elements, where it is declared."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Those of Word. They are unpacked in blocks; Python unpacks the others whole, however large that is."""
BLOCK = 1 << 16


class ArchiveLimits(NamedTuple):
    """The largest archive that is read."""

    members: int = 10_000
    size: int = 200_000_000
    """Bytes of all members, unpacked."""
    text: int = 200_000_000
    """Bytes of those that have text."""


DEFAULT_LIMITS = ArchiveLimits()


class Item(NamedTuple):
    """A stretch of a paragraph."""

    kind: str
    """"text", "open" and "close" (of an element with runs in it), or "raw"."""
    raw: str
    properties: str = ""
    """The element with the properties of a text's run."""


@dataclass
class Paragraph:
    """A paragraph as text with simple tags, and what these stand for."""

    beginning: str
    """Its opening tag and its properties."""
    text: str
    base: str
    """The properties of text outside tags: those of most of it."""
    tags: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the name of a tag: the properties of a run (f), the raw opening and closing tag (h), or all of it (o)."""


def read_docx(text: str, name: str = "docx") -> Document:
    """The document that a text of `document_text` is."""
    if not text.startswith("<docx>"):
        raise DataError(f"{name}: docx is a format of files, not of texts; use weft.translate_file")
    return read_xml(text, name)


def document_text(content: bytes, name: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> str:
    """The paragraphs of a Word document as one text with simple tags."""
    parts = (_split(text, f"{name}: {member}") for member, text in _texts(content, name, limits).items())
    texts = ("".join(f"<p>{piece.text}</p>\n" for piece in part if isinstance(piece, Paragraph)) for part in parts)
    return "<docx>" + "".join(f"<part>{text}</part>\n" for text in texts) + "</docx>\n"


def translated_docx(content: bytes, text: str, name: str) -> bytes:
    """A Word document with the paragraphs of a translated `document_text`."""
    paragraphs = iter(list(_paragraphs(scan(text, xml=True))))
    changed = {}
    for member, source in _texts(content, name).items():
        parts = _split(source, f"{name}: {member}")
        changed[member] = "".join(
            piece if isinstance(piece, str) else _rebuilt(piece, next(paragraphs)) for piece in parts
        )
    output = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(output, "w") as written:
        for entry in archive.infolist():
            data = changed[entry.filename].encode() if entry.filename in changed else _unpacked(archive, entry)
            written.writestr(entry, data)
    return output.getvalue()


def _texts(content: bytes, name: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> dict[str, str]:
    """The members of an archive that have text, checked."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if len(members) > limits.members or size > limits.size:
                limit = f"at most {limits.members:,} members and {limits.size:,} bytes are read"
                raise DataError(f"{name}: {len(members):,} members of {size:,} bytes unpacked; {limit}")
            size = sum(member.file_size for member in members if PARTS.fullmatch(member.filename))
            if size > limits.text:
                raise DataError(f"{name}: {size:,} bytes of text with its layout; at most {limits.text:,} are read")
            names = [member.filename for member in members]
            if "word/document.xml" not in names or len(set(names)) < len(names):
                raise DataError(
                    f"{name}: not a Word document (word/document.xml is missing, or a member is there twice)"
                )
            if other := next((member for member in members if member.compress_type not in METHODS), None):
                raise DataError(
                    f"{name}: {other.filename[:100]} is packed in another way than Word does; save it again"
                )
            damaged = archive.testzip()
            texts = {
                member.filename: _unpacked(archive, member).decode("utf-8-sig")
                for member in members
                if damaged is None and PARTS.fullmatch(member.filename)
            }
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise DataError(f"{name}: not a .docx that can be read ({str(error)[:100]})") from None
    except UnicodeDecodeError:
        raise DataError(f"{name}: a part is not UTF-8") from None
    if damaged is not None:
        raise DataError(f"{name}: {damaged[:100]} is damaged")
    for member, text in texts.items():
        check_xml(text, f"{name}: {member}")
        _check_prefix(text, f"{name}: {member}")
    return texts


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The content of a member, which is as large as it says at most: read as a whole, it may unpack to far more."""
    with archive.open(member) as file:
        return b"".join(iter(lambda: file.read(BLOCK), b""))


def _check_prefix(text: str, name: str) -> None:
    """Fail if the elements of Word have another prefix than ``w:``: their paragraphs would not be found."""
    declared = re.findall(NAMESPACE, text)
    if declared and "w" not in declared:
        prefix = f"the prefix {declared[0][:20]}:" if declared[0] else "no prefix"
        raise DataError(f"{name}: its elements have {prefix}, expected w:; open the document in Word and save it again")


def _split(source: str, name: str) -> list[str | Paragraph]:
    """A part: what is copied, and its paragraphs that have text. A paragraph in a text box belongs to what it is in."""
    parts: list[str | Paragraph] = []
    for group in _elements(scan(source, xml=True), "w:p"):
        paragraph = _paragraph(group) if group[0].name == "w:p" and len(group) > 1 else None
        parts.append("".join(token.raw for token in group) if paragraph is None else paragraph)
    return parts


def _elements(tokens: Iterable[Token], name: str | None = None) -> Iterator[list[Token]]:
    """The tokens by outermost elements; ``name``: of elements of this name, and all other tokens one by one."""
    group: list[Token] = []
    depth = 0
    for token in tokens:
        group.append(token)
        if name is None or token.name == name:
            depth += (token.kind == "open") - (token.kind == "close")
        if depth <= 0:
            yield group
            group, depth = [], 0
    if group:
        yield group


def _paragraph(tokens: Sequence[Token]) -> Paragraph | None:
    """A paragraph; None if it has no letters."""
    children = list(_elements(tokens[1:-1]))
    has_properties = bool(children) and children[0][0].name == "w:pPr"
    properties = _raw(children.pop(0)) if has_properties else ""
    items = _joined(item for child in children for item in _items(child))
    sizes = Counter[str]()
    for item in items:
        if item.kind == "text":
            sizes[item.properties] += sum(map(str.isalpha, item.raw))
    if not sizes.total():
        return None
    paragraph = Paragraph(tokens[0].raw + properties, "", sizes.most_common(1)[0][0])
    opened: list[str] = []
    counts = Counter[str]()
    names: dict[str, str] = {}
    texts: list[str] = []
    for item in items:
        letter = {"text": "f", "open": "h", "raw": "o"}.get(item.kind, "")
        if item.kind == "text" and item.properties == paragraph.base:
            texts.append(item.raw)
        elif item.kind == "text":
            tag = names.setdefault(item.properties, f"f{len(names) + 1}")
            paragraph.tags[tag] = item.properties, ""
            texts.append(f"<{tag}>{item.raw}</{tag}>")
        elif item.kind == "close":
            tag = opened.pop()
            paragraph.tags[tag] = paragraph.tags[tag][0], item.raw
            texts.append(f"</{tag}>")
        else:
            counts[letter] += 1
            tag = f"{letter}{counts[letter]}"
            paragraph.tags[tag] = item.raw, ""
            opened += [tag] if item.kind == "open" else []
            texts.append(f"<{tag}>" if item.kind == "open" else f"<{tag}/>")
    paragraph.text = "".join(texts)
    return paragraph


def _items(tokens: Sequence[Token]) -> Iterator[Item]:
    """An element of a paragraph."""
    first = tokens[0]
    if first.name in CONTAINERS and len(tokens) > 1:
        yield Item("open", first.raw)
        for child in _elements(tokens[1:-1]):
            yield from _items(child)
        yield Item("close", tokens[-1].raw)
    elif first.name == "w:r" and len(tokens) > 1:
        yield from _items_of_run(tokens)
    elif first.name not in DROPPED and not (first.kind == "text" and not first.raw.strip()):
        yield Item("raw", _raw(tokens))


def _items_of_run(tokens: Sequence[Token]) -> Iterator[Item]:
    properties = ""
    for child in _elements(tokens[1:-1]):
        name = child[0].name
        if name == "w:rPr":
            properties = _raw(child)
        elif name == "w:t" and all(token.kind == "text" for token in child[1:-1]):
            yield Item("text", _raw(child[1:-1]), properties)
        elif name not in DROPPED and not (child[0].kind == "text" and not child[0].raw.strip()):
            yield Item("raw", f"{tokens[0].raw}{properties}{_raw(child)}</w:r>")


def _joined(items: Iterable[Item]) -> list[Item]:
    """Items without empty texts; neighboring texts with the same properties, which Word often divides, are one."""
    joined: list[Item] = []
    for item in items:
        if item.kind == "text" and joined and joined[-1].kind == "text" and joined[-1].properties == item.properties:
            joined[-1] = Item("text", joined[-1].raw + item.raw, item.properties)
        elif item.kind != "text" or item.raw:
            joined.append(item)
    return joined


def _raw(tokens: Sequence[Token]) -> str:
    return "".join(token.raw for token in tokens)


def _paragraphs(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """The content of each <p> of a text with simple tags."""
    return (group[1:-1] for group in _elements(tokens, "p") if group[0].name == "p")


def _rebuilt(paragraph: Paragraph, tokens: Sequence[Token]) -> str:
    """The XML of a paragraph, with translated text."""
    parts = [paragraph.beginning]
    properties = paragraph.base
    for token in tokens:
        if token.kind == "text":
            parts.append(f'<w:r>{properties}<w:t xml:space="preserve">{token.raw}</w:t></w:r>')
        elif token.name.startswith("f"):
            properties = paragraph.tags[token.name][0] if token.kind == "open" else paragraph.base
        else:
            parts.append(paragraph.tags[token.name][token.kind == "close"])
    return "".join([*parts, "</w:p>"])
