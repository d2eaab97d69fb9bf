"""A lab and its result as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from weft.labs.charts.terminal import chart_lines
from weft.labs.lab import Cell, Lab, LabResult, Table
from weft.labs.statistics import Estimate, number
from weft.labs.verdicts import HELD, NOT_HELD, UNCLEAR, Outcome

OUTCOME_STYLES: dict[Outcome, str] = {HELD: "bold green", NOT_HELD: "bold red", UNCLEAR: "bold yellow"}
LABEL = 10
"""Columns of the labels before paragraphs."""
MAX_PROSE = 100
MIN_HEADING = 10
"""Columns of a heading before it is wrapped."""


def heading_lines(lab: Lab, width: int) -> Iterator[Text]:
    """Name and claim."""
    for line in wrap(f"{lab.name}: {lab.claim}", min(width, MAX_PROSE)):
        yield Text(line, style="bold")


def result_lines(result: LabResult, width: int, ascii_only: bool) -> Iterator[Text]:
    """Tables, charts, verdict, what the paper found, notes and what to try next."""
    for table in result.tables:
        yield Text()
        yield from table_lines(table)
    for chart in result.charts:
        yield Text()
        yield from chart_lines(chart, width, ascii_only=ascii_only)
    verdict = result.verdict
    yield Text()
    yield from labeled("Verdict", f"{verdict.outcome}. {verdict.sentence}", width, OUTCOME_STYLES[verdict.outcome])
    for check in verdict.checks:
        yield from labeled("", f"• {check}", width)
    yield from labeled("Seeds", seeds_text(result), width)
    yield from labeled("Paper", result.lab.paper, width)
    for index, note in enumerate(result.notes):
        yield from labeled("Notes" if not index else "", note, width)
    for index, idea in enumerate(result.lab.next):
        yield from labeled("Next" if not index else "", idea, width)


def labeled(label: str, text: str, width: int, style: str = "") -> Iterator[Text]:
    """A paragraph after its label; ``style``: of the label."""
    parts = wrap(text, max(min(width, MAX_PROSE) - LABEL, 30), break_long_words=False)
    for index, part in enumerate(parts):
        heading = f"{label:<{LABEL}}" if not index else " " * LABEL
        yield Text(heading, style=style or "bold").append(part, style="not bold default")


def seeds_text(result: LabResult) -> str:
    """Which seeds were used, and whether it was the short version."""
    seeds = ", ".join(map(str, result.seeds)) or "none"
    short = "; a quick run, which trains less: its verdict counts for less" if result.quick else ""
    return f"{seeds}; intervals of 95 % over seeds{short}" if len(result.seeds) > 1 else f"{seeds}{short}"


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
