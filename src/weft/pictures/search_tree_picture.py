"""The tree of a beam search as SVG, PNG or PDF.

A column is a step. Each node is level with its main child (`search_tree`), and the subtrees of its other children are
placed above and below, as close as possible without touching: every subtree keeps its contour, one interval per step
(Reingold & Tilford 1981, turned on its side). So the path of the best hypothesis is a straight line, edges never
cross, and the height grows with the beam, not with the number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import DataError
from weft.pictures.labels import caption, left_to_right, shorten, visible
from weft.pictures.picture import BLUE, FAINT, FRAME, GRAY, INK, Page, title_height, write_picture
from weft.pictures.search_tree import LONGEST_LABEL, MAX_PRUNED, Node, build_tree, is_large, number
from weft.pictures.terminal import Label
from weft.search.trace import BeamTrace
from weft.text import specials

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAMPLES = (("best", "best hypothesis"), ("kept", "kept"), ("finished", "finished"), ("pruned", "pruned"))
EXPLANATION = "Number: log p of all tokens so far. Score: what finished hypotheses are ranked by."
COUNT_EXPLANATION = " (+n): n of its extensions were pruned."
PALE, GREEN, BAND = "#deebf7", "#2f8f5b", "#f5f7fa"
TOKEN_POINTS, NUMBER_POINTS, PRUNED_POINTS = 10.0, 7.5, 7.5
KEPT_HEIGHT, FINISHED_HEIGHT, PRUNED_HEIGHT, LINE_HEIGHT = 0.4, 0.56, 0.17, 0.14
"""Inches, the last one of a line inside a box."""
SIBLING_GAP, COLUMN_GAP = 0.05, 0.14
"""Least inches between children of one node, and between other nodes of one step."""
GUTTER, PADDING, RING = 0.42, 0.09, 0.03
"""Inches between columns, between a box and its text, and between the two lines of a finished node."""


@dataclass
class PlacedNode:
    """A node with its position on the page, or one that stands for several pruned children, which are only counted."""

    node: Node
    text: str
    total: str
    """log p, and the number of pruned children if they are not shown."""
    score: str
    children: list[PlacedNode]
    main_child: PlacedNode | None
    height: float
    y: float = 0.0
    """Inches below the root."""
    offset: float = 0.0
    """Inches below its parent."""

    @property
    def kind(self) -> str:
        return self.node.kind


def draw_tree(trace: BeamTrace, label: Label, to: str | Path, *, title: str = "", max_pruned: int = MAX_PRUNED) -> Path:
    """Write the tree as a picture, in the format of the path's suffix: .svg, .png or .pdf.

    The best `max_pruned` pruned children of each node are shown, in a large tree only those on the best path. The same
    trace gives the same bytes.
    """
    columns = layout_tree(trace, label, max_pruned)
    heading = caption(title)
    texts = [heading, *(placed.text for column in columns for placed in column)]
    return write_picture(to, texts, lambda families: _figure(columns, heading, families))


def layout_tree(trace: BeamTrace, label: Label, max_pruned: int = MAX_PRUNED) -> list[list[PlacedNode]]:
    """The nodes with their positions, step by step from the root, each column from top to bottom."""
    if not trace.steps:
        raise DataError("the search made no step; expected a trace of at least 1")
    tree = build_tree(trace)
    large = is_large(tree)
    placed: dict[int, PlacedNode] = {}
    contours: dict[int, Contour] = {}
    for node in (node for nodes in reversed(tree) for node in nodes):
        if node.kind != "pruned":
            shown = max_pruned if node.is_best or not large else None
            placed_node = _placed(node, label, shown, [placed.pop(id(child)) for child in node.children])
            placed[id(node)] = placed_node
            contours[id(placed_node)] = _arrange_children(placed_node, contours)
    columns = [[placed[id(tree[0][0])]]]
    while column := [child for parent in columns[-1] for child in parent.children]:
        for parent in columns[-1]:
            for child in parent.children:
                child.y = parent.y + child.offset
        columns.append(column)
    return columns


def _placed(node: Node, label: Label, max_pruned: int | None, children: list[PlacedNode]) -> PlacedNode:
    """A node with its children in the order of the trace.

    Pruned ones beyond ``max_pruned`` become a leaf that counts them; None: all are only counted, beside the number.
    """
    if max_pruned is not None:
        for child in node.pruned[:max_pruned]:
            children.append(_leaf(child, shorten(visible(label(child.branch.token)), LONGEST_LABEL)))
        if len(node.pruned) > max_pruned:
            counted = _leaf(node.pruned[max_pruned], f"+{len(node.pruned) - max_pruned} pruned")
            counted.total = ""
            children.append(counted)
    children.sort(key=lambda child: child.node.index)
    ends = node.kind == "finished" or node.is_last
    text = visible(label(node.branch.token)) if node.step else specials.SPECIALS[specials.BEGIN]
    return PlacedNode(
        node,
        shorten(text, LONGEST_LABEL),
        number(node.branch.total) + (f" (+{len(node.pruned)})" if max_pruned is None and node.pruned else ""),
        f"score {number(node.branch.score)}" if ends else "",
        children,
        next((child for child in children if child.node is node.main_child), None),
        FINISHED_HEIGHT if ends else KEPT_HEIGHT,
    )


def _leaf(node: Node, text: str) -> PlacedNode:
    return PlacedNode(node, text, number(node.branch.total), "", [], None, PRUNED_HEIGHT)


Contour = list[tuple[float, float]]
"""Top and bottom of a subtree at each step from its root on, in inches below its root."""


def _arrange_children(parent: PlacedNode, contours: dict[int, Contour]) -> Contour:
    """Place the children of a node around its main child, as close as possible, and give the contour of the whole.

    Pruned children are right below the main child; then shallow subtrees are placed before deep ones, each on the side
    where it is nearer.
    """
    depth = {id(child): len(contours.get(id(child), ())) for child in parent.children}
    placement_order = sorted(parent.children, key=lambda child: (child is not parent.main_child, depth[id(child)]))
    filled: Contour = []
    for child in placement_order:
        contour = contours.pop(id(child), [(-child.height / 2, child.height / 2)])
        child.offset = _nearest_offset(filled, contour, below_only=child.kind == "pruned")
        moved = [(top + child.offset, bottom + child.offset) for top, bottom in contour]
        both = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(filled, moved, strict=False)]
        filled = both + max(filled, moved, key=len)[len(both) :]
    parent.children.sort(key=lambda child: child.offset)
    if parent.main_child is None and placement_order:
        middle = (parent.children[0].offset + parent.children[-1].offset) / 2
        filled = [(top - middle, bottom - middle) for top, bottom in filled]
        for child in placement_order:
            child.offset -= middle
    return [(-parent.height / 2, parent.height / 2), *filled]


def _nearest_offset(filled: Contour, contour: Contour, *, below_only: bool) -> float:
    """The smallest offset below (or, negative, above) the filled area at which a subtree does not touch it."""
    pairs = [
        (a, b, COLUMN_GAP if depth else SIBLING_GAP) for depth, (a, b) in enumerate(zip(filled, contour, strict=False))
    ]
    below = max((bottom + gap - upper for (_, bottom), (upper, _), gap in pairs), default=0.0)
    above = max((lower + gap - top for (top, _), (_, lower), gap in pairs), default=0.0)
    return below if below_only or below <= above else -above


class Grid(NamedTuple):
    """The columns in inches: left edges, widths, the top of the numbers of the steps, and the middle of the root."""

    lefts: list[float]
    widths: list[float]
    top: float
    root: float

    def draw_bands(self, axes: Axes, page: Page, bottom: float) -> None:
        """The numbers of the steps, and a band behind every second column."""
        for step, (x, width) in enumerate(zip(self.lefts, self.widths, strict=True)):
            text = f"{step or 'step'}"
            axes.text(x + width / 2, self.top + 0.8, text, ha="center", va="center", **page.note_style)
            if step % 2:
                corner, size = (x - GUTTER / 2, self.top + 0.66), (width + GUTTER, bottom - self.top - 0.66)
                _draw_box(axes, corner, size, fill=BAND)

    def draw_nodes(self, axes: Axes, page: Page, nodes: list[PlacedNode]) -> None:
        for placed in nodes:
            step = placed.node.step
            for child in placed.children:
                start = self.lefts[step] + self.widths[step], self.root + placed.y
                _draw_edge(axes, start, (self.lefts[step + 1], self.root + child.y), child)
        for placed in nodes:
            step = placed.node.step
            _draw_node(axes, page, placed, (self.lefts[step], self.root + placed.y), self.widths[step])


def _figure(columns: list[list[PlacedNode]], title: str, families: list[str]) -> Figure:
    """The picture: title, legend, the numbers of the steps, and below them the tree."""
    page = Page.blank(families)
    note = page.note_style
    widths = [_column_width(page, column) for column in columns]
    lefts = [0.25 + sum(widths[:step]) + step * GUTTER for step in range(len(widths))]
    nodes = [placed for column in columns for placed in column]
    highest = min(placed.y - placed.height / 2 for placed in nodes)
    lowest = max(placed.y + placed.height / 2 for placed in nodes)
    explanation = EXPLANATION + (COUNT_EXPLANATION if any("+" in placed.total for placed in nodes) else "")
    top = 0.15 + title_height(title)
    samples = [(kind, text, page.width_of([text], note)) for kind, text in SAMPLES]
    width = max(
        lefts[-1] + widths[-1] + 0.25,
        0.4 + page.width_of([title], page.title_style) if title else 0.0,
        0.4 + page.width_of([explanation], note),
        0.4 + sum(0.75 + text_width for _, _, text_width in samples),
    )
    grid = Grid(lefts, widths, top, top + 0.98 - highest)
    bottom = grid.root + lowest
    axes = page.canvas(width, bottom + 0.2)
    page.write(0.2, 0.15, title, page.title_style)
    x = 0.25
    for kind, text, text_width in samples:
        _draw_sample(axes, kind, x, top + 0.1)
        page.write(x + 0.42, top + 0.02, text, note)
        x += 0.75 + text_width
    page.write(0.2, top + 0.3, explanation, note)
    grid.draw_bands(axes, page, bottom + 0.1)
    grid.draw_nodes(axes, page, nodes)
    return page.figure


def _column_width(page: Page, column: list[PlacedNode]) -> float:
    """The widest text of a column, and its padding."""
    token, small = page.style(TOKEN_POINTS, INK, weight="bold"), page.style(NUMBER_POINTS, FAINT)
    boxes = [placed for placed in column if placed.kind != "pruned"]
    pruned = [f"{placed.text} {placed.total}" for placed in column if placed.kind == "pruned"]
    numbers = [text for placed in boxes for text in (placed.total, placed.score)]
    return max(
        0.5,
        2 * PADDING + page.width_of([placed.text for placed in boxes], token) if boxes else 0.0,
        2 * PADDING + page.width_of(numbers, small) if boxes else 0.0,
        0.1 + page.width_of(pruned, small) if pruned else 0.0,
    )


def _draw_box(
    axes: Axes, corner: tuple[float, float], size: tuple[float, float], *, fill: str, gid: str = "", **line: Any
) -> None:
    """A rounded box or, without a line, a plain rectangle in the background."""
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.06" if line else "square,pad=0"
    look = {"facecolor": fill, "edgecolor": "none", "zorder": 3 if line else 0} | line
    axes.add_patch(FancyBboxPatch(corner, *size, boxstyle=style, gid=gid or None, **look))


def _draw_edge(axes: Axes, start: tuple[float, float], end: tuple[float, float], child: PlacedNode) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    middle = (start[0] + end[0]) / 2
    curve = Curve([start, (middle, start[1]), (middle, end[1]), end], [Curve.MOVETO, *[Curve.CURVE4] * 3])
    if child.node.is_best:
        look: dict[str, Any] = {"edgecolor": BLUE, "linewidth": 3.0, "zorder": 2}
    elif child.kind == "pruned":
        look = {"edgecolor": FRAME, "linewidth": 0.6, "linestyle": (0, (3, 2)), "zorder": 1}
    else:
        look = {"edgecolor": GRAY, "linewidth": 1.0, "zorder": 1}
    gid = f"{'best-edge' if child.node.is_best else 'edge'}-{child.node.step}-{child.node.index}"
    axes.add_patch(PathPatch(curve, facecolor="none", capstyle="butt", gid=gid, **look))


def _draw_node(axes: Axes, page: Page, placed: PlacedNode, left: tuple[float, float], width: float) -> None:
    """A box with its text or, for a pruned node, the text alone; ``left`` is the middle of its left edge."""
    (x, y), node = left, placed.node
    gid = f"{'best' if node.is_best else placed.kind}-{node.step}-{node.index}"
    if placed.kind == "pruned":
        text = f"{left_to_right(placed.text)} {placed.total}".rstrip()
        axes.text(x + 0.04, y, text, ha="left", va="center", gid=gid, **page.style(PRUNED_POINTS, GRAY))
        return
    box = (x, y - placed.height / 2), (width, placed.height)
    _draw_node_box(axes, *box, placed.kind, best=node.is_best, gid=gid)
    lines = [(placed.text, page.style(TOKEN_POINTS, INK, weight="bold" if node.is_best else "normal"))]
    lines += [(text, page.style(NUMBER_POINTS, FAINT)) for text in (placed.total, placed.score) if text]
    y -= LINE_HEIGHT * (len(lines) - 1) / 2
    for row, (text, style) in enumerate(lines):
        axes.text(x + width / 2, y + LINE_HEIGHT * row, text, ha="center", va="center", **style)


def _draw_node_box(
    axes: Axes, corner: tuple[float, float], size: tuple[float, float], kind: str, *, best: bool, gid: str = ""
) -> None:
    """The box of a node, with a second one inside it if it is finished."""
    color = BLUE if best else GREEN if kind == "finished" else GRAY
    look: dict[str, Any] = {"edgecolor": color, "linewidth": 1.6 if best else 1.0}
    _draw_box(axes, corner, size, fill=PALE if best else "white", gid=gid, **look)
    if kind == "finished":
        (x, y), (width, height) = corner, size
        _draw_box(axes, (x + RING, y + RING), (width - 2 * RING, height - 2 * RING), fill="none", **look)


def _draw_sample(axes: Axes, kind: str, x: float, y: float) -> None:
    """A small box or line for the legend."""
    if kind == "pruned":
        axes.plot([x, x + 0.32], [y, y], color=FRAME, linewidth=0.8, linestyle=(0, (3, 2)))
    else:
        _draw_node_box(axes, (x, y - 0.08), (0.32, 0.16), kind, best=kind == "best")
