"""``weft positions``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from weft.apps.cli.arguments import Picture, check_picture, check_runs

if TYPE_CHECKING:
    import numpy as np

TERMINAL_POSITIONS = 12
"""Positions shown in a terminal."""


def command(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run folder whose learned positions to show too.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Number of positions.")] = 50,
    width: Annotated[int, typer.Option("--width", min=2, help="Dimensions; with RUN, those of the model.")] = 64,
    to: Picture = None,
) -> None:
    """Show the position encodings of a Transformer, and how similar two positions are.

    The sinusoid matrix PE and the similarity PE·PEᵀ; for a run with learned positions, also its tables.
    """
    check_picture(to)
    if run is not None:
        check_runs(run)
    from rich.console import Console

    from weft.models.positions import sinusoids
    from weft.pictures.positions import draw_positions, terminal_positions

    tables = {} if run is None else _learned(run, count)
    width = next((table.shape[1] for table in tables.values()), width)
    tables = {"sinusoidal": sinusoids(count, width).numpy(), **tables}
    if to is not None:
        typer.echo(draw_positions(tables, to))
        return
    console = Console(highlight=False)
    for name, table in tables.items():
        console.print(terminal_positions(table, positions=min(count, TERMINAL_POSITIONS), title=name))


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
