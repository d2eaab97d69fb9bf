"""Attention heads: the maps of all layers and heads on one page.

One row of panels for each layer, one column for each head, a block for each kind of attention; in each panel the rows
are the tokens that look and the columns the tokens looked at (Vaswani et al. 2017, figures 3 to 5). All panels share
one color scale, so that a sharp head and an even one can be told apart. `draw_heads` writes SVG, PNG or PDF,
`terminal_heads` gives an overview for the terminal. A single map with all its labels is `attention_map`'s business.

Known limits: those of `attention_map`; and the panels of one kind must be about the same tokens, since they share
their labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from weft.errors import DataError
from weft.views.attention_map import BLUES, CELL, _cell, _checked, _key
from weft.views.labels import shorten, visible
from weft.views.picture import FAINT, FRAME, INK, LINES, Page, picture_format, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

PAGE = 15.0
"""Inches that the panels of one layer share, where that leaves each of a legible size."""
SMALLEST_SIDE, LARGEST_SIDE = 1.35, 4.0
"""Inches of the longer side of a panel."""
LARGEST_CELL = 0.32
MARGIN, SCALE, HEADING, NUMBER, GAP = 0.15, 0.5, 0.3, 0.2, 0.1
"""Inches above the title, of the scale, of a block's heading, of a panel's number and below a panel."""
THINNEST = 0.4
"""Inches below which a short side is stretched: 3 target tokens against 60 of the source would be a mere line."""
SMALLEST_LABEL, LARGEST_LABEL = 5.5, 10.0
"""Points. Where even the smallest labels would touch, only every second, third, … token is labeled."""
LONGEST_LABEL = 18
MOST_VECTORS = 20_000
"""Cells in all; beyond that they are pixels, since viewers of SVG and PDF choke on so many."""
FEWEST_COLUMNS, MOST_COLUMNS = 8, 24
"""Terminal columns of a panel: fewer only if the map is smaller, even where that leaves a layer more lines."""
MOST_LINES = 12
BETWEEN = 2


class HeadPanel(NamedTuple):
    """The map of one head. Layers and heads are counted from 1, as they are shown."""

    kind: str
    """Which attention: "encoder self", "decoder self", "cross"."""
    layer: int
    head: int
    weights_TS: np.ndarray
    source: list[str]
    """The tokens looked at: columns."""
    target: list[str]
    """The tokens that look: rows."""


class Block(NamedTuple):
    """The panels of one kind, by layer and head."""

    heading: str
    layers: list[int]
    heads: list[int]
    weights: dict[tuple[int, int], np.ndarray]
    source: list[str]
    target: list[str]


def draw_heads(panels: Sequence[HeadPanel], to: str | Path, *, title: str = "") -> Path:
    """Write the panels as one picture, in the format the path ends in: .svg, .png or .pdf.

    The same panels give the same bytes.
    """
    path = Path(to)
    suffix = picture_format(path)
    blocks = _blocks(panels)
    shown = [
        block._replace(
            source=[shorten(label, LONGEST_LABEL) for label in block.source],
            target=[shorten(label, LONGEST_LABEL) for label in block.target],
        )
        for block in blocks
    ]
    caption = visible(title).replace("␣", " ").replace("⏎", "\n") if title else ""
    texts = [caption, *(text for block in shown for text in (block.heading, *block.source, *block.target))]
    return write_picture(path, suffix, texts, lambda families: _figure(shown, caption, families))


def _blocks(panels: Sequence[HeadPanel]) -> list[Block]:
    """The panels sorted, their labels made visible; an error for those that cannot share a page."""
    if not panels:
        raise DataError("no attention maps to draw; expected at least 1 panel")
    first: dict[str, HeadPanel] = {}
    weights: dict[str, dict[tuple[int, int], np.ndarray]] = {}
    for panel in panels:
        where = f"{visible(panel.kind).replace('␣', ' ')} layer {panel.layer} head {panel.head}"
        if panel.layer < 1 or panel.head < 1:
            raise DataError(f"{where}: layers and heads are counted from 1")
        try:
            checked_TS = _checked(panel.weights_TS, panel.source, panel.target)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        other = first.setdefault(panel.kind, panel)
        if (list(panel.source), list(panel.target)) != (list(other.source), list(other.target)):
            raise DataError(
                f"{where}: its tokens are not those of layer {other.layer} head {other.head}; "
                "panels of one kind share their labels"
            )
        if (panel.layer, panel.head) in weights.setdefault(panel.kind, {}):
            raise DataError(f"{where}: given twice; expected one map for each head")
        weights[panel.kind][panel.layer, panel.head] = checked_TS
    return [
        Block(
            f"{visible(kind).replace('␣', ' ')}-attention",
            sorted({layer for layer, _ in weights[kind]}),
            sorted({head for _, head in weights[kind]}),
            weights[kind],
            [visible(token) for token in panel.source],
            [visible(token) for token in panel.target],
        )
        for kind, panel in first.items()
    ]


def _peak(blocks: Sequence[Block]) -> float:
    return max(float(weights_TS.max()) for block in blocks for weights_TS in block.weights.values()) or 1.0


class Room(NamedTuple):
    """What a block of panels takes on the page, in inches: the size of a panel, the labels below the last layer."""

    block: Block
    wide: float
    high: float
    below: float

    @property
    def pitch(self) -> tuple[float, float]:
        """Width and height of a cell."""
        return self.wide / len(self.block.source), self.high / len(self.block.target)

    @property
    def height(self) -> float:
        return HEADING + len(self.block.layers) * (NUMBER + self.high + GAP) + self.below


def _figure(blocks: list[Block], title: str, families: list[str]) -> Figure:
    """The picture: title, scale, then a block of panels for each kind."""
    page = Page.blank(families)
    across = max(len(block.heads) for block in blocks)
    longest = max(max(len(block.source), len(block.target)) for block in blocks)
    cell = min(min(max(PAGE / across, SMALLEST_SIDE), LARGEST_SIDE) / longest, LARGEST_CELL)
    rooms = [
        Room(block, max(len(block.source) * cell, THINNEST), max(len(block.target) * cell, THINNEST), 0.0)
        for block in blocks
    ]
    pitch = min(min(room.pitch) for room in rooms)
    label = page.style(min(max(pitch * 72 * 0.8, SMALLEST_LABEL), LARGEST_LABEL), INK)
    rooms = [room._replace(below=0.12 + page.inches(room.block.source, label)) for room in rooms]
    left = 0.3 + max(page.inches(block.target, label) for block in blocks)
    numbers = [f"layer {layer} · head {head}" for block in blocks for layer, head in block.weights]
    slot = 0.18 + max(page.inches(numbers, page.style(8, FAINT)), *(room.wide for room in rooms))

    words = "attention weight, one scale for all panels; rows look at columns"
    every = _every(pitch, label)
    if every > 1:
        words += f"; at least 1 token in {every} is labeled"
    caption, note = page.style(13, INK), page.style(9, FAINT)
    top = MARGIN
    if title:
        top += 0.1 + 1.35 * 13 / 72 * (title.count("\n") + 1)
    width = max(
        left + across * slot + 0.1,
        0.4 + page.inches([title], caption),
        2.3 + page.inches([words], note),
        left + 0.2 + page.inches([block.heading for block in blocks], page.style(11, INK, weight="bold")),
    )
    page.figure.set_size_inches(width, top + SCALE + sum(room.height for room in rooms) + 0.1)
    page.write(0.2, MARGIN, title, caption)
    page.write(2.1, top + 0.02, words, note)
    bar = page.axes(0.25, top + 0.04, 1.6, 0.12)
    top += SCALE
    peak = _peak(blocks)
    vectors = sum(weights_TS.size for block in blocks for weights_TS in block.weights.values()) <= MOST_VECTORS
    draw = partial(_cells, peak=peak, lines=pitch >= 0.07, vectors=vectors)
    for room in rooms:
        mesh = _panels(page, room, (left, top), slot, label, draw)
        top += room.height
    page.figure.colorbar(mesh, cax=bar, orientation="horizontal", ticks=[0, peak / 2, peak], format="%.2g")
    bar.tick_params(length=2, labelsize=8, color=FRAME, labelcolor=FAINT)
    bar.spines["outline"].set(color=FRAME, linewidth=0.6)
    return page.figure


def _panels(
    page: Page,
    room: Room,
    corner: tuple[float, float],
    slot: float,
    label: dict[str, Any],
    draw: Callable[[Axes, np.ndarray], QuadMesh],
) -> QuadMesh:
    """One block: layers downwards, heads across, labels at its left and bottom edges."""
    block, (left, top) = room.block, corner
    across, down = (_every(pitch, label) for pitch in room.pitch)
    page.write(left, top + 0.03, block.heading, page.style(11, INK, weight="bold"))
    for row, layer in enumerate(block.layers):
        y = top + HEADING + NUMBER + row * (NUMBER + room.high + GAP)
        for column, head in enumerate(block.heads):
            if (layer, head) not in block.weights:
                continue
            axes = page.axes(left + column * slot, y, room.wide, room.high)
            mesh = draw(axes, block.weights[layer, head])
            axes.set_title(f"layer {layer} · head {head}", loc="left", pad=3, **page.style(8, FAINT))
            if not any((layer, other) in block.weights for other in block.heads[:column]):
                axes.set_yticks([place + 0.5 for place in range(0, len(block.target), down)])
                axes.set_yticklabels(block.target[::down], **label)
            if not any((other, head) in block.weights for other in block.layers[row + 1 :]):
                axes.set_xticks([place + 0.5 for place in range(0, len(block.source), across)])
                axes.set_xticklabels(block.source[::across], rotation=90, **label)
    return mesh


def _every(pitch: float, label: dict[str, Any]) -> int:
    """Of how many tokens one is labeled, so that lines of text do not touch."""
    return max(math.ceil(label["fontsize"] * 1.1 / 72 / pitch - 1e-6), 1)


def _cells(axes: Axes, weights_TS: np.ndarray, peak: float, *, lines: bool, vectors: bool) -> QuadMesh:
    from matplotlib.colors import LinearSegmentedColormap

    mesh = axes.pcolormesh(
        weights_TS,
        cmap=LinearSegmentedColormap.from_list("weft", [tuple(part / 255 for part in color) for color in BLUES]),
        vmin=0,
        vmax=peak,
        edgecolors=LINES if lines else "face" if vectors else "none",
        linewidth=0.3 if lines else 0.1,
        rasterized=not vectors,
    )
    axes.invert_yaxis()
    axes.tick_params(length=0, pad=2.5)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.6)
    return mesh


def terminal_heads(panels: Sequence[HeadPanel], *, width: int | None = None, title: str | None = None) -> TerminalHeads:
    """All panels, small and without labels, for rich's `print`; ``2.3`` stands above layer 2, head 3.

    Maps too large for that are pooled: a character then shows the largest of the weights it stands for.
    """
    return TerminalHeads(_blocks(panels), width, title)


@dataclass(frozen=True)
class TerminalHeads:
    """What `terminal_heads` gives. It is laid out when printed, since only then width and colors are known."""

    blocks: list[Block]
    width: int | None
    title: str | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colored = console.color_system in ("256", "truecolor") and not console.no_color
        width = min(self.width or options.max_width, options.max_width)
        peak = _peak(self.blocks)
        lines = [Text(visible(self.title).replace("␣", " "), style="bold")] if self.title else []
        most = (1, 1)
        for block in self.blocks:
            lines.append(Text(block.heading, style="bold"))
            room, beside = _fit(block, width)
            wide = CELL if len(block.source) * CELL <= room else 1
            pool = -(-len(block.target) // MOST_LINES), -(-len(block.source) // room)
            most = max(most[0], pool[0]), max(most[1], pool[1])
            for layer in block.layers:
                heads = [head for head in block.heads if (layer, head) in block.weights]
                for start in range(0, len(heads), beside):
                    some = heads[start : start + beside]
                    maps = [_pool(block.weights[layer, head], *pool) / peak for head in some]
                    captions = [f"{layer}.{head}" for head in some]
                    lines += _strip(captions, maps, wide, colored, options.ascii_only)
                    lines.append(Text())
        note = "layer.head; rows look at columns"
        if most != (1, 1):
            note += f"; a sign stands for up to {most[0]} by {most[1]} weights and shows the largest"
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow="crop")
            yield line
        yield from _key(peak, -1, colored, options.ascii_only).wrap(console, width)
        yield from Text(note, style="dim").wrap(console, width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, options.max_width), options.max_width)


def _fit(block: Block, width: int) -> tuple[int, int]:
    """Terminal columns of a panel, and how many panels stand side by side: all heads if they are not too narrow."""
    tokens = len(block.source)
    room = min((width + BETWEEN) // len(block.heads) - BETWEEN, tokens * CELL, MOST_COLUMNS)
    if room < min(tokens, FEWEST_COLUMNS):
        room = min(tokens, FEWEST_COLUMNS, width)
    slot = max(room, len(f"{block.layers[-1]}.{block.heads[-1]}")) + BETWEEN
    return room, max((width + BETWEEN) // slot, 1)


def _pool(weights_TS: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The largest weight in each part of so many rows and columns; the last parts may be smaller."""
    tall_TS = np.maximum.reduceat(weights_TS, np.arange(0, weights_TS.shape[0], rows), axis=0)
    return np.maximum.reduceat(tall_TS, np.arange(0, weights_TS.shape[1], columns), axis=1)


def _strip(captions: list[str], maps: list[np.ndarray], wide: int, colored: bool, ascii_only: bool) -> Iterator[Text]:
    """Maps side by side, each under its caption and as wide as the wider of the two."""
    slot = max(maps[0].shape[1] * wide, *map(len, captions)) + BETWEEN
    yield Text("".join(caption.ljust(slot) for caption in captions).rstrip(), style="dim")
    for row in range(maps[0].shape[0]):
        line = Text()
        for shares_TS in maps:
            for share in shares_TS[row]:
                line.append_text(_cell(float(share), colored, ascii_only)[:wide])
            line.append(" " * (slot - shares_TS.shape[1] * wide))
        line.rstrip()
        yield line
