"""The tree of a beam search: the hypotheses it considered, where each one was pruned, and the best one.

Every extension that the search considered is a child of the hypothesis it extends. `build_tree` makes the tree of a
`BeamTrace`, `terminal_tree` writes it in a terminal, `search_tree_picture` draws it.

The *main child* of a node is the one on the path of the best hypothesis or, off that path, the one with the largest
subtree. In a terminal it stands straight below its parent, and only the other children are indented. So no line has
more than 1 + log2(nodes) indents, the number of light edges of a heavy path decomposition (Sleator & Tarjan 1983),
plus the one that leaves the best path.

Known limits: those of `attention_map` for scripts and fonts. Only the best few of a node's pruned children are shown
and, in a large tree, only those of nodes on the best path: the others are counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text

from weft.errors import DataError
from weft.pictures.labels import left_to_right, shorten
from weft.pictures.terminal import STYLES, Label, printable, render_lines
from weft.search.trace import BeamTrace, Branch
from weft.text import specials

MAX_PRUNED = 3
"""Pruned children of one node that are shown; the others are counted."""
LONGEST_LABEL = 16
LARGE_TREE = 60
"""A tree with more expanded nodes is large: what is off the best path is then written in a shorter form."""


@dataclass(eq=False)
class Node:
    """An extension with the ones that extend it, in the order of the trace: best first."""

    step: int
    """Step number from 1; the root, which extends nothing, has 0."""
    index: int
    """Position in the step's list."""
    branch: Branch
    is_best: bool = False
    """Whether it is on the path of the best hypothesis."""
    is_last: bool = False
    """Whether it is the last node of that path."""
    children: list[Node] = field(default_factory=list)
    """The ones that were kept or finished."""
    pruned: list[Node] = field(default_factory=list)
    size: int = 1
    """Nodes of the subtree, pruned ones not counted."""
    main_child: Node | None = None

    @property
    def kind(self) -> str:
        """``pruned``, ``finished`` or ``kept``."""
        return self.branch.outcome


def build_tree(trace: BeamTrace) -> list[list[Node]]:
    """The tree of a trace: its nodes, step by step, the root alone before the first."""
    root = Node(0, 0, Branch(specials.BEGIN, 0, 0.0, 0.0, 0.0, "kept", 0), is_best=True)
    tree = [[root]]
    slots = {0: root}
    for step, branches in enumerate(trace.steps, 1):
        nodes = [Node(step, index, branch) for index, branch in enumerate(branches)]
        for node in nodes:
            parent = root if step == 1 else slots.get(node.branch.parent)  # each group of a diverse beam starts there
            if parent is None:
                raise DataError(
                    f"step {step}: a branch extends slot {node.branch.parent}, but the slots of step {step - 1} are "
                    f"{', '.join(map(str, sorted(slots))) or 'none'}"
                )
            (parent.pruned if node.kind == "pruned" else parent.children).append(node)
        slots = {node.branch.slot: node for node in nodes if node.branch.slot >= 0}
        tree.append(nodes)
    for nodes, index in zip(tree[1:], trace.winner, strict=False):
        nodes[index].is_best = True
    if len(trace.winner):
        tree[len(trace.winner)][trace.winner[-1]].is_last = True
    for node in (node for nodes in reversed(tree) for node in nodes):
        node.size = 1 + sum(child.size for child in node.children)
        node.main_child = max(node.children, key=lambda child: (child.is_best, child.size), default=None)
    return tree


def is_large(tree: list[list[Node]]) -> bool:
    return tree[0][0].size - 1 > LARGE_TREE


def number(value: float) -> str:
    """A number with two decimals and a minus sign as wide as a plus; never −0.00."""
    digits = "∞" if math.isinf(value) else f"{abs(value):.2f}"
    return f"−{digits}" if value < 0 and digits != "0.00" else digits


# In a terminal

LEGEND = (
    "● best hypothesis   ○ kept   × pruned   ■ finished   score: the ranking score",
    "The next token is straight below; ├─ is an alternative to it. log p: of all tokens so far.",
)
MARGIN = 15
"""Terminal columns of step and log p, to the left of the tree."""


def terminal_tree(
    trace: BeamTrace,
    label: Label,
    *,
    width: int = 80,
    color: bool = False,
    max_pruned: int = MAX_PRUNED,
    ascii_only: bool = False,
) -> str:
    """The tree as lines of at most `width` cells, with a legend; `color` adds ANSI codes.

    The best `max_pruned` pruned children of each node are shown. In a large tree several nodes off the best path share
    a line, up to the next alternative, and their pruned children are only counted.
    """
    if not trace.steps:
        return "The search made no step: there is no tree.\n"
    tree = build_tree(trace)
    writer = TreeWriter(printable(label, ascii_only), width, max_pruned, is_large(tree))
    lines = [Text(" step    log p", style="dim"), *writer.lines(tree[0][0]), Text()]
    lines += [Text(sentence, style="dim") for sentence in LEGEND]
    return render_lines(lines, width, color=color, ascii_only=ascii_only)


@dataclass(frozen=True)
class TreeWriter:
    """Writes the nodes of a tree as lines; in a large tree, several nodes to a line."""

    label: Label
    width: int
    max_pruned: int
    large: bool

    def lines(self, root: Node) -> Iterator[Text]:
        yield Text.assemble(" " * MARGIN, (specials.SPECIALS[specials.BEGIN], STYLES["best"]))
        yield from self._alternatives(root, Text())
        if root.main_child is not None:
            yield from self._chain(root.main_child, Text(), Text())

    def _chain(self, first: Node, before: Text, prefix: Text) -> Iterator[Text]:
        """A node, its main child, the main child of that and so on, each with its alternatives."""
        node: Node | None = first
        while node is not None:
            run = self._run(node, cell_len(before.plain))
            yield self._line(run, before)
            yield from self._alternatives(run[-1], prefix)
            node, before = run[-1].main_child, prefix

    def _run(self, node: Node, indent: int) -> list[Node]:
        """The nodes of one line: a single one or, in a large tree, all up to the next alternative."""
        run = [node]
        free = self.width - MARGIN - indent - 2 - 10 - cell_len(self.label(node.branch.token))
        while self.large and not node.is_best and node.main_child is not None and len(node.children) == 1:
            node = node.main_child
            free -= 1 + cell_len(self.label(node.branch.token))
            if node.kind == "finished" or free < 0:
                break
            run.append(node)
        return run

    def _line(self, run: list[Node], before: Text) -> Text:
        """``step, log p, tree, token``."""
        node = run[-1]
        finished = node.kind == "finished"
        steps = f"{run[0].step}–{node.step}" if len(run) > 1 else f"{node.step}"
        style = STYLES["best"] if node.is_best else STYLES["finished"] if finished else ""
        after = Text()
        if finished or node.is_last:
            after.append(f"  score {number(node.branch.score)}", style)
        if node.is_last:
            after.append("  ◀ best" if finished else "  ◀ best, stopped by the length limit", style)
        if hidden := sum(len(member.pruned) for member in run) if not self._lists_pruned(node) else 0:
            after.append(f"  +{hidden} pruned", STYLES["pruned"])
        free = self.width - MARGIN - cell_len(before.plain) - 2 - cell_len(after.plain)
        tokens = " ".join(self.label(member.branch.token) for member in run)
        symbol = "■" if finished else "●" if node.is_best else "○"
        return Text.assemble(
            (
                f"{steps:>5}{number(node.branch.total):>9} ",
                STYLES["best"] if node.is_best else STYLES["secondary"],
            ),
            before,
            (f"{symbol} {left_to_right(shorten(tokens, max(free, 4)))}", style),
            after,
        )

    def _lists_pruned(self, node: Node) -> bool:
        return node.is_best or not self.large

    def _alternatives(self, node: Node, prefix: Text) -> Iterator[Text]:
        """The children of a node other than the main one: their subtrees, then the pruned ones on one line."""
        on_best_path = node.is_best and node.main_child is not None
        style = STYLES["best" if on_best_path else "secondary"]
        line, fork = ("┃ ", "┠─") if on_best_path else ("│ ", "├─")
        for child in node.children:
            if child is not node.main_child:
                before, below = Text.assemble(prefix, (fork, style)), Text.assemble(prefix, (line, style))
                yield from self._chain(child, before, below)
        if node.pruned and self._lists_pruned(node):
            corner = fork if node.main_child is not None else "└─"
            pruned = self._pruned(node, cell_len(prefix.plain))
            yield Text.assemble(" " * MARGIN, prefix, (corner, style), (pruned, STYLES["pruned"]))

    def _pruned(self, node: Node, indent: int) -> str:
        """The best pruned children with their log p, as many as fit, and the number of the others."""
        free = self.width - MARGIN - indent - 2
        listed = ""
        for index, child in enumerate(node.pruned):
            token = left_to_right(shorten(self.label(child.branch.token), LONGEST_LABEL))
            item = f"{', ' if index else '× '}{token} {number(child.branch.total)}"
            rest = len(node.pruned) - index - 1
            ending = len(f", +{rest} pruned") if rest else 0
            if index == self.max_pruned or cell_len(listed + item) + ending > free:
                return f"{listed}, +{rest + 1} pruned" if listed else f"× {rest + 1} pruned"
            listed += item
        return listed
