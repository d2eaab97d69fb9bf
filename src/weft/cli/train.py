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
    """Train a model from a recipe and leave a run folder.

    With --resume the run goes on with its own settings; --set may change how long it trains.
    """
    from weft.cli.progress import Watcher
    from weft.cli.tensorboard import with_tensorboard
    from weft.errors import RecipeError
    from weft.recipe import load_recipe
    from weft.trainer import train
    from weft.training.checkpoint import RunFolder

    settings = load_recipe(recipe, changes or ())
    path = Path("runs") / settings.name if out is None else out
    if resume:
        saved = load_recipe(RunFolder(path).check().recipe, changes or ())
        if saved.name != settings.name:
            raise RecipeError(f"--resume: {path} was trained from recipe {saved.name!r}, not {settings.name!r}")
        settings = saved
    for _ in with_tensorboard(Watcher()(train(settings, path, resume=resume)), path):
        pass
    typer.echo(path)
