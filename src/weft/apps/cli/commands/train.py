"""``weft train``."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import Changes, Like, Source, Target
from weft.apps.cli.terminal.signals import exit_code
from weft.apps.cli.terminal.watch import check_watch, with_watch

if TYPE_CHECKING:
    from weft.pairs.outcome import RunOutcome
    from weft.pairs.request import TrainingRequest
    from weft.training.distributed import Workers

RECIPE_HELP = (
    "A file of pairs (TSV, CSV, JSON lines, Parquet; compressed or not), a folder with train, valid and test, or - for "
    "standard input; the name of a shipped recipe, or a TOML file; with --resume, also the run folder."
)
RecipeOrPairs = Annotated[str | None, typer.Argument(metavar="PAIRS|RECIPE", help=RECIPE_HELP, show_default=False)]
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
Languages = Annotated[
    str | None,
    typer.Option(
        "--languages", metavar="SOURCE-TARGET", help="The languages of the run, as weft serve names them: en-fr."
    ),
]
Restarts = Annotated[
    int, typer.Option("--restarts", min=0, help="How often to restart the workers after one has died.")
]
MINUTES_HELP = "Time limit: with PAIRS, networks of different kinds race, and the best one is trained in the time left."
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
    languages: Languages = None,
    minutes: Minutes = None,
    evaluate: Evaluate = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a run that was interrupted.")] = False,
    accept_new_data: Annotated[
        bool, typer.Option("--accept-new-data", help="With --resume: continue even if the data files have changed.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Number of training processes.")] = 1,
    restarts: Restarts = 3,
    watch: Watch = False,
) -> None:
    """Train a model on pairs, or from a recipe, and print the run folder.

    Given pairs, weft looks at a sample of them, chooses every setting and explains why; the reasons are also in
    RUN/recipe.toml, which trains the same model again. --set changes a choice. Where there are no validation or test
    pairs, some are held out. See docs/own-pairs.md.

    Ctrl-C, SIGTERM and SIGHUP save a checkpoint after the current step; a second one ends immediately. weft train RUN
    --resume continues with the settings of the run; --set can change how long it trains. With --workers N, or under
    torchrun, several processes share the batches of every update; see docs/several-machines.md.

    With --from RUN, a new run starts from the weights of RUN, on the data of the recipe; --set tokenizer.extend=true
    adds new symbols to its vocabulary. With --lora rank=16, these weights are frozen, and adapters are trained;
    see docs/fine-tuning.md.
    """
    from weft.errors import RecipeError
    from weft.pairs.request import TrainingRequest
    from weft.pairs.source import find_pairs
    from weft.training.launch import end_with_launcher, launch_has_ended

    if launch_has_ended():
        return
    pairs = find_pairs(recipe, source, target, like, resume=resume)
    changes = [*language_changes(languages), *lora_changes(lora), *(changes or [])]
    request = TrainingRequest(recipe or "", changes, out, start, resume, minutes, evaluate, pairs)
    request = request._replace(accept_new_data=accept_new_data)
    request.check_options(several_workers=workers > 1 or "RANK" in os.environ)
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
    _train_connected(request, watch=watch)


def _train_connected(request: TrainingRequest, *, watch: bool) -> None:
    """Train as one of the workers, or alone; errors and interruptions are reported once for all of them."""
    from weft.errors import WeftError
    from weft.training.distributed import WorkerLostError, Workers
    from weft.training.launch import EXIT_CODE_FILE, end_launch

    team = Workers.from_environment()
    try:
        with team.connected():
            try:
                _train(request, team, watch=watch)
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
        arguments = worker_arguments(request, Path(temporary))
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
    from weft.pairs.race.record import interrupted_race
    from weft.runs.layout import RunFolder
    from weft.runs.weights import resume_command

    folder = request.folder(request.settings())
    if interrupted_race(folder):
        typer.echo("weft: interrupted in the race; repeat the command to continue it", err=True)
        return
    if not request.resume and RunFolder(folder).metrics.is_file():
        typer.echo(f"weft: interrupted while training further models; the run is complete: {folder}", err=True)
        return
    try:
        step = RunFolder(folder).newest_step()
    except (WeftError, OSError):
        typer.echo("weft: interrupted before training began", err=True)
        return
    typer.echo(f"weft: interrupted at step {step:,}; continue with: {resume_command(folder)}{options}", err=True)


def _train(request: TrainingRequest, team: Workers, *, watch: bool) -> None:
    """Train as one of the workers, or alone."""
    from weft.apps.cli.terminal.progress import ProgressReporter
    from weft.apps.cli.terminal.tensorboard import with_tensorboard
    from weft.pairs.race.events import TimeUsed
    from weft.pairs.train import plan_run, train_run
    from weft.training.events import Finished, Fitted

    run = plan_run(request, team)
    if team.is_main and not run.resume and run.recipe.training.accumulate > request.settings().training.accumulate:
        typer.echo(f"training.accumulate = {team.world_size}: one batch per worker and update", err=True)
    events = train_run(run, team)
    if not team.is_main:
        for _ in events:
            pass
        return
    plan: Fitted | TimeUsed | None = None
    is_finished = False
    with closing(events):
        shown = with_tensorboard(ProgressReporter()(events), run.folder)
        for event in with_watch(shown, run.folder) if watch else shown:
            plan = event if isinstance(event, Fitted | TimeUsed) else plan
            is_finished = is_finished or isinstance(event, Finished)
    if run.evaluates:
        _show_outcome(run.folder, device=run.recipe.training.device, limit=run.evaluation_items(plan))
    if is_finished:
        _calibrate(run.folder, device=run.recipe.training.device, limit=run.calibration_items(plan))
    typer.echo(run.folder)


def _show_outcome(folder: Path, *, device: str, limit: int | None = None) -> None:
    """Evaluate a finished run on its test set, or on ``limit`` items of it, and print the result on stdout."""
    from weft.errors import WeftError
    from weft.pairs.outcome import evaluate_run

    try:
        outcome = evaluate_run(folder, device=device, limit=limit)
    except WeftError as error:  # the run is complete nevertheless
        typer.echo(f"weft: not evaluated: {error}", err=True)
    except KeyboardInterrupt as interruption:
        name = shlex.quote(str(folder))
        typer.echo(f"weft: evaluation interrupted; the run is complete: weft evaluate {name}", err=True)
        raise typer.Exit(exit_code(interruption)) from None
    else:
        if outcome.forgetting_error is not None:
            typer.echo(f"weft: former task not measured: {outcome.forgetting_error}", err=True)
        typer.echo("\n".join([*outcome_lines(outcome), ""]))


def _calibrate(folder: Path, *, device: str, limit: int | None) -> None:
    """Fit how likely outputs of a finished run are right, for ``weft translate --confidence``, and keep decoder states
    if the recipe asks for them."""
    from weft.pairs.outcome import calibrate_run
    from weft.pairs.state_index import keep_states

    try:
        calibrate_run(folder, device=device, limit=limit)
        keep_states(folder, device=device)
    except KeyboardInterrupt as interruption:
        name = shlex.quote(str(folder))
        typer.echo(f"weft: calibration interrupted; the run is complete: weft calibrate {name}", err=True)
        raise typer.Exit(exit_code(interruption)) from None


def outcome_lines(outcome: RunOutcome) -> list[str]:
    """The result on the test set, and the commands that come next."""
    from weft.evaluation.marked_differences import in_brackets

    in_color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    name = shlex.quote(str(outcome.folder))
    use = f"weft sample {name}" if outcome.is_language_model else f"weft translate {name} FILE"
    if (source := outcome.example()) is not None:
        use = f"echo {shlex.quote(source)} | weft translate {name}"
    return [
        *outcome.lines(_colored if in_color else in_brackets),
        "",
        f"Use it:    {use}",
        f"Report:    weft report {name} --to report.html",
        f"Settings:  {outcome.folder / 'recipe.toml'}, which trains the same model again",
    ]


def _colored(text: str) -> str:
    return typer.style(f"[{text}]", fg=typer.colors.RED, bold=True)


def worker_arguments(request: TrainingRequest, folder: Path) -> list[str]:
    """The arguments of a worker process; a recipe for pairs is written to a folder for it."""
    from weft.recipe.toml import write_toml

    if request.recommended is None:
        return without_worker_options(sys.argv[1:])
    recipe = request.recommended.recipe
    data = recipe.data.model_copy(update={"folder": str(Path(recipe.data.folder).resolve())})
    path = folder / "recipe.toml"
    path.write_text(write_toml(recipe.model_copy(update={"data": data}), request.comments()), "utf-8")
    return ["train", str(path), "--out", str(request.folder(recipe))]


def lora_changes(given: str | None) -> list[str]:
    """``--lora rank=16,targets=query+value`` as changes of settings: training.lora.rank=16, …"""
    from weft.errors import RecipeError, nearest
    from weft.recipe.toml import toml_value
    from weft.recipe.training import LoraSettings

    changes = []
    for part in () if given is None else given.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not value:
            raise RecipeError(f"--lora {given}: expected NAME=VALUE separated by commas, for example rank=16")
        if name not in LoraSettings.model_fields:
            raise RecipeError(f"--lora {name}: unknown setting; {nearest(name, LoraSettings.model_fields)}")
        if name in ("targets", "name"):
            value = toml_value(value.split("+") if name == "targets" else value)
        elif name in ("alpha", "dropout") and value.isdigit():
            value += ".0"
        changes.append(f"training.lora.{name}={value}")
    ranks = [change.partition("=")[2] for change in changes if change.startswith("training.lora.rank=")]
    if changes and ranks in ([], ["0"]):
        raise RecipeError(f"--lora {given}: needs a rank, for example rank=16")
    return changes


def language_changes(given: str | None) -> list[str]:
    """``--languages en-fr`` as changes of settings: serve.source=en and serve.target=fr."""
    from weft.apps.serve.settings import split_languages
    from weft.errors import RecipeError

    if given is None:
        return []
    names = split_languages(given)
    if not all(name.strip() for name in names):
        raise RecipeError(f"--languages {given}: expected SOURCE-TARGET, for example en-fr, or en-US:fr-FR")
    return [f"serve.{side}={name.strip()}" for side, name in zip(("source", "target"), names, strict=True)]


def without_worker_options(arguments: list[str]) -> list[str]:
    """The arguments of this command without --workers and --restarts."""
    kept: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument in ("--workers", "--restarts"):
            next(remaining)
        elif not argument.startswith(("--workers=", "--restarts=")):
            kept.append(argument)
    return kept
