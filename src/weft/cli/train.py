"""``weft train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.arguments import Changes


def command(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped recipe's name, or a TOML file.")],
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; runs/NAME if not given.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
) -> None:
    """Train a model from a recipe and leave a run folder."""
    from weft.cli.progress import Watcher
    from weft.cli.tensorboard import with_tensorboard
    from weft.recipe import load_recipe
    from weft.trainer import train
    from weft.training.events import Prepared

    settings = load_recipe(recipe, changes or ())
    path = Path("runs") / settings.name if out is None else out
    for event in with_tensorboard(Watcher()(train(settings, path, resume=resume)), path):
        if isinstance(event, Prepared):
            path = Path(event.path)
    typer.echo(path)
