"""``weft positions``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from weft.apps.cli.arguments import Picture, check_picture, check_runs
from weft.errors import RecipeError, nearest

if TYPE_CHECKING:
    import numpy as np

LAYOUTS = {
    "interleaved": {"sinusoidal": "interleaved"},
    "halves": {"sinusoidal": "halves"},
    "both": {"interleaved": "interleaved", "halves": "halves"},
}
"""The sinusoid tables of each value of --layout: their titles and layouts."""
TERMINAL_POSITIONS = 12
"""Positions shown in a terminal."""


def command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="Run folders whose learned positions to show too.", show_default=False),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Number of positions.")] = 50,
    width: Annotated[int, typer.Option("--width", min=2, help="Dimensions; with RUN, those of the first model.")] = 64,
    layout: Annotated[
        str,
        typer.Option("--layout", help="Sines and cosines interleaved, in halves (all sines first), or both."),
    ] = "interleaved",
    products: Annotated[
        bool, typer.Option("--products", help="Show dot products of positions as numbers, in place of cosines.")
    ] = False,
    to: Picture = None,
) -> None:
    """Show the position encodings of a Transformer, and how similar two positions are.

    The sinusoid matrix PE and the cosines of its rows, or with --products PE·PEᵀ itself. With runs, imported ones too,
    their learned tables stand beside it.
    """
    check_picture(to)
    if layout not in LAYOUTS:
        raise RecipeError(f"--layout: unknown layout {layout!r}; {nearest(layout, LAYOUTS)}")
    for run in runs or ():
        check_runs(run)
    from rich.console import Console

    from weft.models.positions import sinusoids
    from weft.pictures.positions import draw_positions, terminal_positions

    learned = _all_learned(runs or [], count)
    width = next((table.shape[1] for table in learned.values()), width)
    tables = {name: sinusoids(count, width, layout=kind).numpy() for name, kind in LAYOUTS[layout].items()}
    tables.update(learned)
    if to is not None:
        typer.echo(draw_positions(tables, to, products=products))
        return
    console = Console(highlight=False)
    shown = min(count, TERMINAL_POSITIONS)
    for index, (name, table) in enumerate(tables.items()):
        if index > 0:
            console.print()
        console.print(terminal_positions(table, positions=shown, title=name, products=products))


def _all_learned(runs: list[Path], count: int) -> dict[str, np.ndarray]:
    """The learned tables of all runs; of several runs, with the run's name before each."""
    tables = {run: _learned(run, count) for run in runs}
    if len(runs) == 1:
        return tables[runs[0]]
    unique = len({run.name for run in runs}) == len(runs)
    return {f"{run.name if unique else run} {name}": table for run in runs for name, table in tables[run].items()}


def _learned(run: Path, count: int) -> dict[str, np.ndarray]:
    """The learned tables of a run, the first ``count`` positions of each."""
    from torch import nn

    from weft.errors import DataError
    from weft.models.architecture import architecture_of
    from weft.runs.load import load_run

    model = load_run(run).model
    tables = {}
    for stack in architecture_of(model).stacks:
        if stack.positions == "learned":
            weight_PD = cast(nn.Module, model).get_parameter(f"{stack.module}.positions.weight_PD")
            tables[stack.module.split(".")[0]] = weight_PD[:count].detach().cpu().numpy()
    if not tables:
        raise DataError(f"{run}: this model has no learned positions; without RUN the sinusoids are shown")
    return tables
