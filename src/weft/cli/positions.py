"""``weft positions``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np


def command(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run folder whose learned positions to show beside it.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="How many positions.")] = 50,
    width: Annotated[int, typer.Option("--width", min=2, help="How many dimensions; with RUN, the model's.")] = 64,
    to: Annotated[Path | None, typer.Option("--to", help="Write a picture: .svg, .png or .pdf.")] = None,
) -> None:
    """Show what tells a Transformer where a token stands, and how alike two places are.

    The sinusoid matrix PE and the similarity PE·PEᵀ and, of a run with learned positions, its tables beside it.
    """
    from rich.console import Console

    from weft.models.positions import sinusoids
    from weft.views.positions import draw_positions, terminal_positions

    tables = {} if run is None else _learned(run, count)
    width = next((table.shape[1] for table in tables.values()), width)
    tables = {"sinusoidal": sinusoids(count, width).numpy(), **tables}
    if to is not None:
        typer.echo(draw_positions(tables, to))
        return
    console = Console(highlight=False)
    for name, table in tables.items():
        console.print(terminal_positions(table, positions=min(count, 12), title=name))


def _learned(run: Path, count: int) -> dict[str, np.ndarray]:
    """The learned tables of a run, each cut to ``count`` positions."""
    from torch import nn

    from weft.errors import DataError
    from weft.models.positions import Learned
    from weft.runs.load import load_run

    model = load_run(run).model
    assert isinstance(model, nn.Module)
    found = {
        name.split(".")[0]: part.weight_PD[:count].detach().cpu().numpy()
        for name, part in model.named_modules()
        if isinstance(part, Learned)
    }
    if not found:
        raise DataError(f"{run}: this model has no learned positions; without RUN the sinusoids are shown")
    return found
