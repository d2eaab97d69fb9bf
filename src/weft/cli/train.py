"""``weft train``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.arguments import Changes

if TYPE_CHECKING:
    from weft.training.distributed import Workers


def command(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped recipe's name, or a TOML file.")],
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; runs/NAME if not given.")] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Begin with the weights, model and tokenizer of this run."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that train together here.")] = 1,
    restarts: Annotated[
        int, typer.Option("--restarts", min=0, help="How often workers are started anew after one died.")
    ] = 3,
) -> None:
    """Train a model from a recipe and leave a run folder.

    With --resume the run goes on with its own settings; --set may change how long it trains. With --from RUN a new run
    begins where RUN ended, on the recipe's data; --set tokenizer.extend=true gives ids to symbols RUN did not know.
    With --workers N, or started by torchrun, several processes share out the batches of every update; see
    docs/several-machines.md.
    """
    from weft.errors import WeftError
    from weft.training.launch import EXIT_CODE_FILE, end_launch, launch, launch_has_ended

    if launch_has_ended():
        return
    if workers > 1:
        raise typer.Exit(launch(_for_a_worker(sys.argv[1:]), workers=workers, restarts=restarts))
    from weft.training.distributed import WorkerLostError, Workers

    team = Workers.from_environment()
    try:
        with team.connected():
            try:
                _train(recipe, changes or [], out=out, start=start, resume=resume, team=team)
            except WorkerLostError:
                raise
            except WeftError:
                if not team.reports_error():
                    raise typer.Exit(2) from None
                end_launch(2)
                raise
    except WorkerLostError as error:
        if team.is_main and EXIT_CODE_FILE not in os.environ:
            typer.echo(f"weft: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        if team.world_size == 1:
            raise
        raise typer.Exit(130) from None


def _train(
    recipe: str, changes: list[str], *, out: Path | None, start: Path | None, resume: bool, team: Workers
) -> None:
    """Train as one of the workers, or alone."""
    from weft.cli.progress import Watcher
    from weft.cli.tensorboard import with_tensorboard
    from weft.errors import RecipeError
    from weft.recipe import load_recipe, parse_change
    from weft.runs.layout import RunFolder
    from weft.training.train import train

    given = changes
    if resume:  # the run has its own settings, also of a start that may be gone; the recipe only has to be the same one
        given, start = [change for change in given if parse_change(change)[0] == ["name"]], None
    if start is not None:
        RunFolder(start).check()
    settings = load_recipe(recipe, given, start=start)
    path = Path("runs") / settings.name if out is None else out
    if not resume and team.was_training(str(path.resolve())):  # a worker died, and the launcher has started all anew
        resume, changes = True, [one for one in changes if parse_change(one)[0] != ["training", "accumulate"]]
    if resume:
        saved = load_recipe(RunFolder(path).check().recipe, changes)
        if saved.name != settings.name:
            raise RecipeError(f"--resume: {path} was trained from recipe {saved.name!r}, not {settings.name!r}")
        settings = saved
    elif settings.training.accumulate < team.world_size:
        if team.is_main:
            typer.echo(f"training.accumulate = {team.world_size}: an update has a batch for each worker", err=True)
        training = settings.training.model_copy(update={"accumulate": team.world_size})
        settings = settings.model_copy(update={"training": training})
    events = train(settings, path, resume=resume, workers=team)
    if not team.is_main:
        for _ in events:
            pass
        return
    for _ in with_tensorboard(Watcher()(events), path):
        pass
    typer.echo(path)


def _for_a_worker(arguments: list[str]) -> list[str]:
    """The arguments of this command without --workers and --restarts."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in ("--workers", "--restarts"):
            next(rest)
        elif not argument.startswith(("--workers=", "--restarts=")):
            kept.append(argument)
    return kept
