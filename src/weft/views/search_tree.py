"""The tree of a beam search: which ways it tried, where each was given up, and which one won.

Every branch that was looked at hangs from the one it extends. `grow` builds the tree of a `BeamTrace`,
`terminal_tree` writes it in a terminal, `draw_tree` as SVG, PNG or PDF (`tree_svg` gives the SVG as text).

In a picture a column is a step. Each node stands level with its *heir*, the child that goes on for longest (on the
winner's path: the winner), and the subtrees of the other children are set above and below it, as close as they go
without touching: every subtree keeps its outline, one interval a step (Reingold & Tilford 1981, on its side). So the
winner's path is a straight line, lines never cross, and the height grows with the beam, not with the number of steps.

In a terminal an heir stands straight below its parent and only other ways are indented. No line then has more than
1 + log2(nodes) indents, the number of light edges of a heavy path decomposition (Sleator & Tarjan 1983), but for the
one that leaves the winner's path.

Known limits: those of `attention_map` for scripts and fonts. Of a node's cut branches only the best few are shown
and, where many branches were kept, only those of nodes on the winner's path: others are counted.
"""

from __future__ import annotations

import math
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from weft.errors import DataError
from weft.search.trace import BeamTrace, Branch
from weft.text import specials
from weft.views.labels import shorten, visible
from weft.views.picture import FAINT, FRAME, INK, Page, picture_format, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Label = Callable[[int], str]
"""The text of a token."""

MOST_CUT = 3
"""Cut branches of one node that are shown; the others are counted."""
LONGEST_LABEL = 16
MANY = 60
"""More live branches make a large tree, in which what leaves the winner's path is told in fewer words."""


@dataclass(eq=False)
class Node:
    """A branch with those that extend it, in the order of the trace: best first."""

    step: int
    """From 1; the root, which is no branch, has 0."""
    place: int
    """In the step's list."""
    branch: Branch
    wins: bool = False
    """Whether it is on the winner's path."""
    last: bool = False
    """Whether it is where that path ends."""
    live: list[Node] = field(default_factory=list)
    """The children that were kept or finished."""
    cut: list[Node] = field(default_factory=list)
    size: int = 1
    """Live nodes of the subtree."""
    heir: Node | None = None

    @property
    def finished(self) -> bool:
        return self.branch.fate == "finished"


def grow(trace: BeamTrace) -> list[list[Node]]:
    """The tree of a trace: its nodes, step by step, the root alone before the first."""
    root = Node(0, 0, Branch(specials.BEGIN, 0, 0.0, 0.0, 0.0, "kept", 0), wins=True)
    tree = [[root]]
    slots = {0: root}
    for step, branches in enumerate(trace.steps, 1):
        nodes = [Node(step, place, branch) for place, branch in enumerate(branches)]
        for node in nodes:
            parent = root if step == 1 else slots.get(node.branch.parent)  # each group of a diverse beam begins there
            if parent is None:
                raise DataError(
                    f"step {step}: a branch extends slot {node.branch.parent}, but the slots that went on are "
                    f"{', '.join(map(str, sorted(slots))) or 'none'}"
                )
            (parent.cut if node.branch.fate == "cut" else parent.live).append(node)
        slots = {node.branch.slot: node for node in nodes if node.branch.slot >= 0}
        tree.append(nodes)
    for nodes, place in zip(tree[1:], trace.winner, strict=False):
        nodes[place].wins = True
    if len(trace.winner):
        tree[len(trace.winner)][trace.winner[-1]].last = True
    for node in (node for nodes in reversed(tree) for node in nodes):
        node.size = 1 + sum(child.size for child in node.live)
        node.heir = max(node.live, key=lambda child: (child.wins, child.size), default=None)
    return tree


def number(value: float) -> str:
    """With two decimals and a minus sign that is as wide as a plus; what would be −0.00 has none."""
    digits = "∞" if math.isinf(value) else f"{abs(value):.2f}"
    return f"−{digits}" if value < 0 and digits != "0.00" else digits


def upright(label: str) -> str:
    """A label after which a number may stand: a mark keeps the number to the right of Arabic and Hebrew letters."""
    return f"{label}\u200e" if any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in label) else label


def caption(title: str) -> str:
    return visible(title).replace("␣", " ").replace("⏎", "\n") if title else ""


# In a terminal

LEGEND = (
    "● the winner's path   ○ kept   × cut   ■ finished   score: what ranks it",
    "Straight down is the next token; ├─ is another way to go on from the token above. log p: of all tokens so far.",
)
LOOKS = {"wins": "bold cyan", "finished": "green", "cut": "dim", "faint": "dim"}


def terminal_tree(
    trace: BeamTrace,
    label: Label,
    *,
    width: int = 80,
    color: bool = False,
    cut: int = MOST_CUT,
    ascii_only: bool = False,
) -> str:
    """The tree as lines of at most `width` cells, with a legend; `color` adds the codes of a terminal.

    Of each node the best `cut` cut branches are shown. In a large tree nodes off the winner's path are written
    several to a line, up to where the next way branches off, and their cut branches are only counted.
    """
    if not trace.steps:
        return "The search made no step: there is no tree.\n"
    writer = TreeWriter(label, width, cut, _live(trace) > MANY, ascii_only)
    lines = [Text(" step    log p", style="dim"), *writer.lines(grow(trace)[0][0]), Text()]
    return rendered([*lines, *(Text(words, style="dim") for words in LEGEND)], width, color, ascii_only)


def _live(trace: BeamTrace) -> int:
    return sum(branch.fate != "cut" for step in trace.steps for branch in step)


SIGNS_OF_ASCII = str.maketrans("●○×■│┃├┠└─−…∞–█░▶◀·▏▎▍▌▋▊▉", "*ox#||||`--.!-#-><.:::####")


def rendered(lines: Sequence[Text], width: int, color: bool, ascii_only: bool = False) -> str:
    """Lines as one string. Dim lines of prose are wrapped, others cut to the width."""
    console = Console(
        width=width, color_system="256" if color else None, force_terminal=color, highlight=False, _environ={}
    )
    shown: list[str] = []
    for line in lines:
        prose = line.style == "dim" and cell_len(line.plain) > width
        for part in line.wrap(console, width) if prose else [line]:
            part.truncate(width, overflow="crop")
            part.rstrip()
            part.stylize(part.style)
            pieces = part.render(console)
            shown.append("".join(style.render(text) if color and style else text for text, style, _ in pieces))
    text = "\n".join(shown) + "\n"
    return text.translate(SIGNS_OF_ASCII).encode("ascii", "replace").decode() if ascii_only else text


def plain(label: Label, ascii_only: bool) -> Label:
    """The label made visible and, if it must be, spelled in ASCII."""
    if not ascii_only:
        return lambda token: visible(label(token))
    return lambda token: visible(label(token)).encode("ascii", "backslashreplace").decode()


class TreeWriter:
    """How the nodes of one tree are written as lines."""

    def __init__(self, label: Label, width: int, cut: int, joined: bool, ascii_only: bool) -> None:
        self.label = plain(label, ascii_only)
        self.width, self.cut, self.joined = width, cut, joined

    def lines(self, root: Node) -> Iterator[Text]:
        yield Text.assemble(" " * 15, (specials.SPECIALS[specials.BEGIN], LOOKS["wins"]))
        yield from self._below(root, Text())
        if root.heir is not None:
            yield from self._chain(root.heir, Text(), Text())

    def _chain(self, first: Node, before: Text, prefix: Text) -> Iterator[Text]:
        """A node, its heir, the heir's heir and so on, each with the other ways that leave it."""
        node: Node | None = first
        while node is not None:
            run = self._run(node, cell_len(before.plain))
            yield self._line(run, before)
            yield from self._below(run[-1], prefix)
            node, before = run[-1].heir, prefix

    def _run(self, node: Node, indent: int) -> list[Node]:
        """The nodes of one line: only one, or in a large tree all up to where the next way branches off."""
        run = [node]
        room = self.width - 15 - indent - 2 - 10 - cell_len(self.label(node.branch.token))
        while self.joined and not node.wins and node.heir is not None and len(node.live) == 1:
            node = node.heir
            room -= 1 + cell_len(self.label(node.branch.token))
            if node.finished or room < 0:
                break
            run.append(node)
        return run

    def _line(self, run: list[Node], before: Text) -> Text:
        """``step, log p, tree, token``."""
        node = run[-1]
        steps = f"{run[0].step}–{node.step}" if len(run) > 1 else f"{node.step}"
        look = LOOKS["wins"] if node.wins else LOOKS["finished"] if node.finished else ""
        mark = "■" if node.finished else "●" if node.wins else "○"
        after = Text()
        if node.finished or node.last:
            after.append(f"  score {number(node.branch.score)}", look)
        if node.last:
            after.append("  ◀ winner" if node.finished else "  ◀ winner, stopped by the length limit", look)
        if hidden := sum(len(one.cut) for one in run) if not self._tells_cut(node) else 0:
            after.append(f"  +{hidden} cut", LOOKS["cut"])
        room = self.width - 15 - cell_len(before.plain) - 2 - cell_len(after.plain)
        tokens = upright(shorten(" ".join(self.label(one.branch.token) for one in run), max(room, 4)))
        return Text.assemble(
            (f"{steps:>5}{number(node.branch.total):>9} ", LOOKS["wins"] if node.wins else LOOKS["faint"]),
            before,
            (f"{mark} {tokens}", look),
            after,
        )

    def _tells_cut(self, node: Node) -> bool:
        return node.wins or not self.joined

    def _below(self, node: Node, prefix: Text) -> Iterator[Text]:
        """What leaves a node other than its heir: live subtrees, then its cut branches on one line."""
        look = LOOKS["wins"] if node.wins and node.heir is not None else LOOKS["faint"]
        line, fork = ("┃ ", "┠─") if node.wins and node.heir is not None else ("│ ", "├─")
        others = [child for child in node.live if child is not node.heir]
        for child in others:
            yield from self._chain(child, Text.assemble(prefix, (fork, look)), Text.assemble(prefix, (line, look)))
        if node.cut and self._tells_cut(node):
            corner = fork if node.heir is not None else "└─"
            yield Text.assemble(
                " " * 15, prefix, (corner, look), (self._cut(node, cell_len(prefix.plain)), LOOKS["cut"])
            )

    def _cut(self, node: Node, indent: int) -> str:
        room = self.width - 15 - indent - 2
        words = ""
        for place, child in enumerate(node.cut):
            word = upright(shorten(self.label(child.branch.token), LONGEST_LABEL))
            more = f"{', ' if place else '× '}{word} {number(child.branch.total)}"
            left = len(node.cut) - place - 1
            if place == self.cut or cell_len(words + more) + (len(f", +{left} cut") if left else 0) > room:
                return f"{words}, +{left + 1} cut" if words else f"× {left + 1} cut"
            words += more
        return words


# As a picture

SAMPLES = (("winner", "the winner's path"), ("kept", "kept"), ("finished", "finished"), ("cut", "cut"))
EXPLAINED = "Number: log p of all tokens so far. Score: what finished ones are ranked by."
COUNTED = " (+n): so many of its branches were cut."
BLUE, PALE, GREEN, GRAY, BAND = "#08519c", "#deebf7", "#2f8f5b", "#7b8794", "#f5f7fa"
TOKEN, NUMBER, SMALL = 10.0, 7.5, 7.5
"""Points of a token, of the number below it, and of a cut branch."""
KEPT_HIGH, FINISHED_HIGH, CUT_HIGH, LINE = 0.4, 0.56, 0.17, 0.14
"""Inches, the last of a line inside a box."""
NEAR, FAR = 0.05, 0.14
"""Least inches between children of one node, and between others of one step."""
GUTTER, PAD, RING = 0.42, 0.09, 0.03
"""Inches between columns, between a box and its words, and between the two lines of one that finished."""


@dataclass
class Mark:
    """What stands for one node, or for several cut branches that are only counted."""

    node: Node
    words: str
    small: str
    score: str
    children: list[Mark]
    heir: Mark | None
    high: float
    y: float = 0.0
    """Below the root."""
    offset: float = 0.0
    """Below its parent."""

    @property
    def kind(self) -> str:
        return "cut" if self.node.branch.fate == "cut" else "finished" if self.node.finished else "kept"


def draw_tree(trace: BeamTrace, label: Label, to: str | Path, *, title: str = "", cut: int = MOST_CUT) -> Path:
    """Write the tree as a picture, in the format the path ends in: .svg, .png or .pdf.

    Of each node the best `cut` cut branches are shown, in a large tree only of those on the winner's path. The same
    trace gives the same bytes.
    """
    path = Path(to)
    suffix = picture_format(path)
    columns = place(trace, label, cut)
    heading = caption(title)
    texts = [heading, *(mark.words for column in columns for mark in column)]
    return write_picture(path, suffix, texts, lambda families: _figure(columns, heading, families))


def tree_svg(trace: BeamTrace, label: Label, *, title: str = "", cut: int = MOST_CUT) -> str:
    """The picture as the text of an SVG file, for a page or a notebook."""
    with tempfile.TemporaryDirectory() as folder:
        return draw_tree(trace, label, Path(folder) / "tree.svg", title=title, cut=cut).read_text("utf-8")


def place(trace: BeamTrace, label: Label, cut: int = MOST_CUT) -> list[list[Mark]]:
    """The marks of a picture, step by step from the root on, each column from top to bottom."""
    if not trace.steps:
        raise DataError("the search made no step; expected a trace of at least 1")
    tree = grow(trace)
    large = _live(trace) > MANY
    marks: dict[int, Mark] = {}
    outlines: dict[int, Outline] = {}
    for node in (node for nodes in reversed(tree) for node in nodes):
        if node.branch.fate != "cut":
            mark = _mark(node, label, cut if node.wins or not large else None, marks)
            marks[id(node)] = mark
            outlines[id(mark)] = _outline(mark, outlines)
    columns = [[marks[id(tree[0][0])]]]
    while following := [child for mark in columns[-1] for child in _down(mark)]:
        columns.append(following)
    return columns


def _down(mark: Mark) -> list[Mark]:
    """The children of a mark, put in their places on the page."""
    for child in mark.children:
        child.y = mark.y + child.offset
    return mark.children


def _mark(node: Node, label: Label, cut: int | None, marks: dict[int, Mark]) -> Mark:
    """A live node with its children in the order of the trace. Cut ones beyond the best few become a leaf that counts
    them; where `cut` is None all are only counted, beside the node's own number."""
    leaves = [] if cut is None else node.cut[:cut]
    shown = [_leaf(child, shorten(visible(label(child.branch.token)), LONGEST_LABEL)) for child in leaves]
    if cut is not None and len(node.cut) > cut:
        shown.append(_leaf(node.cut[cut], f"+{len(node.cut) - cut} cut", counted=True))
    children = sorted([*(marks.pop(id(child)) for child in node.live), *shown], key=lambda mark: mark.node.place)
    heir = next((mark for mark in children if mark.node is node.heir), None)
    words = specials.SPECIALS[specials.BEGIN] if not node.step else visible(label(node.branch.token))
    ends = node.finished or node.last
    return Mark(
        node,
        shorten(words, LONGEST_LABEL),
        number(node.branch.total) + (f" (+{len(node.cut)})" if cut is None and node.cut else ""),
        f"score {number(node.branch.score)}" if ends else "",
        children,
        heir,
        FINISHED_HIGH if ends else KEPT_HIGH,
    )


def _leaf(node: Node, words: str, *, counted: bool = False) -> Mark:
    return Mark(node, words, "" if counted else number(node.branch.total), "", [], None, CUT_HIGH)


Outline = list[tuple[float, float]]
"""Top and bottom of a subtree at each step from its root on, below its root."""


def _outline(mark: Mark, outlines: dict[int, Outline]) -> Outline:
    """Set the children of a mark around its heir, as close as they go, and give what they fill with it.

    Cut branches stand right below the heir, then shallow subtrees are set before deep ones, each on the side where
    it is nearer.
    """
    depth = {id(child): len(outlines.get(id(child), ())) for child in mark.children}
    around = sorted(mark.children, key=lambda child: (child is not mark.heir, depth[id(child)]))
    filled: Outline = []
    for child in around:
        own = outlines.pop(id(child), [(-child.high / 2, child.high / 2)])
        child.offset = _nearest(filled, own, below_only=child.kind == "cut")
        moved = [(top + child.offset, bottom + child.offset) for top, bottom in own]
        both = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(filled, moved, strict=False)]
        filled = both + max(filled, moved, key=len)[len(both) :]
    mark.children.sort(key=lambda child: child.offset)
    if mark.heir is None and around:
        middle = (mark.children[0].offset + mark.children[-1].offset) / 2
        filled = [(top - middle, bottom - middle) for top, bottom in filled]
        for child in around:
            child.offset -= middle
    return [(-mark.high / 2, mark.high / 2), *filled]


def _nearest(filled: Outline, own: Outline, *, below_only: bool) -> float:
    """How far below (or, negative, above) what is filled a subtree must stand so as not to touch it."""
    pairs = [(a, b, FAR if depth else NEAR) for depth, (a, b) in enumerate(zip(filled, own, strict=False))]
    below = max((bottom + gap - upper for (_, bottom), (upper, _), gap in pairs), default=0.0)
    above = max((lower + gap - top for (top, _), (_, lower), gap in pairs), default=0.0)
    return below if below_only or below <= above else -above


def _figure(columns: list[list[Mark]], title: str, families: list[str]) -> Figure:
    """The picture: title, legend, the numbers of the steps, and below them the tree."""
    page = Page.blank(families)
    token, small = page.style(TOKEN, INK, weight="bold"), page.style(NUMBER, FAINT)
    wide = [_width(page, column, token, small) for column in columns]
    left = [0.25 + sum(wide[:step]) + step * GUTTER for step in range(len(wide))]
    marks = [mark for column in columns for mark in column]
    highest = min(mark.y - mark.high / 2 for mark in marks)
    lowest = max(mark.y + mark.high / 2 for mark in marks)
    heading, note = page.style(13, INK), page.style(9, FAINT)
    explained = EXPLAINED + (COUNTED if any("+" in mark.small for mark in marks) else "")
    top = 0.15 + (0.1 + 1.35 * 13 / 72 * (title.count("\n") + 1) if title else 0.0)
    samples = [(kind, words, page.inches([words], note)) for kind, words in SAMPLES]
    width = max(
        left[-1] + wide[-1] + 0.25,
        0.4 + page.inches([title], heading) if title else 0.0,
        0.4 + page.inches([explained], note),
        0.4 + sum(0.75 + room for _, _, room in samples),
    )
    root = top + 0.98 - highest
    page.figure.set_size_inches(width, root + lowest + 0.2)
    page.write(0.2, 0.15, title, heading)
    axes = page.axes(0, 0, width, root + lowest + 0.2)
    axes.set(xlim=(0, width), ylim=(root + lowest + 0.2, 0))
    axes.axis("off")
    x = 0.25
    for kind, words, room in samples:
        _sample(axes, kind, x, top + 0.1)
        page.write(x + 0.42, top + 0.02, words, note)
        x += 0.75 + room
    page.write(0.2, top + 0.3, explained, note)
    for step, (x, room) in enumerate(zip(left, wide, strict=True)):
        axes.text(x + room / 2, top + 0.8, f"{step or 'step'}", ha="center", va="center", **page.style(9, FAINT))
        if step % 2:
            _box(axes, x - GUTTER / 2, top + 0.66, room + GUTTER, root + lowest + 0.1 - top - 0.66, fill=BAND)
    for mark in marks:
        step = mark.node.step
        for child in mark.children:
            start, end = left[step] + wide[step], left[step + 1]
            _edge(axes, (start, root + mark.y), (end, root + child.y), child)
    for mark in marks:
        _draw_mark(axes, page, mark, left[mark.node.step], root + mark.y, wide[mark.node.step])
    return page.figure


def _width(page: Page, column: list[Mark], token: dict[str, Any], small: dict[str, Any]) -> float:
    """Of a column: its widest words, and room around them."""
    live = [mark for mark in column if mark.kind != "cut"]
    cut = [f"{mark.words} {mark.small}" for mark in column if mark.kind == "cut"]
    return max(
        0.5,
        2 * PAD + page.inches([mark.words for mark in live], token) if live else 0.0,
        2 * PAD + page.inches([words for mark in live for words in (mark.small, mark.score)], small) if live else 0.0,
        0.1 + page.inches(cut, small) if cut else 0.0,
    )


def _box(axes: Axes, x: float, y: float, wide: float, high: float, *, fill: str, gid: str = "", **line: Any) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.06" if line else "square,pad=0"
    look = {"facecolor": fill, "edgecolor": "none", "zorder": 3 if line else 0} | line
    axes.add_patch(FancyBboxPatch((x, y), wide, high, boxstyle=style, gid=gid or None, **look))


def _edge(axes: Axes, start: tuple[float, float], end: tuple[float, float], child: Mark) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    middle = (start[0] + end[0]) / 2
    curve = Curve([start, (middle, start[1]), (middle, end[1]), end], [Curve.MOVETO, *[Curve.CURVE4] * 3])
    step, place = child.node.step, child.node.place
    if child.node.wins:
        look: dict[str, Any] = {"edgecolor": BLUE, "linewidth": 3.0, "zorder": 2}
    elif child.kind == "cut":
        look = {"edgecolor": FRAME, "linewidth": 0.6, "linestyle": (0, (3, 2)), "zorder": 1}
    else:
        look = {"edgecolor": GRAY, "linewidth": 1.0, "zorder": 1}
    name = "winner-edge" if child.node.wins else "edge"
    axes.add_patch(PathPatch(curve, facecolor="none", capstyle="butt", gid=f"{name}-{step}-{place}", **look))


def _draw_mark(axes: Axes, page: Page, mark: Mark, x: float, y: float, wide: float) -> None:
    """A box with its words, or of a cut branch the words alone; ``y`` is its middle."""
    step, place = mark.node.step, mark.node.place
    if mark.kind == "cut":
        words = f"{upright(mark.words)} {mark.small}".rstrip()
        axes.text(x + 0.04, y, words, ha="left", va="center", gid=f"cut-{step}-{place}", **page.style(SMALL, GRAY))
        return
    wins = mark.node.wins
    name = "winner" if wins else mark.kind
    _node_box(axes, (x, y - mark.high / 2), (wide, mark.high), mark.kind, wins=wins, gid=f"{name}-{step}-{place}")
    lines = [(mark.words, page.style(TOKEN, INK, weight="bold" if wins else "normal"))]
    lines += [(words, page.style(NUMBER, FAINT)) for words in (mark.small, mark.score) if words]
    y -= LINE * (len(lines) - 1) / 2
    for row, (words, style) in enumerate(lines):
        axes.text(x + wide / 2, y + LINE * row, words, ha="center", va="center", **style)


def _node_box(
    axes: Axes, corner: tuple[float, float], size: tuple[float, float], kind: str, *, wins: bool, gid: str = ""
) -> None:
    """A live node's box, with a second one inside it, its ring, where it finished."""
    color = BLUE if wins else GREEN if kind == "finished" else GRAY
    look: dict[str, Any] = {"edgecolor": color, "linewidth": 1.6 if wins else 1.0}
    _box(axes, *corner, *size, fill=PALE if wins else "white", gid=gid, **look)
    if kind == "finished":
        (x, y), (wide, high) = corner, size
        _box(axes, x + RING, y + RING, wide - 2 * RING, high - 2 * RING, fill="none", **look)


def _sample(axes: Axes, kind: str, x: float, y: float) -> None:
    """A small box or line for the legend."""
    if kind == "cut":
        axes.plot([x, x + 0.32], [y, y], color=FRAME, linewidth=0.8, linestyle=(0, (3, 2)))
    else:
        _node_box(axes, (x, y - 0.08), (0.32, 0.16), kind, wins=kind == "winner")
