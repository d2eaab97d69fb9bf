"""Attention heads: the maps of all layers and heads on one page.

One row of panels per layer, one column per head, one grid per kind of attention; in each panel the rows are the
queries and the columns the keys (Vaswani et al. 2017, figures 3 to 5). All panels share one color scale, so that a
sharp head and a uniform one can be told apart. `draw_heads` writes SVG, PNG or PDF, `terminal_heads` gives an overview
for the terminal. A single map with all its labels is drawn by `attention_map`.

Known limits: those of `attention_map`; and the maps of one kind must have the same tokens, since they share labels.
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
from weft.pictures.attention_map import check_weights, weight_mesh
from weft.pictures.labels import caption, one_line, shorten, visible
from weft.pictures.picture import FAINT, FRAME, INK, LINES, POINTS_PER_INCH, Page, title_height, write_picture
from weft.pictures.terminal import CELL, Shading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

    from weft.translation.results import HeadAttention

HEADINGS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
PAGE = 15.0
"""Inches that the panels of one layer share, if that leaves each of a legible size."""
SMALLEST_SIDE, LARGEST_SIDE = 1.35, 4.0
"""Inches of the longer side of a panel."""
LARGEST_CELL = 0.32
MARGIN, SCALE, HEADING, NUMBER, GAP = 0.15, 0.5, 0.3, 0.2, 0.1
"""Inches above the title, of the scale, of a grid's heading, of a panel's number and below a panel."""
THINNEST = 0.4
"""Inches below which a short side is stretched: 3 target tokens against 60 of the source would be a mere line."""
SMALLEST_LABEL, LARGEST_LABEL = 5.5, 10.0
"""Points. If even the smallest labels would touch, only every second, third, … token is labeled."""
LONGEST_LABEL = 18
MAX_VECTOR_CELLS = 20_000
"""Total cells drawn as vectors; more are drawn as pixels, since viewers of SVG and PDF become slow."""
MIN_COLUMNS, MAX_COLUMNS = 8, 24
"""Terminal columns of a panel: fewer only if the map is smaller, even if a layer then takes more lines."""
MAX_LINES = 12
SPACING = 2


class HeadGrid(NamedTuple):
    """The maps of one kind, by layer and head."""

    heading: str
    layers: list[int]
    heads: list[int]
    weights: dict[tuple[int, int], np.ndarray]
    source: list[str]
    target: list[str]


def draw_heads(maps: Sequence[HeadAttention], to: str | Path, *, title: str = "") -> Path:
    """Write the maps as one picture, in the format of the path's suffix: .svg, .png or .pdf.

    The same maps give the same bytes.
    """
    grids = [
        grid._replace(
            source=[shorten(label, LONGEST_LABEL) for label in grid.source],
            target=[shorten(label, LONGEST_LABEL) for label in grid.target],
        )
        for grid in _grids(maps)
    ]
    heading = caption(title)
    texts = [heading, *(text for grid in grids for text in (grid.heading, *grid.source, *grid.target))]
    return write_picture(to, texts, lambda families: _figure(grids, heading, families))


def _grids(maps: Sequence[HeadAttention]) -> list[HeadGrid]:
    """The maps by kind, their labels made visible; an error for maps that cannot share a page."""
    if not maps:
        raise DataError("no attention maps to draw; expected at least 1")
    first: dict[str, HeadAttention] = {}
    weights: dict[str, dict[tuple[int, int], np.ndarray]] = {}
    for head_map in maps:
        where = f"{one_line(head_map.kind)} layer {head_map.layer} head {head_map.head}"
        if head_map.layer < 1 or head_map.head < 1:
            raise DataError(f"{where}: layers and heads are counted from 1")
        try:
            weights_TS = check_weights(head_map.weights_TS, head_map.source, head_map.target)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        reference = first.setdefault(head_map.kind, head_map)
        if (list(head_map.source), list(head_map.target)) != (list(reference.source), list(reference.target)):
            raise DataError(
                f"{where}: its tokens are not those of layer {reference.layer} head {reference.head}; "
                "maps of one kind share their labels"
            )
        if (head_map.layer, head_map.head) in weights.setdefault(head_map.kind, {}):
            raise DataError(f"{where}: given twice; expected one map for each head")
        weights[head_map.kind][head_map.layer, head_map.head] = weights_TS
    return [
        HeadGrid(
            HEADINGS.get(kind, f"{one_line(kind)} attention"),
            sorted({layer for layer, _ in weights[kind]}),
            sorted({head for _, head in weights[kind]}),
            weights[kind],
            [visible(token) for token in reference.source],
            [visible(token) for token in reference.target],
        )
        for kind, reference in first.items()
    ]


def _peak(grids: Sequence[HeadGrid]) -> float:
    return max(float(weights_TS.max()) for grid in grids for weights_TS in grid.weights.values()) or 1.0


class GridLayout(NamedTuple):
    """The sizes of a grid on the page, in inches: a panel, and the labels below the last layer."""

    grid: HeadGrid
    width: float
    height: float
    below: float

    @property
    def pitch(self) -> tuple[float, float]:
        """Width and height of a cell."""
        return self.width / len(self.grid.source), self.height / len(self.grid.target)

    @property
    def total_height(self) -> float:
        return HEADING + len(self.grid.layers) * (NUMBER + self.height + GAP) + self.below


def _layouts(page: Page, grids: list[HeadGrid]) -> tuple[list[GridLayout], dict[str, Any]]:
    """The size of each grid, and the style of labels as large as the smallest cells allow."""
    across = max(len(grid.heads) for grid in grids)
    longest = max(max(len(grid.source), len(grid.target)) for grid in grids)
    cell = min(min(max(PAGE / across, SMALLEST_SIDE), LARGEST_SIDE) / longest, LARGEST_CELL)
    layouts = [
        GridLayout(grid, max(len(grid.source) * cell, THINNEST), max(len(grid.target) * cell, THINNEST), 0.0)
        for grid in grids
    ]
    pitch = min(min(layout.pitch) for layout in layouts)
    label = page.style(min(max(pitch * POINTS_PER_INCH * 0.8, SMALLEST_LABEL), LARGEST_LABEL), INK)
    return [layout._replace(below=0.12 + page.width_of(layout.grid.source, label)) for layout in layouts], label


def _figure(grids: list[HeadGrid], title: str, families: list[str]) -> Figure:
    """The picture: title, scale, then a grid of panels for each kind."""
    page = Page.blank(families)
    layouts, label = _layouts(page, grids)
    pitch = min(min(layout.pitch) for layout in layouts)
    left = 0.3 + max(page.width_of(grid.target, label) for grid in grids)
    numbers = [f"layer {layer} · head {head}" for grid in grids for layer, head in grid.weights]
    slot = 0.18 + max(page.width_of(numbers, page.style(8, FAINT)), *(layout.width for layout in layouts))

    note = "attention weight, one scale for all panels; rows attend to columns"
    stride = _label_stride(pitch, label)
    if stride > 1:
        note += f"; at least 1 token in {stride} is labeled"
    top = MARGIN + title_height(title)
    width = max(
        left + max(len(grid.heads) for grid in grids) * slot + 0.1,
        0.4 + page.width_of([title], page.title_style),
        2.3 + page.width_of([note], page.note_style),
        left + 0.2 + page.width_of([grid.heading for grid in grids], page.style(11, INK, weight="bold")),
    )
    page.figure.set_size_inches(width, top + SCALE + sum(layout.total_height for layout in layouts) + 0.1)
    page.write(0.2, MARGIN, title, page.title_style)
    page.write(2.1, top + 0.02, note, page.note_style)
    bar = page.axes(0.25, top + 0.04, 1.6, 0.12)
    top += SCALE
    peak = _peak(grids)
    vectors = sum(weights_TS.size for grid in grids for weights_TS in grid.weights.values()) <= MAX_VECTOR_CELLS
    draw = partial(_draw_cells, peak=peak, lines=pitch >= 0.07, vectors=vectors)
    for layout in layouts:
        mesh = _draw_grid(page, layout, (left, top), slot, label, draw)
        top += layout.total_height
    page.figure.colorbar(mesh, cax=bar, orientation="horizontal", ticks=[0, peak / 2, peak], format="%.2g")
    bar.tick_params(length=2, labelsize=8, color=FRAME, labelcolor=FAINT)
    bar.spines["outline"].set(color=FRAME, linewidth=0.6)
    return page.figure


def _draw_grid(
    page: Page,
    layout: GridLayout,
    corner: tuple[float, float],
    slot: float,
    label: dict[str, Any],
    draw: Callable[[Axes, np.ndarray], QuadMesh],
) -> QuadMesh:
    """One grid: layers downwards, heads across, labels at its left and bottom edges."""
    grid, (left, top) = layout.grid, corner
    across, down = (_label_stride(pitch, label) for pitch in layout.pitch)
    page.write(left, top + 0.03, grid.heading, page.style(11, INK, weight="bold"))
    for row, layer in enumerate(grid.layers):
        y = top + HEADING + NUMBER + row * (NUMBER + layout.height + GAP)
        for column, head in enumerate(grid.heads):
            if (layer, head) not in grid.weights:
                continue
            axes = page.axes(left + column * slot, y, layout.width, layout.height)
            mesh = draw(axes, grid.weights[layer, head])
            axes.set_title(f"layer {layer} · head {head}", loc="left", pad=3, **page.style(8, FAINT))
            if not any((layer, previous) in grid.weights for previous in grid.heads[:column]):
                axes.set_yticks([index + 0.5 for index in range(0, len(grid.target), down)])
                axes.set_yticklabels(grid.target[::down], **label)
            if not any((following, head) in grid.weights for following in grid.layers[row + 1 :]):
                axes.set_xticks([index + 0.5 for index in range(0, len(grid.source), across)])
                axes.set_xticklabels(grid.source[::across], rotation=90, **label)
    return mesh


def _label_stride(pitch: float, label: dict[str, Any]) -> int:
    """One token in this many is labeled, so that lines of text do not touch."""
    return max(math.ceil(label["fontsize"] * 1.1 / POINTS_PER_INCH / pitch - 1e-6), 1)


def _draw_cells(axes: Axes, weights_TS: np.ndarray, peak: float, *, lines: bool, vectors: bool) -> QuadMesh:
    mesh = weight_mesh(
        axes,
        weights_TS,
        peak,
        edgecolors=LINES if lines else "face" if vectors else "none",
        linewidth=0.3 if lines else 0.1,
        rasterized=not vectors,
    )
    axes.tick_params(length=0, pad=2.5)
    axes.set_xticks([])
    axes.set_yticks([])
    return mesh


def terminal_heads(
    maps: Sequence[HeadAttention], *, width: int | None = None, title: str | None = None
) -> TerminalHeads:
    """All maps, small and without labels, for rich's `print`; the caption of layer 2, head 3 is ``2.3``.

    Maps that are too large are pooled: a character then shows the largest of the weights it covers.
    """
    return TerminalHeads(_grids(maps), width, title)


@dataclass(frozen=True)
class TerminalHeads:
    """Maps to print. Their layout is made when they are printed, when the width and the colors are known."""

    grids: list[HeadGrid]
    width: int | None
    title: str | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shading = Shading.of(console, options)
        width = min(self.width or options.max_width, options.max_width)
        peak = _peak(self.grids)
        lines = [Text(one_line(self.title), style="bold")] if self.title else []
        largest_pool = (1, 1)
        for grid in self.grids:
            columns, beside = _fit(grid, width)
            pool = -(-len(grid.target) // MAX_LINES), -(-len(grid.source) // columns)
            largest_pool = max(largest_pool[0], pool[0]), max(largest_pool[1], pool[1])
            cell_width = CELL if len(grid.source) * CELL <= columns else 1
            lines.append(Text(grid.heading, style="bold"))
            for layer in grid.layers:
                heads = [head for head in grid.heads if (layer, head) in grid.weights]
                for start in range(0, len(heads), beside):
                    row = heads[start : start + beside]
                    maps = {f"{layer}.{head}": _pool(grid.weights[layer, head], *pool) / peak for head in row}
                    lines += [*_side_by_side(maps, cell_width, shading), Text()]
        note = "layer.head; rows attend to columns"
        if largest_pool != (1, 1):
            note += "; a character covers up to {} by {} weights and shows the largest".format(*largest_pool)
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow="crop")
            yield line
        yield from shading.key(peak).wrap(console, width)
        yield from Text(note, style="dim").wrap(console, width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, options.max_width), options.max_width)


def _fit(grid: HeadGrid, width: int) -> tuple[int, int]:
    """Terminal columns of a panel, and the number of panels side by side: all heads if they are not too narrow."""
    tokens = len(grid.source)
    columns = min((width + SPACING) // len(grid.heads) - SPACING, tokens * CELL, MAX_COLUMNS)
    if columns < min(tokens, MIN_COLUMNS):
        columns = min(tokens, MIN_COLUMNS, width)
    slot = max(columns, len(f"{grid.layers[-1]}.{grid.heads[-1]}")) + SPACING
    return columns, max((width + SPACING) // slot, 1)


def _pool(weights_TS: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The largest weight of every ``rows`` × ``columns`` cells; the last pools may be smaller."""
    pooled_TS = np.maximum.reduceat(weights_TS, np.arange(0, weights_TS.shape[0], rows), axis=0)
    return np.maximum.reduceat(pooled_TS, np.arange(0, weights_TS.shape[1], columns), axis=1)


def _side_by_side(maps: dict[str, np.ndarray], cell_width: int, shading: Shading) -> Iterator[Text]:
    """Maps next to each other, each under its caption and as wide as the wider of the two."""
    first_TS = next(iter(maps.values()))
    slot = max(first_TS.shape[1] * cell_width, *map(len, maps)) + SPACING
    yield Text("".join(name.ljust(slot) for name in maps).rstrip(), style="dim")
    for row in range(first_TS.shape[0]):
        line = Text()
        for values_TS in maps.values():
            for value in values_TS[row]:
                line.append_text(shading.cell(float(value))[:cell_width])
            line.append(" " * (slot - values_TS.shape[1] * cell_width))
        line.rstrip()
        yield line
