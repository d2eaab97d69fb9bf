"""``weft train``."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from weft.cli.arguments import Changes, check_runs
from weft.cli.own_pairs import OwnPairs, find_pairs
from weft.cli.signals import exit_code
from weft.cli.watch import check_watch, with_watch

if TYPE_CHECKING:
    from weft.recipe import Recipe
    from weft.recommendation.for_pairs import RecommendedRecipe
    from weft.runs.layout import RunFolder
    from weft.training.distributed import Workers
    from weft.training.events import Fitted
    from weft.training.train import Events


MAX_MINUTES = 1e6
RECIPE_HELP = (
    "A file of pairs (TSV, CSV, JSON lines, Parquet; compressed or not), a folder with train, valid and test, or - for "
    "standard input; the name of a shipped recipe, or a TOML file; with --resume, also the run folder."
)
RecipeOrPairs = Annotated[str | None, typer.Argument(metavar="PAIRS|RECIPE", help=RECIPE_HELP, show_default=False)]
Source = Annotated[
    str | None, typer.Option("--source", metavar="FILE|COLUMN", help="A file of sources, or a column of PAIRS.")
]
Target = Annotated[
    str | None, typer.Option("--target", metavar="FILE|COLUMN", help="A file of targets, or a column of PAIRS.")
]
Like = Annotated[str | None, typer.Option("--like", metavar="RECIPE", help="Take the settings of this recipe.")]
Start = Annotated[
    Path | None,
    typer.Option("--from", metavar="RUN", help="Start from the weights, model and tokenizer of this run."),
]
Restarts = Annotated[
    int, typer.Option("--restarts", min=0, help="How often to restart the workers after one has died.")
]
MINUTES_HELP = "Time limit: the speed is measured, and the number of steps is fitted to it."
Minutes = Annotated[float | None, typer.Option("--minutes", help=MINUTES_HELP)]
EVALUATE_HELP = "Evaluate on the test set at the end, with examples; by default with PAIRS and with --minutes."
Evaluate = Annotated[bool | None, typer.Option("--evaluate/--no-evaluate", help=EVALUATE_HELP, show_default=False)]

Watch = Annotated[
    bool,
    typer.Option("--watch", help="Show the run on a page while it is trained: curves and samples."),
]


def command(
    recipe: RecipeOrPairs = None,
    source: Source = None,
    target: Target = None,
    like: Like = None,
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; by default runs/NAME.")] = None,
    start: Start = None,
    minutes: Minutes = None,
    evaluate: Evaluate = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a run that was interrupted.")] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Number of training processes.")] = 1,
    restarts: Restarts = 3,
    watch: Watch = False,
) -> None:
    """Train a model on pairs, or from a recipe, and print the run folder.

    Given pairs, weft looks at a sample of them, chooses every setting and says why; the reasons are also in
    RUN/recipe.toml, which trains the same model again. --set changes a choice. Where there are no validation or test
    pairs, some are held out. See docs/own-pairs.md.

    Ctrl-C, SIGTERM and SIGHUP save a checkpoint after the current step; a second one ends at once. weft train RUN
    --resume continues with the settings of the run; --set can change how long it trains. With --from RUN, a new
    run starts from the weights of RUN, on the data of the recipe; --set tokenizer.extend=true adds new symbols to its
    vocabulary. With --workers N, or under torchrun, several processes share the batches of every update; see
    docs/several-machines.md.
    """
    from weft.errors import RecipeError
    from weft.training.launch import end_with_launcher, launch_has_ended

    if launch_has_ended():
        return
    pairs = find_pairs(recipe, source, target, like, resume=resume)
    request = TrainingRequest(recipe or "", changes or [], out, start, resume, minutes, evaluate, pairs, watch=watch)
    request.check_options(workers)
    if watch:
        check_watch()
    if "RANK" not in os.environ:  # a worker reports its errors together with the others
        request = request.with_recommendation()
        request.check()
        for line in () if request.recommended is None else request.recommended.lines():
            typer.echo(line, err=True)
    elif pairs is not None:
        raise RecipeError("PAIRS: several machines train from a recipe; make one with weft data recommend PAIRS")
    else:
        end_with_launcher(lambda: request.folder(request.settings()))
    if workers > 1:
        raise typer.Exit(_launch(request, workers=workers, restarts=restarts))
    _train_connected(request)


def _train_connected(request: TrainingRequest) -> None:
    """Train as one of the workers, or alone; errors and interruptions are reported once for all of them."""
    from weft.errors import WeftError
    from weft.training.distributed import WorkerLostError, Workers
    from weft.training.launch import EXIT_CODE_FILE, end_launch

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
    with TemporaryDirectory() as temporary:
        arguments = request.worker_arguments(Path(temporary))
        try:
            code = launch(arguments, folder, workers=workers, restarts=restarts)
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
    typer.echo(f"weft: interrupted at step {step:,}; continue with: {resume_command(folder)}{options}", err=True)


class TrainingRequest(NamedTuple):
    """RECIPE or PAIRS, --set, --out, --from, --resume, --minutes and --evaluate."""

    recipe: str
    changes: list[str]
    out: Path | None
    start: Path | None
    resume: bool
    minutes: float | None = None
    evaluate: bool | None = None
    pairs: OwnPairs | None = None
    recommended: RecommendedRecipe | None = None
    """The recipe for the pairs, once they have been looked at."""
    watch: bool = False

    def evaluates(self, folder: Path) -> bool:
        """Whether the run in this folder is evaluated at the end; by default so is one on pairs, also if resumed."""
        from weft.recipe.toml import leading_comments

        if self.evaluate is not None:
            return self.evaluate
        if self.resume:
            comments = leading_comments((folder / "recipe.toml").read_text("utf-8"))
            return any(line.startswith("pairs: ") for line in comments)
        return self.minutes is not None or self.recommended is not None

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
        return path if self.out is self.pairs is None and (path / "recipe.toml").is_file() else None

    def with_recommendation(self) -> TrainingRequest:
        """The same with a recipe for the pairs, if a new run is to be trained on pairs."""
        from weft.recipe import parse_change
        from weft.runs.layout import RunFolder

        if self.pairs is None or self.resume:
            return self
        if self.start is not None:
            check_runs(self.start)
        names = [str(value) for path, value in map(parse_change, self.changes) if path == ["name"]]
        folder = self.out or Path("runs") / (names[-1] if names else self.pairs.name)
        RunFolder.check_new(folder)
        return self._replace(recommended=self.pairs.recommend(self.changes, self.start, folder))

    def settings(self) -> Recipe:
        """The recipe of a new run; of a resumed run, which has its own settings, only to compare the names."""
        from weft.errors import RecipeError
        from weft.recipe import load_recipe, parse_change, shipped
        from weft.runs.origin import resume_command

        if self.recommended is not None:
            return self.recommended.recipe
        if self.resume and self.pairs is not None:
            folder = self.out or Path("runs") / self.pairs.name
            check_runs(folder)
            return load_recipe(folder / "recipe.toml")
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

    def comments(self) -> list[str]:
        """The head of RUN/recipe.toml: the reasons of the choices, or what stands at the head of a recipe file."""
        from weft.recipe import shipped
        from weft.recipe.files import find_recipe
        from weft.recipe.toml import leading_comments

        if self.recommended is not None:
            return self.recommended.lines()
        if self.resume or self.changes or self.recipe in shipped():  # they may no longer be true
            return []
        return leading_comments(find_recipe(self.recipe).read_text("utf-8-sig"))

    def worker_arguments(self, folder: Path) -> list[str]:
        """The arguments of a worker process; a recipe for pairs is written to a folder for it."""
        from weft.recipe.toml import write_toml

        if self.recommended is None:
            return _worker_arguments(sys.argv[1:])
        recipe = self.recommended.recipe
        data = recipe.data.model_copy(update={"folder": str(Path(recipe.data.folder).resolve())})
        path = folder / "recipe.toml"
        path.write_text(write_toml(recipe.model_copy(update={"data": data}), self.comments()), "utf-8")
        return ["train", str(path), "--out", str(self.folder(recipe))]

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
    from weft.runs.layout import RunFolder
    from weft.training.events import Fitted
    from weft.training.train import train, train_within

    settings = request.settings()
    folder = request.folder(settings)
    if not request.resume and team.was_training(str(folder.resolve())):  # the launcher has restarted all workers
        changes = [change for change in request.changes if parse_change(change)[0] != ["training", "accumulate"]]
        request = request._replace(resume=True, changes=changes)
    if request.resume:
        settings = request.saved_settings(settings)
    evaluates = team.world_size == 1 and request.evaluates(folder)
    if not request.resume and settings.training.accumulate < team.world_size:
        if team.is_main:
            typer.echo(f"training.accumulate = {team.world_size}: one batch per worker and update", err=True)
        training = settings.training.model_copy(update={"accumulate": team.world_size})
        settings = settings.model_copy(update={"training": training})
    if request.minutes is None:
        events = train(settings, folder, resume=request.resume, workers=team)
    else:
        events = train_within(settings, folder, minutes=request.minutes, evaluates=evaluates)
    if not team.is_main:
        for _ in events:
            pass
        return
    test_items: int | None = None
    events = _annotated(events, RunFolder(folder), request.comments())
    with closing(events):
        shown = with_tensorboard(ProgressReporter()(events), folder)
        for event in with_watch(shown, folder) if request.watch else shown:
            test_items = event.test_items if isinstance(event, Fitted) else test_items
    if evaluates:
        show_summary(folder, device=settings.training.device, limit=test_items)
    typer.echo(folder)


def _annotated(events: Events, run: RunFolder, comments: list[str]) -> Events:
    """The same events; the recipe of the run folder, once it has been made, gets these comments."""
    from weft.files import save_text
    from weft.recipe.toml import with_comments
    from weft.training.events import Fitted, Started

    text = ""
    with closing(events):
        for event in events:
            if isinstance(event, Started):
                text = run.recipe.read_text("utf-8") if comments else ""
            if isinstance(event, Fitted):
                comments = _fitted_comments(comments, event)
            if text and isinstance(event, Started | Fitted):
                save_text(run.recipe, with_comments(text, comments))
            yield event


def _fitted_comments(comments: list[str], event: Fitted) -> list[str]:
    """The comments of a recipe whose steps, and with them its schedule, were fitted to a time limit."""
    if event.steps == event.recipe_steps:
        return comments
    kept = [line for line in comments if not line.startswith(("steps: ", "learning rate: "))]
    reason = f"fitted to {event.minutes:g} min, with warmup and validations; {event.recipe_steps:,} without a limit"
    return [*kept, f"steps: up to {event.steps:,} ({reason})"]


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
