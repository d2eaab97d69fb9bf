"""The tree of a bracketed text, such as ``(S (NP he) (VP sleeps))``: in a terminal, and as SVG, PNG or PDF.

In a terminal every constituent is a line, with its parts indented below it; words that follow each other share a line.
In a picture the words stand side by side at the bottom, and each label over the middle of its parts:

    width(node) = max(width of its text, sum of the widths of its children)

Every node has a strip of this width to itself, and a line enters its strip directly below the parent, so that no line
crosses a label or another line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from weft.errors import DataError
from weft.evaluation.brackets import Constituent, parse_tree
from weft.pictures.labels import caption, visible
from weft.pictures.picture import BLUE, GRAY, INK, Page, title_height, write_picture
from weft.pictures.terminal import ASCII_SYMBOLS, STYLES, render_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAP, ROW, MARGIN = 0.14, 0.5, 0.25
"""Inches between neighbors, from row to row, and around the tree."""
HALF = 0.13
"""Inches between the middle of a text and the end of a line."""
POINTS = 11.0


def read_tree(text: str) -> Constituent:
    """The tree of a bracketed text; an error if it is not well-formed."""
    tree = parse_tree(text)
    if tree is None:
        expected = "expected brackets with labels, such as (S (NP he) (VP sleeps))"
        raise DataError(f"not a tree: {text[:200]!r}; {expected}")
    return tree


# In a terminal


def terminal_parse_tree(tree: Constituent, *, width: int = 80, color: bool = False, ascii_only: bool = False) -> str:
    """The tree as indented lines."""
    lines = [Text(prefix).append(label, STYLES["best"]).append(words) for prefix, label, words in _lines(tree, "", "")]
    if ascii_only:
        lines = [Text(line.plain.translate(ASCII_SYMBOLS)) for line in lines]
    return render_lines(lines, width, color=color, ascii_only=ascii_only)


def _lines(node: Constituent, first: str, rest: str) -> Iterator[tuple[str, str, str]]:
    """Branches, label and words of each line; ``first`` stands before the first line, ``rest`` before the others."""
    parts: list[Constituent | str] = []
    for child in node.children:
        if isinstance(child, str) and parts and isinstance(parts[-1], str):
            parts[-1] += f" {visible(child)}"
        else:
            parts.append(visible(child) if isinstance(child, str) else child)
    if len(parts) == 1 and isinstance(parts[0], str):
        yield first, visible(node.label), f" {parts[0]}"
        return
    yield first, visible(node.label), ""
    for index, part in enumerate(parts):
        branch, below = ("└─ ", "   ") if index == len(parts) - 1 else ("├─ ", "│  ")
        if isinstance(part, Constituent):
            yield from _lines(part, rest + branch, rest + below)
        else:
            yield rest + branch, "", part


# As a picture


class PlacedNode(NamedTuple):
    """A label or a word with its position: inches from the left, and its row."""

    text: str
    is_word: bool
    x: float
    row: int
    parent: int
    """Its index among all nodes; that of the root is −1."""


def place_nodes(tree: Constituent, width_of: Callable[[str, bool], float]) -> list[PlacedNode]:
    """All nodes, parents first. ``width_of``: the width of a label or, if the second argument is true, of a word."""
    bottom = depth(tree)
    placed: list[PlacedNode] = []

    def place(node: Constituent | str, left: float, row: int, parent: int) -> None:
        if isinstance(node, str):
            placed.append(PlacedNode(node, True, left + needed_width(node, width_of) / 2, bottom, parent))
            return
        widths = [needed_width(child, width_of) for child in node.children]
        total = sum(widths) + GAP * (len(widths) - 1)
        index, width = len(placed), needed_width(node, width_of)
        placed.append(PlacedNode(node.label, False, left + width / 2, row, parent))
        left += (width - total) / 2
        for child, child_width in zip(node.children, widths, strict=True):
            place(child, left, row + 1, index)
            left += child_width + GAP

    place(tree, 0.0, 0, -1)
    return placed


def needed_width(node: Constituent | str, width_of: Callable[[str, bool], float]) -> float:
    """The width of a node with all that is below it."""
    if isinstance(node, str):
        return width_of(node, True)
    children = sum(needed_width(child, width_of) for child in node.children) + GAP * (len(node.children) - 1)
    return max(width_of(node.label, False), children)


def depth(node: Constituent | str) -> int:
    """The row of the words below a node."""
    return 0 if isinstance(node, str) else 1 + max(map(depth, node.children))


def draw_parse_tree(tree: Constituent, to: str | Path, *, title: str = "") -> Path:
    """Write the tree as a picture, in the format of the path's suffix: .svg, .png or .pdf."""
    heading = caption(title)
    texts = [heading, *(visible(node.text) for node in place_nodes(tree, lambda text, is_word: 0.0))]
    return write_picture(to, texts, lambda families: _figure(tree, heading, families))


def _figure(tree: Constituent, title: str, families: list[str]) -> Figure:
    page = Page.blank(families)
    styles = {False: page.style(POINTS, BLUE, weight="bold"), True: page.style(POINTS, INK)}
    known: dict[tuple[str, bool], float] = {}

    def width_of(text: str, is_word: bool) -> float:
        if (text, is_word) not in known:
            known[text, is_word] = page.width_of([visible(text)], styles[is_word])
        return known[text, is_word]

    nodes = place_nodes(tree, width_of)
    top = MARGIN + title_height(title) + HALF
    width = 2 * MARGIN + max(needed_width(tree, width_of), page.width_of([title], page.title_style) if title else 0.0)
    axes = page.canvas(width, top + ROW * depth(tree) + HALF + MARGIN)
    if title:
        page.write(MARGIN, 0.15, title, page.title_style)
    for node in nodes:
        x, y = MARGIN + node.x, top + ROW * node.row
        axes.text(x, y, visible(node.text), ha="center", va="center", **styles[node.is_word])
        if node.parent >= 0:
            parent = nodes[node.parent]
            start = top + ROW * parent.row
            corners = ((MARGIN + parent.x, start + HALF), (x, start + ROW - HALF), (x, y - HALF))
            axes.plot(*zip(*corners, strict=True), color=GRAY, linewidth=1.0, solid_joinstyle="round")
    return page.figure
