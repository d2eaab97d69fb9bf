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


def table_lines(table: Table, width: int | None = None) -> Iterator[Text]:
    """A table with its columns aligned, the first to the left and the others to the right; headings are wrapped.

    ``width``: columns of the terminal. A table that is wider is shown in parts, each with the first column.
    """
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    columns = [max((cell_len(row[index]) for row in rows), default=0) for index in range(len(table.header))]
    headings = [
        wrap(heading, max(size, MIN_HEADING), break_long_words=False) or [""]
        for heading, size in zip(table.header, columns, strict=True)
    ]
    columns = [max(size, *map(cell_len, lines)) for size, lines in zip(columns, headings, strict=True)]
    if table.caption:
        yield from (Text(line, style="bold") for line in wrap(table.caption, width or len(table.caption)))
    for number_of_part, part in enumerate(_parts(columns, width)):
        if number_of_part:
            yield Text()
        height = max(len(headings[index]) for index in part)
        padded = [[""] * (height - len(headings[index])) + headings[index] for index in part]
        sizes = [columns[index] for index in part]
        yield from (Text(_aligned(list(line), sizes)) for line in zip(*padded, strict=True))
        yield Text("─" * (sum(sizes) + 2 * len(sizes) - 2))
        yield from (Text(_aligned([row[index] for index in part], sizes)) for row in rows)


def _parts(columns: list[int], width: int | None) -> list[list[int]]:
    """The indices of the columns that fit beside each other: the first, and as many others as the width holds."""
    parts: list[list[int]] = [[0]]
    for index in range(1, len(columns)):
        needed = sum(columns[i] + 2 for i in parts[-1]) + columns[index]
        if width is not None and needed > width and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(index)
    return parts


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
