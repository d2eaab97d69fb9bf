"""XLIFF 1.2 and 2.0 as documents: each source gets a target, unless it has one with text.

Native code in a source (`<ph>`, `<bpt>`, `<ept>`, `<it>`) is kept as it is, and so is what says `translate="no"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from weft.apps.texts.formats.markup import Token, check_xml, encode_markup, inline_pieces, joined_copies, scan
from weft.apps.texts.pieces import Dialect, Document, Unit
from weft.errors import DataError

NATIVE = frozenset(("ph", "bpt", "ept", "it", "ignorable", "data"))
XLIFF = Dialect(encode_markup, partial(inline_pieces, xml=True, copied=NATIVE))


def read_xliff(source: str, name: str = "XLIFF") -> Document:
    """An XLIFF file."""
    check_xml(source, name)
    tokens = list(joined_copies(scan(source, xml=True), xml=True, copied=NATIVE | {"alt-trans"}))
    if not any(_local(token) == "xliff" for token in tokens):
        raise DataError(f"{name}: no <xliff> stands in it; name other XML files .xml")
    parts: list[str | Unit] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.kind != "open" or _local(token) != "source":
            parts.append(token.raw)
            index += 1
            continue
        end = _end(tokens, index)
        content = "".join(token.raw for token in tokens[index + 1 : end])
        parts.append(f"{token.raw}{content}{tokens[end].raw}")
        index = _target(tokens, end + 1, token, content, parts)
    return Document(parts)


def _target(tokens: Sequence[Token], index: int, source: Token, content: str, parts: list[str | Unit]) -> int:
    """Add the target after a source: a new one, or the text of one that is empty; returns where to go on."""
    space = tokens[index].raw if index < len(tokens) and tokens[index].kind == "text" else ""
    following = index + bool(space)
    target = tokens[following] if following < len(tokens) else None
    assert XLIFF.pieces is not None
    unit = Unit(list(XLIFF.pieces(content)), XLIFF)
    if target is None or _local(target) != "target" or target.kind == "close":
        name = source.name.replace("source", "target")
        indentation = parts[-2] if len(parts) > 1 and isinstance(parts[-2], str) and parts[-2].isspace() else ""
        parts += [f"{indentation}<{name}>", unit, f"</{name}>"]
        return index
    if target.kind == "empty":
        parts += [space, f"{target.raw[:-2].rstrip()}>", unit, f"</{target.name}>"]
        return following + 1
    end = _end(tokens, following)
    if any(token.raw.strip() for token in tokens[following + 1 : end]):
        parts.append("".join(token.raw for token in tokens[index : end + 1]))
    else:
        parts += [space, target.raw, unit, tokens[end].raw]
    return end + 1


def _end(tokens: Sequence[Token], start: int) -> int:
    """The closing tag of an element that is not nested in one of its name."""
    return next(
        index
        for index in range(start + 1, len(tokens))
        if tokens[index].kind == "close" and tokens[index].name == tokens[start].name
    )


def _local(token: Token) -> str:
    """The name of a tag without its prefix."""
    return token.name.rpartition(":")[2]
