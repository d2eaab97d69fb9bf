"""``weft train``."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.arguments import Changes
from weft.cli.own_pairs import find_pairs
from weft.cli.signals import exit_code
from weft.cli.training_request import TrainingRequest, lora_changes
from weft.cli.watch import check_watch, with_watch

if TYPE_CHECKING:
    from weft.runs.layout import RunFolder
    from weft.training.distributed import Workers
    from weft.training.events import Fitted
    from weft.training.train import Events


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
Lora = Annotated[
    str | None,
    typer.Option(
        "--lora",
        metavar="SETTINGS",
        help="Train adapters (LoRA) instead of all weights, for example rank=16 or rank=16,alpha=32,dropout=0.1.",
    ),
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
    lora: Lora = None,
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
    --resume continues with the settings of the run; --set can change how long it trains. With --workers N, or under
    torchrun, several processes share the batches of every update; see docs/several-machines.md.

    With --from RUN, a new run starts from the weights of RUN, on the data of the recipe; --set tokenizer.extend=true
    adds new symbols to its vocabulary. With --lora rank=16, these weights are frozen, and adapters are trained;
    see docs/fine-tuning.md.
    """
    from weft.errors import RecipeError
    from weft.training.launch import end_with_launcher, launch_has_ended

    if launch_has_ended():
        return
    pairs = find_pairs(recipe, source, target, like, resume=resume)
    changes = [*lora_changes(lora), *(changes or [])]
    request = TrainingRequest(recipe or "", changes, out, start, resume, minutes, evaluate, pairs, watch=watch)
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
