"""``weft runs``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import Json

if TYPE_CHECKING:
    from weft.runs.status import RunStatus

NARROW = 80
"""Columns of a terminal below which recipe and size are left out."""
MIN_NAME = 8
"""Columns that a name is shortened to at most."""


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder of run folders, or one made by weft tune.")
    ] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List runs: recipe, number of parameters, validation score, state and age.

    The score is that of the weights in model.safetensors: perplexity (with training.loss = entmax15 the loss), or
    training.metric. A run is training, finished, stopped (continue it with `weft train RUN --resume`), imported (by
    `weft import` or `weft pull`) or damaged.
    """
    from weft.errors import CheckpointError
    from weft.runs.status import find_runs

    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder; `weft train` puts runs into runs/, or give a folder of runs")
    statuses = list(find_runs(folder))
    if as_json:
        for status in statuses:
            typer.echo(json.dumps(status.record(), ensure_ascii=False))
        return
    if not statuses:
        typer.echo(f"{folder}: no runs in it", err=True)
        return
    columns = get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table(statuses, columns):
        typer.echo(line)
    for status in statuses:
        if status.problem is not None:
            typer.echo(_printable(f"{status.path}: {status.problem}"), err=True)


def table(statuses: list[RunStatus], columns: int | None, now: float | None = None) -> list[str]:
    """One line per run under a heading, no wider than ``columns``; None: unlimited."""
    from rich.cells import cell_len, set_cell_size

    now = time.time() if now is None else now
    narrow = columns is not None and columns < NARROW
    rows = [["run", "recipe", "size", "score", "state", "age"]]
    for status in statuses:
        name = _printable(status.path.name or str(status.path))
        size = "" if status.parameters is None else short_number(status.parameters)
        recipe = _printable(status.recipe or "")
        rows.append(
            [
                name,
                recipe,
                size,
                _score(status, narrow),
                status.describe_state(short=narrow),
                age(now - status.modified),
            ]
        )
    if narrow:
        rows = [[row[0], *row[3:]] for row in rows]
    widths = [max(cell_len(row[index]) for row in rows) for index in range(len(rows[0]))]
    shortened = [*(() if narrow else (1,)), 0, len(widths) - 2, len(widths) - 3]
    for index in shortened if columns is not None else ():
        excess = sum(widths) + 2 * (len(widths) - 1) - (columns or 0)
        widths[index] -= max(min(excess, widths[index] - MIN_NAME), 0)
    lines = []
    for row in rows:
        cells = [
            set_cell_size(cell, width) if cell_len(cell) <= width else set_cell_size(cell, width - 1) + "…"
            for cell, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _score(status: RunStatus, narrow: bool) -> str:
    if status.score is None:
        return ""
    value = f"{status.score:.4g}"
    return value if narrow else f"{value} {_printable(status.metric or '')}"


def _printable(text: str) -> str:
    """The text without control characters."""
    return "".join(character if character.isprintable() else "?" for character in text)


def short_number(count: int) -> str:
    """950, 3.6k, 61M, 1.2G."""
    value, units = float(count), ["", "k", "M", "G", "T"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.2g}{units[0]}" if units[0] and value < 99.5 else f"{value:.0f}{units[0]}"


def age(seconds: float) -> str:
    """5 s, 12 min, 3 h, 9 days."""
    for unit, size, limit in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 86_400)):
        if seconds < limit:
            return f"{max(seconds, 0) / size:.0f} {unit}"
    days = int(seconds / 86_400)
    return f"{days} day" if days == 1 else f"{days} days"
