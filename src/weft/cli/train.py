"""``weft train``."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from weft.cli.arguments import Changes, check_runs
from weft.cli.signals import exit_code

if TYPE_CHECKING:
    from weft.recipe import Recipe
    from weft.training.distributed import Workers


MAX_MINUTES = 1e6
RECIPE_HELP = "The name of a shipped recipe, or a TOML file; with --resume, also the run folder."
MINUTES_HELP = "Train for at most so long: the speed is measured, and the steps are fitted to it."
Minutes = Annotated[float | None, typer.Option("--minutes", help=MINUTES_HELP)]
EVALUATE_HELP = "Evaluate on the test set at the end, with examples; by default with --minutes."
Evaluate = Annotated[bool | None, typer.Option("--evaluate/--no-evaluate", help=EVALUATE_HELP, show_default=False)]
RecipeOrRun = Annotated[str, typer.Argument(metavar="RECIPE", help=RECIPE_HELP, show_default=False)]


def command(
    recipe: RecipeOrRun,
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; by default runs/NAME.")] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Start from the weights, model and tokenizer of this run."),
    ] = None,
    minutes: Minutes = None,
    evaluate: Evaluate = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a run that was interrupted.")] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Number of training processes.")] = 1,
    restarts: Annotated[
        int, typer.Option("--restarts", min=0, help="How often to restart the workers after one has died.")
    ] = 3,
) -> None:
    """Train a model from a recipe, and print the run folder.

    Ctrl-C, SIGTERM and SIGHUP save a checkpoint after the current step; a second one ends at once. weft train RUN
    --resume continues with the settings of the run; --set can change how long it trains. With --from RUN, a new
    run starts from the weights of RUN, on the data of the recipe; --set tokenizer.extend=true adds new symbols to its
    vocabulary. With --workers N, or under torchrun, several processes share the batches of every update; see
    docs/several-machines.md.
    """
    from weft.errors import WeftError
    from weft.training.launch import EXIT_CODE_FILE, end_launch, end_with_launcher, launch_has_ended

    if launch_has_ended():
        return
    request = TrainingRequest(recipe, changes or [], out, start, resume, minutes, evaluate)
    request.check_options(workers)
    if "RANK" not in os.environ:  # a worker reports its errors together with the others
        request.check()
    else:
        end_with_launcher(lambda: request.folder(request.settings()))
    if workers > 1:
        raise typer.Exit(_launch(request, workers=workers, restarts=restarts))
    from weft.training.distributed import WorkerLostError, Workers

    team = Workers.from_environment()
    try:
        with team.connected():
            try:
                _train(request, team)
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
    except KeyboardInterrupt as interruption:
        if team.is_main and EXIT_CODE_FILE not in os.environ:  # else the launcher reports it
            _report_interruption(request, "")
        raise typer.Exit(exit_code(interruption)) from None


def _launch(request: TrainingRequest, *, workers: int, restarts: int) -> int:
    """Train in several processes; returns the exit code."""
    from weft.training.launch import launch

    folder = request.folder(request.settings())
    try:
        code = launch(_worker_arguments(sys.argv[1:]), folder, workers=workers, restarts=restarts)
    except KeyboardInterrupt as interruption:
        code = exit_code(interruption)
    if code > 128:
        _report_interruption(request, f" --workers {workers}")
    return code


def _report_interruption(request: TrainingRequest, options: str) -> None:
    """Say where an interrupted run stands, and the command that continues it."""
    from weft.errors import WeftError
    from weft.runs.layout import RunFolder
    from weft.runs.origin import resume_command

    folder = request.folder(request.settings())
    try:
        step = RunFolder(folder).newest_step()
    except (WeftError, OSError):
        typer.echo("weft: interrupted before training began", err=True)
        return
    typer.echo(f"weft: interrupted at step {step}; continue with: {resume_command(folder)}{options}", err=True)


class TrainingRequest(NamedTuple):
    """RECIPE, --set, --out, --from, --resume, --minutes and --evaluate."""

    recipe: str
    changes: list[str]
    out: Path | None
    start: Path | None
    resume: bool
    minutes: float | None = None
    evaluate: bool | None = None

    @property
    def evaluates(self) -> bool:
        """Whether the run is evaluated at the end."""
        return self.minutes is not None if self.evaluate is None else self.evaluate

    def check_options(self, workers: int) -> None:
        """Fail on options that do not go together."""
        from weft.errors import RecipeError

        is_team = workers > 1 or "RANK" in os.environ
        if self.evaluate and is_team:
            raise RecipeError("--evaluate: several workers do not evaluate; use weft evaluate RUN after training")
        if self.minutes is None:
            return
        if self.resume:
            raise RecipeError("--minutes: a resumed run keeps its number of steps; leave --minutes out")
        if is_team:
            raise RecipeError("--minutes: the speed of several workers is not measured; use one, or training.steps")
        if not 0 < self.minutes <= MAX_MINUTES:
            raise RecipeError(f"--minutes {self.minutes:g}: expected a number above 0")

    @property
    def run(self) -> Path | None:
        """The run folder, if RECIPE names one."""
        path = Path(self.recipe)
        return path if self.out is None and (path / "recipe.toml").is_file() else None

    def settings(self) -> Recipe:
        """The recipe of a new run; of a resumed run, which has its own settings, only to compare the names."""
        from weft.errors import RecipeError
        from weft.recipe import load_recipe, parse_change, shipped
        from weft.runs.origin import resume_command

        if self.resume:
            if self.out is None and "/" in self.recipe and not self.recipe.endswith(".toml"):
                check_runs(Path(self.recipe))
            name = self.recipe if self.run is None else self.run / "recipe.toml"
            return load_recipe(name, [change for change in self.changes if parse_change(change)[0] == ["name"]])
        if self.run is not None and self.recipe not in shipped():
            raise RecipeError(f"{self.run}: is a run folder, not a recipe; continue with: {resume_command(self.run)}")
        if self.start is not None:
            check_runs(self.start)
        return load_recipe(self.recipe, self.changes, start=self.start)

    def folder(self, settings: Recipe) -> Path:
        if self.resume and self.run is not None:
            return self.run
        return Path("runs") / settings.name if self.out is None else self.out

    def saved_settings(self, settings: Recipe) -> Recipe:
        """The settings of the run to resume, with the changes."""
        from weft.errors import RecipeError
        from weft.recipe import load_recipe

        folder = self.folder(settings)
        check_runs(folder)
        saved = load_recipe(folder / "recipe.toml", self.changes)
        if saved.name != settings.name:
            raise RecipeError(f"--resume: {folder} was trained from recipe {saved.name!r}, not {settings.name!r}")
        return saved

    def check(self) -> None:
        """Fail on a recipe, a setting or a folder that cannot be used, without importing torch."""
        from weft.files import check_unlocked
        from weft.runs.layout import RunFolder

        settings = self.settings()
        if self.resume:
            self.saved_settings(settings)
        else:
            RunFolder.check_new(self.folder(settings))
        check_unlocked(self.folder(settings))


def _train(request: TrainingRequest, team: Workers) -> None:
    """Train as one of the workers, or alone."""
    from weft.cli.progress import ProgressReporter
    from weft.cli.tensorboard import with_tensorboard
    from weft.cli.train_summary import show_summary
    from weft.recipe import parse_change
    from weft.training.events import Fitted
    from weft.training.train import train, train_within

    settings = request.settings()
    folder = request.folder(settings)
    if not request.resume and team.was_training(str(folder.resolve())):  # the launcher has restarted all workers
        changes = [change for change in request.changes if parse_change(change)[0] != ["training", "accumulate"]]
        request = request._replace(resume=True, changes=changes)
    if request.resume:
        settings = request.saved_settings(settings)
    elif settings.training.accumulate < team.world_size:
        if team.is_main:
            typer.echo(f"training.accumulate = {team.world_size}: one batch per worker and update", err=True)
        training = settings.training.model_copy(update={"accumulate": team.world_size})
        settings = settings.model_copy(update={"training": training})
    if request.minutes is None:
        events = train(settings, folder, resume=request.resume, workers=team)
    else:
        events = train_within(settings, folder, minutes=request.minutes, evaluates=request.evaluates)
    if not team.is_main:
        for _ in events:
            pass
        return
    test_items: int | None = None
    with closing(events):
        for event in with_tensorboard(ProgressReporter()(events), folder):
            test_items = event.test_items if isinstance(event, Fitted) else test_items
    if request.evaluates:
        show_summary(folder, device=settings.training.device, limit=test_items)
    typer.echo(folder)


def _worker_arguments(arguments: list[str]) -> list[str]:
    """The arguments of this command without --workers and --restarts."""
    kept: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument in ("--workers", "--restarts"):
            next(remaining)
        elif not argument.startswith(("--workers=", "--restarts=")):
            kept.append(argument)
    return kept
