"""Attention maps: where the model looked as it wrote each token.

Source on top, target on the left, one cell for each weight, white for none to deep blue for the largest weight of
the map (Bahdanau et al. 2015, figure 3). `terminal` shows one in a terminal, `draw` writes it as SVG, PNG or PDF.

Known limits: a terminal that reorders right-to-left text may move the cells of a line whose label is Arabic or
Hebrew. PNG and PDF show boxes for characters no installed font has (emoji nearly always): SVG leaves the choice of
font to the program that shows it. Before matplotlib 3.11, Arabic and Indic letters are not joined in PNG and PDF.
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
from rich.style import Style
from rich.text import Text

from weft.errors import DataError
from weft.views.labels import shorten, visible
from weft.views.picture import inches, picture_format, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

SHADES = ("· ", "░░", "▒▒", "▓▓", "██")
ASCII_SHADES = (". ", "--", "++", "xx", "##")
SHADE_STEPS = (0.1, 0.3, 0.5, 0.75)
"""From which share of the largest weight on each further shade is used."""
BLUES = ((255, 255, 255), (222, 235, 247), (158, 202, 225), (66, 146, 198), (8, 81, 156), (8, 48, 107))
"""The colors at equal steps from no weight to the largest, after ColorBrewer's Blues."""
CELL = 2
"""Terminal columns of one cell: about a square."""
LONGEST_LABEL = 28
SLANT = 50
"""Degrees by which the source labels of a picture rise."""


def terminal(
    weights_TS: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    *,
    width: int | None = None,
    title: str | None = None,
) -> TerminalMap:
    """The map for rich's `print`: colored where there are colors, in shades ``·░▒▓█`` where there are none.

    A map wider than `width` (by default the terminal) is cut into bands of source tokens, one below the other.
    """
    weights_TS = _checked(weights_TS, source, target)
    return TerminalMap(weights_TS, [visible(token) for token in source], [visible(t) for t in target], width, title)


@dataclass(frozen=True)
class TerminalMap:
    """What `terminal` gives. It is laid out when printed, since only then the width and the colors are known."""

    weights_TS: np.ndarray
    source: list[str]
    target: list[str]
    width: int | None
    title: str | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colored = console.color_system in ("256", "truecolor") and not console.no_color
        source, target = self.source, self.target
        if options.ascii_only:
            source, target = _ascii(source), _ascii(target)
        width = min(self.width or options.max_width, options.max_width)
        gutter = min(max(map(cell_len, target), default=0), max(width // 4, 4))
        tail = min(max(map(cell_len, source), default=0), max(width // 4, 4))
        in_band = max((width - gutter - 1 - tail) // CELL, 1)
        peak = float(self.weights_TS.max(initial=0.0)) or 1.0
        lines: list[Text] = [Text(visible(self.title).replace("␣", " "), style="bold")] if self.title else []
        for start in range(0, max(len(source), 1), in_band):
            band = slice(start, start + in_band)
            if len(source) > in_band:
                last = min(start + in_band, len(source))
                lines.append(Text(f"source {start + 1} to {last} of {len(source)}", style="dim"))
            lines += _header(source[band], gutter, width, options.ascii_only)
            for label, row_S in zip(target, self.weights_TS[:, band] / peak, strict=True):
                label = shorten(label, gutter)
                line = Text(" " * (gutter - cell_len(label)) + label + " ")
                for share in row_S:
                    line.append_text(_cell(float(share), colored, options.ascii_only))
                lines.append(line)
        lines.append(Text())
        lines.append(_key(peak, gutter, colored, options.ascii_only))
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow="crop")
            yield line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, options.max_width), options.max_width)


def _header(source: Sequence[str], gutter: int, width: int, ascii_only: bool) -> Iterator[Text]:
    """Source labels as stairs, each with a line down to its column: labels stay level, so any script can be read."""
    corner, line = (", ", "| ") if ascii_only else ("┌ ", "│ ")
    for place, label in enumerate(source):
        stem = " " * (gutter + 1) + line * place + corner
        yield Text.assemble((stem, "dim"), shorten(label, max(width - len(stem), 1)))


def _cell(share: float, colored: bool, ascii_only: bool) -> Text:
    if colored:
        red, green, blue = _color(share)
        return Text(" " * CELL, style=Style.parse(f"on rgb({red},{green},{blue})"))
    shades = ASCII_SHADES if ascii_only else SHADES
    return Text(shades[sum(share >= step for step in SHADE_STEPS)])


def _key(peak: float, gutter: int, colored: bool, ascii_only: bool) -> Text:
    """What the shades mean, in weights."""
    key = Text(" " * (gutter + 1))
    if colored:
        key.append("0 ")
        for step in range(9):
            key.append_text(_cell(step / 8, colored, ascii_only))
        return key.append(f" {peak:.2g}")
    shades = ASCII_SHADES if ascii_only else SHADES
    return key.append(
        "  ".join(f"{shade[0]} {step * peak:.2g}+" for shade, step in zip(shades[1:], SHADE_STEPS, strict=True))
    )


def _color(share: float) -> tuple[int, int, int]:
    """The color between two neighbors of BLUES."""
    place = min(max(share, 0.0), 1.0) * (len(BLUES) - 1)
    low = min(int(place), len(BLUES) - 2)
    red, green, blue = (round(a + (b - a) * (place - low)) for a, b in zip(BLUES[low], BLUES[low + 1], strict=True))
    return red, green, blue


def _ascii(labels: Sequence[str]) -> list[str]:
    return [label.encode("ascii", "backslashreplace").decode("ascii") for label in labels]


def draw(
    weights_TS: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    path: str | Path,
    *,
    title: str | None = None,
) -> Path:
    """Write the map as a picture, in the format the path ends in: .svg, .png or .pdf.

    The picture grows with the number of tokens. The same map gives the same bytes.
    """
    path = Path(path)
    suffix = picture_format(path)
    weights_TS = _checked(weights_TS, source, target)
    source_labels = [shorten(visible(token), LONGEST_LABEL) for token in source]
    target_labels = [shorten(visible(token), LONGEST_LABEL) for token in target]
    caption = visible(title).replace("␣", " ").replace("⏎", "\n") if title else ""
    texts = [*source_labels, *target_labels, caption]
    return write_picture(
        path, suffix, texts, lambda families: _figure(weights_TS, source_labels, target_labels, caption, families)
    )


def _figure(weights_TS: np.ndarray, source: list[str], target: list[str], title: str, families: list[str]) -> Figure:
    """The picture, laid out in inches: cells of a fixed size, margins as wide as the labels need."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = weights_TS.shape
    longest = max(rows, columns)
    points = 11 if longest <= 20 else 9 if longest <= 60 else 7
    cell = (2.4 if longest <= 60 else 1.7) * points / 72
    figure = Figure(facecolor="white")
    FigureCanvasAgg(figure)
    text: dict[str, Any] = {"parse_math": False, "usetex": False, "family": families}
    caption = text | {"fontsize": points + 2, "color": "#1f2933"}
    text["fontsize"] = points

    above = [inches(figure, label, text) for label in source]
    slant = math.radians(SLANT)
    left = 0.2 + max(inches(figure, label, text) for label in target)
    top = 0.15 + max(above) * math.sin(slant) + points / 72
    if title:
        top += 1.6 * (points + 2) / 72 * (title.count("\n") + 1)
    grid_width, grid_height = columns * cell, rows * cell
    label_ends = [(place + 0.5) * cell + inches * math.cos(slant) for place, inches in enumerate(above)]
    right = max(0.95, max(label_ends) - grid_width + 0.2)
    bottom = 0.2
    width = max(left + grid_width + right, inches(figure, title, caption) + 0.3 if title else 0)
    height = top + grid_height + bottom
    figure.set_size_inches(width, height)

    def place(x: float, y: float, wide: float, high: float) -> Axes:
        return figure.add_axes((x / width, y / height, wide / width, high / height))

    mesh = _grid(place(left, bottom, grid_width, grid_height), weights_TS, source, target, text)
    bar_height = min(grid_height, 1.6)
    bar = place(left + grid_width + 0.2, bottom + grid_height - bar_height, 0.12, bar_height)
    peak = mesh.get_clim()[1] or 1.0
    figure.colorbar(mesh, cax=bar, ticks=[0, peak / 2, peak], format="%.2g")
    bar.tick_params(length=2, labelsize=points - 2, color="#9aa5b1")
    if title:
        figure.text(0.15 / width, 1 - 0.12 / height, title, ha="left", va="top", **caption)
    return figure


def _grid(axes: Axes, weights_TS: np.ndarray, source: list[str], target: list[str], text: dict[str, Any]) -> QuadMesh:
    """The cells with their labels. Cells are vectors unless there are so many that viewers of SVG and PDF choke."""
    from matplotlib.colors import LinearSegmentedColormap

    rows, columns = weights_TS.shape
    mesh = axes.pcolormesh(
        weights_TS,
        cmap=LinearSegmentedColormap.from_list("weft", [tuple(part / 255 for part in color) for color in BLUES]),
        vmin=0,
        vmax=float(weights_TS.max()) or 1.0,
        edgecolors="#d9dee5",
        linewidth=0.5,
        rasterized=weights_TS.size > 10_000,
    )
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4)
    axes.set_xticks([column + 0.5 for column in range(columns)])
    axes.set_yticks([row + 0.5 for row in range(rows)])
    axes.set_xticklabels(source, rotation=SLANT, rotation_mode="anchor", ha="left", va="center", **text)
    axes.set_yticklabels(target, **text)
    for spine in axes.spines.values():
        spine.set(color="#9aa5b1", linewidth=0.8)
    return mesh


def _checked(weights_TS: np.ndarray, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    weights_TS = np.asarray(weights_TS, dtype=float)
    if weights_TS.shape != (len(target), len(source)):
        shape = " × ".join(map(str, weights_TS.shape))
        raise DataError(f"attention weights are {shape}, expected {len(target)} target × {len(source)} source tokens")
    if not weights_TS.size:
        raise DataError("attention map has no cells; expected at least 1 source and 1 target token")
    if not (np.isfinite(weights_TS).all() and (weights_TS >= 0).all()):
        raise DataError("attention weights are not all finite and at least 0")
    return weights_TS
