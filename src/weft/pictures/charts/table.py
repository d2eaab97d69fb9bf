"""Tables beside charts: as data, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from weft.evaluation.statistics import Estimate, number

MIN_HEADING = 10
"""Columns of a heading before it is wrapped."""
Cell = str | int | float | Estimate | None
Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Rows whose first cell is their heading; None is shown as a dash."""

    header: tuple[str, ...]
    rows: Sequence[Row]
    caption: str = ""
    varies: bool = False
    """Whether the same seeds give other values, such as seconds; it is then left out of JSON."""


def table_lines(table: Table) -> Iterator[Text]:
    """A table with its columns aligned, the first to the left and the others to the right; headings are wrapped."""
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    columns = [max((cell_len(row[index]) for row in rows), default=0) for index in range(len(table.header))]
    headings = [
        wrap(heading, max(width, MIN_HEADING), break_long_words=False) or [""]
        for heading, width in zip(table.header, columns, strict=True)
    ]
    columns = [max(width, *map(cell_len, lines)) for width, lines in zip(columns, headings, strict=True)]
    height = max(map(len, headings))
    if table.caption:
        yield Text(table.caption, style="bold")
    for index in range(height):
        line = [([""] * (height - len(lines)) + lines)[index] for lines in headings]
        yield Text(_aligned(line, columns))
    yield Text("─" * (sum(columns) + 2 * len(columns) - 2))
    for row in rows:
        yield Text(_aligned(row, columns))


def _aligned(cells: list[str], widths: list[int]) -> str:
    parts = [
        " " * (width - cell_len(cell)) + cell if index else cell + " " * (width - cell_len(cell))
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()


def cell_text(cell: Cell) -> str:
    """A cell of a table: numbers with three digits, estimates with their intervals."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    return cell.text() if isinstance(cell, Estimate) else number(cell)
