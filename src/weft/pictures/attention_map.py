"""Attention maps: the attention weights of each target token over the source tokens.

Source on top, target on the left, one cell per weight, from white for 0 to deep blue for the largest weight of the
map (Bahdanau et al. 2015, figure 3). `terminal_map` shows it in a terminal, `draw_map` writes it as SVG, PNG or PDF.

Known limits: a terminal that reorders right-to-left text may move the cells of a line whose label is Arabic or
Hebrew. PNG and PDF show boxes for characters that no installed font has (emoji nearly always): SVG leaves the choice
of font to the program that shows it. Before matplotlib 3.11, Arabic and Indic letters are not joined in PNG and PDF.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from weft.errors import DataError
from weft.pictures.labels import caption, one_line, shorten, visible
from weft.pictures.picture import FRAME, INK, LINES, POINTS_PER_INCH, Page, colormap, write_picture
from weft.pictures.terminal import BLUES, CELL, Shading, ascii_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

LONGEST_LABEL = 28
SLANT = 50
"""Degrees by which the source labels of a picture rise."""
MAX_VECTOR_CELLS = 10_000
"""More cells are drawn as pixels: viewers of SVG and PDF become slow."""


def terminal_map(
    weights_TS: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    *,
    width: int | None = None,
    title: str | None = None,
) -> TerminalMap:
    """The map for rich's `print`: in colors if the terminal has them, else in the shades ``·░▒▓█``.

    A map wider than `width` (by default the terminal) is split into bands of source tokens, one below the other.
    """
    weights_TS = check_weights(weights_TS, source, target)
    return TerminalMap(weights_TS, [visible(token) for token in source], [visible(t) for t in target], width, title)


@dataclass(frozen=True)
class TerminalMap:
    """A map to print. Its layout is made when it is printed, when the width and the colors are known."""

    weights_TS: np.ndarray
    source: list[str]
    target: list[str]
    width: int | None
    title: str | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shading = Shading.of(console, options)
        source, target = self.source, self.target
        if options.ascii_only:
            source, target = [ascii_text(label) for label in source], [ascii_text(label) for label in target]
        width = min(self.width or options.max_width, options.max_width)
        gutter = min(max(map(cell_len, target), default=0), max(width // 4, 4))
        tail = min(max(map(cell_len, source), default=0), max(width // 4, 4))
        band_size = max((width - gutter - 1 - tail) // CELL, 1)
        peak = float(self.weights_TS.max(initial=0.0)) or 1.0
        lines: list[Text] = [Text(one_line(self.title), style="bold")] if self.title else []
        for start in range(0, max(len(source), 1), band_size):
            band = slice(start, start + band_size)
            if len(source) > band_size:
                last = min(start + band_size, len(source))
                lines.append(Text(f"source {start + 1} to {last} of {len(source)}", style="dim"))
            lines += _header(source[band], gutter, width, options.ascii_only)
            for label, row_S in zip(target, self.weights_TS[:, band] / peak, strict=True):
                label = shorten(label, gutter)
                cells = (shading.cell(float(value)) for value in row_S)
                lines.append(Text.assemble(" " * (gutter - cell_len(label)) + label + " ", *cells))
        lines += [Text(), Text.assemble(" " * (gutter + 1), shading.key(peak))]
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow="crop")
            yield line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, options.max_width), options.max_width)


def _header(source: Sequence[str], gutter: int, width: int, ascii_only: bool) -> Iterator[Text]:
    """Source labels as stairs, each with a line down to its column: horizontal labels, so any script is legible."""
    corner, line = (", ", "| ") if ascii_only else ("┌ ", "│ ")
    for column, label in enumerate(source):
        stem = " " * (gutter + 1) + line * column + corner
        yield Text.assemble((stem, "dim"), shorten(label, max(width - len(stem), 1)))


def draw_map(
    weights_TS: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    to: str | Path,
    *,
    title: str | None = None,
) -> Path:
    """Write the map as a picture, in the format of the path's suffix: .svg, .png or .pdf.

    The picture grows with the number of tokens. The same map gives the same bytes.
    """
    weights_TS = check_weights(weights_TS, source, target)
    source_labels = [shorten(visible(token), LONGEST_LABEL) for token in source]
    target_labels = [shorten(visible(token), LONGEST_LABEL) for token in target]
    heading = caption(title)
    texts = [*source_labels, *target_labels, heading]
    return write_picture(
        to, texts, lambda families: _figure(weights_TS, source_labels, target_labels, heading, families)
    )


def _figure(weights_TS: np.ndarray, source: list[str], target: list[str], title: str, families: list[str]) -> Figure:
    """The picture, in inches: cells of a fixed size, margins as wide as the labels need."""
    rows, columns = weights_TS.shape
    longest = max(rows, columns)
    points = 11 if longest <= 20 else 9 if longest <= 60 else 7
    cell = (2.4 if longest <= 60 else 1.7) * points / POINTS_PER_INCH
    page = Page.blank(families)
    text, title_style = page.text | {"fontsize": points}, page.style(points + 2, INK)

    slant = math.radians(SLANT)
    source_widths = [page.width_of([label], text) for label in source]
    left = 0.2 + page.width_of(target, text)
    top = 0.15 + max(source_widths) * math.sin(slant) + points / POINTS_PER_INCH
    if title:
        top += 1.6 * (points + 2) / POINTS_PER_INCH * (title.count("\n") + 1)
    grid_width, grid_height = columns * cell, rows * cell
    label_ends = [(column + 0.5) * cell + width * math.cos(slant) for column, width in enumerate(source_widths)]
    right = max(0.95, max(label_ends) - grid_width + 0.2)
    width = max(left + grid_width + right, page.width_of([title], title_style) + 0.3 if title else 0)
    page.figure.set_size_inches(width, top + grid_height + 0.2)

    axes = page.axes(left, top, grid_width, grid_height)
    peak = float(weights_TS.max()) or 1.0
    mesh = weight_mesh(
        axes, weights_TS, peak, edgecolors=LINES, linewidth=0.5, rasterized=weights_TS.size > MAX_VECTOR_CELLS
    )
    _label(axes, source, target, text)
    bar = page.axes(left + grid_width + 0.2, top, 0.12, min(grid_height, 1.6))
    page.figure.colorbar(mesh, cax=bar, ticks=[0, peak / 2, peak], format="%.2g")
    bar.tick_params(length=2, labelsize=points - 2, color=FRAME)
    if title:
        page.write(0.15, 0.12, title, title_style)
    return page.figure


def weight_mesh(axes: Axes, weights_TS: np.ndarray, peak: float, **look: Any) -> QuadMesh:
    """The weights as colored cells, the first target token on top, on a scale from 0 to ``peak``."""
    mesh = axes.pcolormesh(weights_TS, cmap=colormap(BLUES), vmin=0, vmax=peak, **look)
    axes.invert_yaxis()
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.8)
    return mesh


def _label(axes: Axes, source: list[str], target: list[str], text: dict[str, Any]) -> None:
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4)
    axes.set_xticks([column + 0.5 for column in range(len(source))])
    axes.set_yticks([row + 0.5 for row in range(len(target))])
    axes.set_xticklabels(source, rotation=SLANT, rotation_mode="anchor", ha="left", va="center", **text)
    axes.set_yticklabels(target, **text)


def check_weights(weights_TS: np.ndarray, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """The weights as an array, if their shape is that of the labels and all are finite and at least 0."""
    weights_TS = np.asarray(weights_TS, dtype=float)
    if weights_TS.shape != (len(target), len(source)):
        shape = " × ".join(map(str, weights_TS.shape))
        raise DataError(f"attention weights are {shape}, expected {len(target)} target × {len(source)} source tokens")
    if not weights_TS.size:
        raise DataError("attention map has no cells; expected at least 1 source and 1 target token")
    if not (np.isfinite(weights_TS).all() and (weights_TS >= 0).all()):
        raise DataError("attention weights are not all finite and at least 0")
    return weights_TS
