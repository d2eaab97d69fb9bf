"""Position tables: the vector of each position, and how similar the vectors of two positions are.

A table PE has a row for each position and a column for each dimension: sinusoids (Vaswani et al. 2017, section 3.5) or
learned. Below the table its similarity is shown, PE·PEᵀ divided by the norms of both rows:
``cos(p, q) = PE_p · PE_q / (|PE_p| |PE_q|)``. The similarity of sinusoids depends on p − q only: stripes along the
diagonal. With ``products`` the dot products PE·PEᵀ themselves are shown, as numbers. `draw_positions` writes SVG, PNG
or PDF, `terminal_positions` shows one table in the terminal.

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
from rich.text import Text

from weft.errors import DataError
from weft.pictures.labels import caption, one_line, shorten
from weft.pictures.picture import FAINT, FRAME, INK, LINES, Page, colormap, title_height, write_picture
from weft.pictures.terminal import CELL, SHADE_STEPS, Color, Shading, color_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIVERGING: tuple[Color, ...] = (
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
"""Inches of a side: the similarity is a square, the table above it at most as high."""
SMALL_TABLE = (12, 8)
"""Positions and dimensions up to which the numbers are written into the cells."""
PRODUCTS = "dot products of positions: PE·PEᵀ"
LEAST_SPAN = 0.1
"""The smallest range of cosines from the lightest shade to the darkest; smaller differences look uniform."""


def similarity(table_PD: np.ndarray) -> np.ndarray:
    """The cosine of every two positions: PE·PEᵀ of normalized rows. A row of zeros has similarity 0 to all."""
    table_PD = np.asarray(table_PD, dtype=float)
    norms_P1 = np.linalg.norm(table_PD, axis=1, keepdims=True)
    rows_PD = np.divide(table_PD, norms_P1, out=np.zeros_like(table_PD), where=norms_P1 > 0)
    return np.clip(rows_PD @ rows_PD.T, -1.0, 1.0)


def draw_positions(
    tables: Mapping[str, np.ndarray], to: str | Path, *, title: str = "", products: bool = False
) -> Path:
    """Write the tables side by side, each above its similarity, in the format of the path's suffix: .svg, .png or .pdf.

    Each table has its own color scale (learned vectors are far shorter than sinusoids), symmetric around 0;
    similarities share one from −1 to 1. ``products``: dot products in place of cosines, each with its own scale. The
    same tables give the same bytes.
    """
    if not tables:
        raise DataError("no position tables to draw; expected at least 1")
    checked = {shorten(one_line(name), LONGEST_NAME): _checked(table, name) for name, table in tables.items()}
    if len(checked) < len(tables):
        raise DataError(
            f"position tables with the same name; expected names that differ in their first {LONGEST_NAME} characters"
        )
    heading = caption(title)
    return write_picture(to, [heading, *checked], lambda families: _figure(checked, heading, families, products))


def _checked(table_PD: np.ndarray, name: str = "") -> np.ndarray:
    where = f"position table {one_line(name)!r}" if name else "position table"
    table_PD = np.asarray(table_PD, dtype=float)
    if table_PD.ndim != 2:
        shape = " × ".join(map(str, table_PD.shape)) or "a single number"
        raise DataError(f"{where} is {shape}, expected positions × dimensions")
    if not table_PD.size:
        raise DataError(f"{where} has no cells; expected at least 1 position and 1 dimension")
    if not np.isfinite(table_PD).all():
        raise DataError(f"{where} is not all finite numbers")
    return table_PD


def _figure(tables: Mapping[str, np.ndarray], title: str, families: list[str], products: bool = False) -> Figure:
    """The picture: a column for each table, the table above, the similarity below."""
    page = Page.blank(families)
    name_style, note = page.style(11, INK, weight="bold"), page.note_style
    left, bar, gap = 0.7, 0.7, 0.15
    column = left + PANEL + bar
    highest = max(_height(table_PD) for table_PD in tables.values())
    top = 0.15 + title_height(title)
    names = page.width_of(tables, name_style)
    step = max(column, names + left + 0.2) + gap
    width = max(len(tables) * step - gap + 0.1, 0.4 + page.width_of([title], page.title_style))
    below = top + 0.55 + highest + 0.95
    page.figure.set_size_inches(width, below + PANEL + 0.6)
    page.write(0.2, 0.15, title, page.title_style)
    for index, (name, table_PD) in enumerate(tables.items()):
        x = index * step
        page.write(x + left, top, name, name_style)
        page.write(x + left, top + 0.25, "positions: {}, dimensions: {}".format(*table_PD.shape), note)
        height = _height(table_PD)
        peak = float(np.abs(table_PD).max()) or 1.0
        axes = page.axes(x + left, top + 0.55, PANEL, height)
        _heat(page, axes, table_PD, peak, ("dimension", "position"), digits=4)
        _bar(page, axes, (x + left + PANEL + 0.12, top + 0.55, 0.12, min(height, 1.6)), peak)
        values_PP = table_PD @ table_PD.T if products else similarity(table_PD)
        peak = float(np.abs(values_PP).max()) or 1.0 if products else 1.0
        page.write(x + left, below - 0.22, PRODUCTS if products else "similarity (cosine) of positions", note)
        axes = page.axes(x + left, below, PANEL, PANEL)
        _heat(page, axes, values_PP, peak, ("position", "position"), digits=4 if products else 2)
        _bar(page, axes, (x + left + PANEL + 0.12, below, 0.12, 1.6), peak)
    return page.figure


def _height(table_PD: np.ndarray) -> float:
    """Inches: square cells, unless the table would be a mere line or higher than wide."""
    rows, columns = table_PD.shape
    return float(min(max(PANEL * rows / columns, 1.2), PANEL))


def _heat(page: Page, axes: Axes, values: np.ndarray, peak: float, names: tuple[str, str], *, digits: int) -> None:
    """Values from −peak to peak as colors, and as numbers if there are few."""
    from matplotlib.ticker import MaxNLocator

    axes.imshow(
        values,
        cmap=colormap(DIVERGING),
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


def _bar(page: Page, axes: Axes, box: tuple[float, float, float, float], peak: float) -> None:
    bar = page.axes(*box)
    page.figure.colorbar(axes.images[0], cax=bar, ticks=[-peak, 0, peak], format=lambda tick, _: f"{tick:.3g}")
    bar.tick_params(length=2, labelsize=8, color=FRAME, labelcolor=FAINT)
    bar.spines["outline"].set(color=LINES, linewidth=0.6)


def _number(value: float, digits: int) -> str:
    """The value with this many decimals, and never −0.0000."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def terminal_positions(
    table_PD: np.ndarray,
    *,
    positions: int = 12,
    width: int | None = None,
    title: str | None = None,
    products: bool = False,
) -> TerminalPositions:
    """The first positions for rich's `print`: as numbers, as many dimensions as fit, then their similarity.

    ``products``: dot products as numbers, in place of cosines as shades.
    """
    if positions < 1:
        raise DataError(f"{positions} positions to show; expected at least 1")
    return TerminalPositions(_checked(table_PD), positions, width, title, products)


@dataclass(frozen=True)
class TerminalPositions:
    """A table to print. Its layout is made when it is printed, when the width and the colors are known."""

    table_PD: np.ndarray
    positions: int
    width: int | None
    title: str | None
    products: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(self.width or options.max_width, options.max_width)
        if self.title:
            yield from Text(one_line(self.title), style="bold").wrap(console, width)
        for line in _numbers(self.table_PD, self.positions, width):
            yield from line.wrap(console, width)
        yield Text()
        if self.products:
            yield from _product_lines(self.table_PD[: self.positions], width)
            return
        for line in _similarity_map(self.table_PD, self.positions, width, Shading.of(console, options)):
            yield from line.wrap(console, width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, options.max_width), options.max_width)


def _numbers(table_PD: np.ndarray, positions: int, width: int) -> Iterator[Text]:
    """The first rows with four decimals, and the part of the table that they are."""
    height, dimensions = table_PD.shape
    columns, lines = _number_lines(table_PD[:positions], width)
    parts = [
        f"{name}: {shown}" if shown == count else f"{name}: first {shown} of {count}"
        for name, shown, count in (("positions", min(positions, height), height), ("dimensions", columns, dimensions))
    ]
    yield Text(", ".join(parts), style="dim")
    yield from lines


def _product_lines(table_PD: np.ndarray, width: int) -> Iterator[Text]:
    """PE·PEᵀ as numbers, as many columns as fit."""
    products_PP = table_PD @ table_PD.T
    columns, lines = _number_lines(products_PP, width)
    more = "" if columns == len(products_PP) else f", first {columns} of {len(products_PP)} columns"
    yield Text(f"{PRODUCTS}{more}", style="dim")
    yield from lines


def _number_lines(values: np.ndarray, width: int) -> tuple[int, Iterator[Text]]:
    """The number of columns that fit, and a line for each row, below a line of column numbers."""
    rows, dimensions = values.shape
    numbers = [[_number(float(value), 4) for value in row] for row in values]
    column_width = 2 + max(len("-0.1234"), *(len(number) for row in numbers for number in row))
    gutter = max(len("pos"), len(str(rows - 1)))
    columns = min(max((width - gutter) // column_width, 1), dimensions)
    return columns, _lines_of(numbers, columns, column_width, gutter)


def _lines_of(numbers: list[list[str]], columns: int, column_width: int, gutter: int) -> Iterator[Text]:
    yield Text("pos".rjust(gutter) + "".join(f"{column:>{column_width}}" for column in range(columns)), style="dim")
    for row, values in enumerate(numbers):
        shown = "".join(f"{number:>{column_width}}" for number in values[:columns])
        yield Text.assemble((f"{row:>{gutter}}", "dim"), shown)


def _similarity_map(table_PD: np.ndarray, positions: int, width: int, shading: Shading) -> Iterator[Text]:
    """The similarity, two terminal columns per cell or, if it is too wide, one, and a key to the shades.

    Colors range from −1 to 1. Five shades are too few for that: they divide the range from the lowest cosine to the
    highest.
    """
    rows = min(positions, table_PD.shape[0])
    gutter = len(str(rows - 1)) + 1
    cell_width = CELL if gutter + rows * CELL <= width else 1
    rows = min(rows, max(width - gutter, 1))
    cosines_PP = similarity(table_PD[:rows])
    high = float(cosines_PP.max())
    low = min(float(cosines_PP.min()), high - LEAST_SPAN)
    yield Text(f"similarity (cosine) of positions 0 to {rows - 1}", style="dim")
    for row, cosines_P in enumerate(cosines_PP):
        line = Text.assemble((f"{row:>{gutter - 1}} ", "dim"))
        for cosine in cosines_P:
            cell = _paint(float(cosine)) if shading.colored else shading.cell(float(cosine - low) / (high - low))
            line.append_text(cell[:cell_width])
        yield line
    if shading.colored:
        yield Text.assemble("-1 ", *(_paint(step / 4) for step in range(-4, 5)), " 1")
        return
    steps = [low, *(low + step * (high - low) for step in SHADE_STEPS)]
    yield Text("  ".join(f"{shade[0]} {_number(step, 2)}+" for shade, step in zip(shading.shades, steps, strict=True)))


def _paint(cosine: float) -> Text:
    """A cell in the color of a value from −1 to 1."""
    return color_cell(DIVERGING, (cosine + 1) / 2)
