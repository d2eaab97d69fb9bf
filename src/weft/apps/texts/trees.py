"""A unit as the tree that `weft.apps.texts.placement` needs: its text, its words, and the spans of its tags."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from weft.apps.texts.pieces import Kind, Piece, Unit
from weft.apps.texts.placement import Node
from weft.apps.texts.sentences import Part
from weft.text.words import split

Span = tuple[int, int]


class Tag(NamedTuple):
    """A node's raw texts: of a point the first only."""

    opening: str
    closing: str = ""


@dataclass
class UnitTree:
    """A unit without its tags, and where these stand."""

    text: str
    """The text that is split into sentences, with placeholders, unless they are taken out like tags."""
    nodes: list[Node]
    tags: list[Tag]
    """Those of the nodes; the first is the unit, which has none."""
    breaks: list[tuple[int, str]]
    """Line breaks within the unit: where they stand in the text, and as they stand in the file."""
    placeholders: dict[str, list[str]]
    """Those in the text: as they stand in the file."""
    words: list[Span]
    parts: list[tuple[Span, bool]]
    """The sentences of the text and what stands between them."""
    has_gaps: bool = False
    """Whether placeholders were taken out, so that spaces follow each other."""

    def words_in(self, span: Span) -> Span:
        """The words of a stretch of the text: the first and the one after the last."""
        return bisect_left(self._starts, span[0]), bisect_left(self._starts, span[1])

    def has_tags_within(self, first: int, last: int) -> bool:
        """Whether a tag stands between the words of a stretch."""
        position = bisect_right(self._tagged, first)
        return position < len(self._tagged) and self._tagged[position] < last

    @cached_property
    def _tagged(self) -> list[int]:
        """The boundaries of words at which tags stand."""
        return sorted({boundary for node in self.nodes[1:] for boundary in (node.first, node.last)})

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.words]


def make_tree(unit: Unit, splitter: Callable[[str], list[Part]], *, keep_placeholders: bool) -> UnitTree:
    """The tree of a unit. ``keep_placeholders``: whether they stay in the text, for the model to copy."""
    matching = matched(unit.pieces)
    text: list[str] = []
    length = 0
    nodes, tags, positions = [Node(-1, 0, 0)], [Tag("")], [(0, 0)]
    current = 0
    breaks: list[tuple[int, str]] = []
    placeholders: dict[str, list[str]] = {}
    kept: list[Span] = []
    for index, piece in enumerate(unit.pieces):
        if piece.kind == "break":
            breaks.append((length, piece.raw))
        if piece.kind in ("text", "break") or (piece.kind == "placeholder" and keep_placeholders):
            if piece.kind == "placeholder":
                kept.append((length, length + len(piece.text)))
                placeholders.setdefault(piece.text, []).append(piece.raw)
            text.append(" " if piece.kind == "break" else piece.text)
            length += len(text[-1])
        elif matching.get(index, index) < index:
            positions[current] = (positions[current][0], length)
            current = nodes[current].parent
        else:
            is_point = index not in matching
            nodes[current].children.append(len(nodes))
            left, right = ("" if _stands_alone(unit.pieces, index + side) else " " for side in (-1, 1))
            is_unpaired = is_point and piece.kind in ("open", "close")
            nodes.append(Node(current, 0, 0, is_point, left, right, is_unpaired))
            tags.append(Tag(piece.raw, "" if is_point else unit.pieces[matching[index]].raw))
            positions.append((length, length))
            current = current if is_point else len(nodes) - 1
    plain = "".join(text)
    words = merged_words(plain, kept)
    _locate(nodes, positions, words, plain)
    parts: list[tuple[Span, bool]] = []
    end = 0
    for part in splitter(plain):
        parts.append(((end, end + len(part.text)), part.is_sentence))
        end += len(part.text)
    return UnitTree(plain, nodes, tags, breaks, placeholders, words, parts, has_gaps=not keep_placeholders)


def _stands_alone(pieces: Sequence[Piece], index: int) -> bool:
    """Whether a tag stands there, beside which another needs no space."""
    return 0 <= index < len(pieces) and pieces[index].kind not in ("text", "break", "placeholder")


def _locate(nodes: Sequence[Node], positions: Sequence[Span], words: Sequence[Span], text: str) -> None:
    """Set the words of nodes, and what stands beside them."""
    starts, ends = [start for start, _ in words], [end for _, end in words]
    for node, (start, end) in zip(nodes, positions, strict=True):
        if node.is_point or start == end:
            node.first = node.last = bisect_left(starts, start)
            node.left = node.left and (text[start - 1 : start] or " ")
            node.right = node.right and (text[start : start + 1] or " ")
        else:
            node.first, node.last = bisect_right(ends, start), bisect_left(starts, end)
            node.last = max(node.first, node.last)
    nodes[0].first, nodes[0].last = 0, len(words)


def matched(pieces: Sequence[Piece]) -> dict[int, int]:
    """The pairs of tags that open and close, in both directions. Those that cross others have no partner."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()
    for index, piece in enumerate(pieces):
        if piece.kind == "open":
            opened.append(index)
            names[piece.name] += 1
        elif piece.kind == "close" and names[piece.name]:
            while True:
                partner = opened.pop()
                names[pieces[partner].name] -= 1
                if pieces[partner].name == piece.name:
                    pairs |= {partner: index, index: partner}
                    break
    return pairs


def merged_words(text: str, kept: Sequence[Span]) -> list[Span]:
    """The words of a text; those that overlap the same placeholder are one."""
    words: list[Span] = []
    position = 0
    for _, start, end in split(text):
        while position < len(kept) and kept[position][1] <= start:
            position += 1
        if position < len(kept) and kept[position][0] < end:
            start, end = min(start, kept[position][0]), max(end, kept[position][1])
        if words and words[-1][1] > start:
            start, end = words[-1][0], max(end, words.pop()[1])
        words.append((start, end))
    return words


def signature(pieces: Iterable[Piece]) -> tuple[Counter[tuple[Kind, str]], int]:
    """Everything in pieces but their text, and how many pairs of tags there are: what a translation must keep."""
    pieces = list(pieces)
    marks = Counter((piece.kind, piece.raw) for piece in pieces if piece.kind not in ("text", "break"))
    return marks, len(matched(pieces))
