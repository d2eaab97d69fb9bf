"""Positions: what a table of position vectors holds, and which positions it makes alike.

A table PE has a row for each position and a column for each dimension: sinusoids (Vaswani et al. 2017, section 3.5) or
learned. Beside the table itself stands its similarity, PE·PEᵀ over the lengths of both rows:
``cos(p, q) = PE_p · PE_q / (|PE_p| |PE_q|)``. The similarity of sinusoids depends on p − q only: stripes along the
diagonal. `draw_positions` writes SVG, PNG or PDF, `terminal_positions` shows one table in the terminal. Tables are
made elsewhere; this only shows them.

Known limits: a table with thousands of positions is drawn with less than a pixel for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.style import Style
from rich.text import Text

from weft.errors import DataError
from weft.views.attention_map import ASCII_SHADES, CELL, SHADE_STEPS, SHADES, _cell
from weft.views.labels import shorten, visible
from weft.views.picture import FAINT, FRAME, INK, LINES, Page, picture_format, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIVERGING = (
    (5, 48, 97),
    (33, 102, 172),
    (67, 147, 195),
    (146, 197, 222),
    (209, 229, 240),
    (247, 247, 247),
    (253, 219, 199),
    (244, 165, 130),
    (214, 96, 77),
    (178, 24, 43),
    (103, 0, 31),
)
"""Blue below 0, nearly white at 0, red above it, after ColorBrewer's RdBu."""
LONGEST_NAME = 40
PANEL = 3.6
"""Inches of a side: the similarity is a square, the table above it at most that high."""
SMALL_TABLE = (12, 8)
"""Positions and dimensions up to which the numbers stand in the cells."""
LEAST_SPAN = 0.1
"""Of cosines, from the lightest shade to the darkest: less than that is no difference worth showing."""


def similarity(table_PD: np.ndarray) -> np.ndarray:
    """The cosine of each position with each: PE·PEᵀ of rows of length 1. A row of zeros is similar to none, 0."""
    table_PD = np.asarray(table_PD, dtype=float)
    lengths_P1 = np.linalg.norm(table_PD, axis=1, keepdims=True)
    rows_PD = np.divide(table_PD, lengths_P1, out=np.zeros_like(table_PD), where=lengths_P1 > 0)
    return np.clip(rows_PD @ rows_PD.T, -1.0, 1.0)


def draw_positions(tables: Mapping[str, np.ndarray], to: str | Path, *, title: str = "") -> Path:
    """Write the tables side by side, each above its similarity, in the format the path ends in: .svg, .png or .pdf.

    Each table has a color scale of its own (learned vectors are far shorter than sinusoids), as wide below 0 as above;
    similarities share one from −1 to 1. The same tables give the same bytes.
    """
    path = Path(to)
    suffix = picture_format(path)
    if not tables:
        raise DataError("no position tables to draw; expected at least 1")
    shown = {
        shorten(visible(name).replace("␣", " "), LONGEST_NAME): _checked(table, name) for name, table in tables.items()
    }
    if len(shown) < len(tables):
        raise DataError(f"names of position tables start alike; expected them to differ in {LONGEST_NAME} characters")
    caption = visible(title).replace("␣", " ").replace("⏎", "\n") if title else ""
    return write_picture(path, suffix, [caption, *shown], lambda families: _figure(shown, caption, families))


def _checked(table_PD: np.ndarray, name: str = "") -> np.ndarray:
    where = f"position table {visible(name).replace('␣', ' ')!r}" if name else "position table"
    table_PD = np.asarray(table_PD, dtype=float)
    if table_PD.ndim != 2:
        shape = " × ".join(map(str, table_PD.shape)) or "a single number"
        raise DataError(f"{where} is {shape}, expected positions × dimensions")
    if not table_PD.size:
        raise DataError(f"{where} has no cells; expected at least 1 position and 1 dimension")
    if not np.isfinite(table_PD).all():
        raise DataError(f"{where} is not all finite numbers")
    return table_PD


def _figure(tables: Mapping[str, np.ndarray], title: str, families: list[str]) -> Figure:
    """The picture: a column for each table, the table above, the similarity below."""
    page = Page.blank(families)
    caption, name_style, note = page.style(13, INK), page.style(11, INK, weight="bold"), page.style(9, FAINT)
    left, bar, gap = 0.7, 0.7, 0.15
    column = left + PANEL + bar
    highest = max(_height(table_PD) for table_PD in tables.values())
    top = 0.15 + (0.1 + 1.35 * 13 / 72 * (title.count("\n") + 1) if title else 0.0)
    names = page.inches(tables, name_style)
    step = max(column, names + left + 0.2) + gap
    width = max(len(tables) * step - gap + 0.1, 0.4 + page.inches([title], caption))
    below = top + 0.55 + highest + 0.95
    page.figure.set_size_inches(width, below + PANEL + 0.6)
    page.write(0.2, 0.15, title, caption)
    for place, (name, table_PD) in enumerate(tables.items()):
        x = place * step
        page.write(x + left, top, name, name_style)
        page.write(x + left, top + 0.25, "positions: {}, dimensions: {}".format(*table_PD.shape), note)
        height = _height(table_PD)
        peak = float(np.abs(table_PD).max()) or 1.0
        axes = page.axes(x + left, top + 0.55, PANEL, height)
        _heat(page, axes, table_PD, peak, ("dimension", "position"), digits=4)
        _bar(page, axes, (x + left + PANEL + 0.12, top + 0.55, 0.12, min(height, 1.6)), peak)
        page.write(x + left, below - 0.22, "similarity (cosine) of positions", note)
        axes = page.axes(x + left, below, PANEL, PANEL)
        _heat(page, axes, similarity(table_PD), 1.0, ("position", "position"), digits=2)
        _bar(page, axes, (x + left + PANEL + 0.12, below, 0.12, 1.6), 1.0)
    return page.figure


def _height(table_PD: np.ndarray) -> float:
    """Inches: square cells where that is neither a mere line nor higher than wide."""
    rows, columns = table_PD.shape
    return float(min(max(PANEL * rows / columns, 1.2), PANEL))


def _heat(page: Page, axes: Axes, values: np.ndarray, peak: float, names: tuple[str, str], *, digits: int) -> None:
    """Values from −peak to peak as colors, and as numbers where there are few."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    colors = [tuple(part / 255 for part in color) for color in DIVERGING]
    axes.imshow(
        values,
        cmap=LinearSegmentedColormap.from_list("weft", colors),
        vmin=-peak,
        vmax=peak,
        aspect="auto",
        interpolation="nearest" if max(values.shape) <= 400 else "auto",
    )
    rows, columns = values.shape
    for axis, name in ((axes.xaxis, names[0]), (axes.yaxis, names[1])):
        axis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
        axis.set_label_text(name, **page.style(9, FAINT))
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.tick_params(length=2.5, pad=2, labelsize=8, color=FRAME, labelcolor=INK)
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.6)
    if rows <= SMALL_TABLE[0] and columns <= SMALL_TABLE[1]:
        for row, column in np.ndindex(rows, columns):
            value = float(values[row, column])
            ink = page.style(8, "white" if abs(value) > 0.6 * peak else INK)
            axes.text(column, row, _number(value, digits), ha="center", va="center", **ink)


def _bar(page: Page, axes: Axes, place: tuple[float, float, float, float], peak: float) -> None:
    bar = page.axes(*place)
    page.figure.colorbar(axes.images[0], cax=bar, ticks=[-peak, 0, peak], format=lambda tick, _: f"{tick:.3g}")
    bar.tick_params(length=2, labelsize=8, color=FRAME, labelcolor=FAINT)
    bar.spines["outline"].set(color=LINES, linewidth=0.6)


def _number(value: float, digits: int) -> str:
    """So many decimals, and no −0.0000."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def terminal_positions(
    table_PD: np.ndarray, *, positions: int = 12, width: int | None = None, title: str | None = None
) -> TerminalPositions:
    """The first positions for rich's `print`: as numbers, as many dimensions as fit, then how similar they are."""
    if positions < 1:
        raise DataError(f"{positions} positions to show; expected at least 1")
    return TerminalPositions(_checked(table_PD), positions, width, title)


@dataclass(frozen=True)
class TerminalPositions:
    """What `terminal_positions` gives. It is laid out when printed, since only then width and colors are known."""

    table_PD: np.ndarray
    positions: int
    width: int | None
    title: str | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colored = console.color_system in ("256", "truecolor") and not console.no_color
        width = min(self.width or options.max_width, options.max_width)
        if self.title:
            yield from Text(visible(self.title).replace("␣", " "), style="bold").wrap(console, width)
        for line in _numbers(self.table_PD, self.positions, width):
            yield from line.wrap(console, width)
        yield Text()
        for line in _map(self.table_PD, self.positions, width, colored, options.ascii_only):
            yield from line.wrap(console, width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, options.max_width), options.max_width)


def _numbers(table_PD: np.ndarray, positions: int, width: int) -> Iterator[Text]:
    """The first rows with four decimals, and which part of the table that is."""
    height, dimensions = table_PD.shape
    rows = min(positions, height)
    numbers = [[_number(float(value), 4) for value in row] for row in table_PD[:rows]]
    wide = 2 + max(len("-0.1234"), *(len(number) for row in numbers for number in row))
    gutter = max(len("pos"), len(str(rows - 1)))
    columns = min(max((width - gutter) // wide, 1), dimensions)
    parts = [
        f"{name}: {shown}" if shown == count else f"{name}: first {shown} of {count}"
        for name, shown, count in (("positions", rows, height), ("dimensions", columns, dimensions))
    ]
    yield Text(", ".join(parts), style="dim")
    yield Text("pos".rjust(gutter) + "".join(f"{column:>{wide}}" for column in range(columns)), style="dim")
    for row, values in enumerate(numbers):
        shown = "".join(f"{number:>{wide}}" for number in values[:columns])
        yield Text.assemble((f"{row:>{gutter}}", "dim"), shown)


def _map(table_PD: np.ndarray, positions: int, width: int, colored: bool, ascii_only: bool) -> Iterator[Text]:
    """The similarity, two terminal columns a cell, or one if only that fits, and what its shades mean.

    Colors go from −1 to 1. Five shades are too few for that: they share what lies between the lowest cosine and the
    highest.
    """
    rows = min(positions, table_PD.shape[0])
    gutter = len(str(rows - 1)) + 1
    wide = CELL if gutter + rows * CELL <= width else 1
    rows = min(rows, max(width - gutter, 1))
    cosines_PP = similarity(table_PD[:rows])
    high = float(cosines_PP.max())
    low = min(float(cosines_PP.min()), high - LEAST_SPAN)
    yield Text(f"similarity (cosine) of positions 0 to {rows - 1}", style="dim")
    for row, cosines_P in enumerate(cosines_PP):
        line = Text.assemble((f"{row:>{gutter - 1}} ", "dim"))
        for cosine in cosines_P:
            share = float(cosine) if colored else float(cosine - low) / (high - low)
            line.append_text((_paint(share) if colored else _cell(share, colored, ascii_only))[:wide])
        yield line
    if colored:
        yield Text.assemble("-1 ", *(_paint(step / 4) for step in range(-4, 5)), " 1")
        return
    shades = ASCII_SHADES if ascii_only else SHADES
    steps = [low, *(low + step * (high - low) for step in SHADE_STEPS)]
    yield Text("  ".join(f"{shade[0]} {_number(step, 2)}+" for shade, step in zip(shades, steps, strict=True)))


def _paint(cosine: float) -> Text:
    """A cell in the color of a value from −1 to 1, between two neighbors of DIVERGING."""
    steps = np.linspace(-1, 1, len(DIVERGING))
    red, green, blue = (round(float(np.interp(cosine, steps, part))) for part in zip(*DIVERGING, strict=True))
    return Text(" " * CELL, style=Style.parse(f"on rgb({red},{green},{blue})"))
