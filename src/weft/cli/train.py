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
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Begin with the weights, model and tokenizer of this run."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
) -> None:
    """Train a model from a recipe and leave a run folder.

    With --resume the run goes on with its own settings; --set may change how long it trains. With --from RUN a new run
    begins where RUN ended, on the recipe's data; --set tokenizer.extend=true gives ids to symbols RUN did not know.
    """
    from weft.cli.progress import Watcher
    from weft.cli.tensorboard import with_tensorboard
    from weft.errors import RecipeError
    from weft.recipe import load_recipe, parse_change
    from weft.trainer import train
    from weft.training.checkpoint import RunFolder

    given = changes or []
    if resume:  # the run has its own settings, also of a start that may be gone; the recipe only has to be the same one
        given, start = [change for change in given if parse_change(change)[0] == ["name"]], None
    if start is not None:
        RunFolder(start).check()
    settings = load_recipe(recipe, given, start=start)
    path = Path("runs") / settings.name if out is None else out
    if resume:
        saved = load_recipe(RunFolder(path).check().recipe, changes or ())
        if saved.name != settings.name:
            raise RecipeError(f"--resume: {path} was trained from recipe {saved.name!r}, not {settings.name!r}")
        settings = saved
    for _ in with_tensorboard(Watcher()(train(settings, path, resume=resume)), path):
        pass
    typer.echo(path)
