"""``weft lab``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.apps.cli.arguments import Json
from weft.apps.cli.terminal.status import duration
from weft.errors import DataError, RecipeError
from weft.files import json_text

if TYPE_CHECKING:
    from rich.console import Console

    from weft.apps.labs.lab import Lab, LabResult

PAGE = "index.html"
"""The page of all labs, in the folder of --to."""
QUICK_SECONDS = 20


def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A lab, or all; without it, all labs are listed.", show_default=False),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, help="Number of seeds; by default 3, with --quick 2.", show_default=False),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", "--out", metavar="DIR", help="Write JSON, a page, SVG and PNG into this folder.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Train less, in under half a minute.")] = False,
) -> None:
    """Test a claim about sequence models: train small models, measure, draw, and say whether the claim held.

    Without a name, list the labs with their claims. With one, run it: a table, a chart, the verdict (held, did not
    hold, inconclusive) with the effect and its 95 % interval over seeds, what the paper found, and what to try next.
    About two minutes each on two cores, or less; the same seeds give the same result. "all" runs every lab and writes
    one page, index.html, into the folder of --to (by default: labs).
    """
    from weft.apps.labs import LABS, find_lab

    if name is None:
        if to is not None or quick:
            raise RecipeError("NAME: expected the name of a lab, or all; weft lab lists them")
        _list([find_lab(lab) for lab in LABS], as_json=as_json)
        return
    labs = [find_lab(lab) for lab in (LABS if name == "all" else [name])]
    folder = to or (Path("labs") if name == "all" else None)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: is a file, expected a folder for the results")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)  # fails here, rather than after the training
    seeds = seeds or (2 if quick else 3)
    results: list[LabResult] = []
    for lab in labs:
        result = _run(lab, LABS[lab.name], seeds, quick=quick, silent=as_json)
        results.append(result)
        paths = [] if folder is None else result.save(folder)
        if name == "all" and folder is not None:
            paths = [_save_page(results, folder)]
        if not as_json:
            _show(result)
            for path in paths:
                typer.echo(path)
    if as_json:
        typer.echo(results[0].to_json() if name != "all" else json_text([item.record() for item in results]), nl=False)


def _list(labs: list[Lab], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_text([{"name": lab.name, "claim": lab.claim, "seconds": lab.seconds} for lab in labs]))
        return
    width = max(len(lab.name) for lab in labs)
    for lab in labs:
        typer.echo(f"{lab.name:<{width}}  {lab.claim}")
    typer.echo("\nRun one: weft lab NAME; all of them: weft lab all")


def _run(lab: Lab, run: Callable[..., LabResult], seeds: int, *, quick: bool, silent: bool) -> LabResult:
    """Say what will be done, and do it."""
    if not silent:
        seconds = QUICK_SECONDS if quick else lab.seconds * max(seeds, 1) / 3
        about = f"{'less than' if quick else 'about'} {duration(seconds)} on two cores"
        _print_preface(lab, seeds, about)
    with _progress_bar(lab.name):
        return run(seeds, quick=quick)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _print_preface(lab: Lab, seeds: int, about: str) -> None:
    from weft.apps.labs.text import heading_lines, labeled
    from weft.pictures.terminal import render_lines

    console = _console()
    lines = [
        *heading_lines(lab, console.width),
        *labeled("Trains", lab.trains, console.width),
        *labeled("Takes", f"{about}, {seeds} {'seed' if seeds == 1 else 'seeds'}", console.width),
    ]
    sys.stdout.write(render_lines(lines, console.width, **_terminal(console)))
    sys.stdout.flush()


def _show(result: LabResult) -> None:
    console = _console()
    sys.stdout.write(f"{result.text(console.width, heading=False, **_terminal(console))}\n")


def _terminal(console: Console) -> dict[str, Any]:
    return {
        "color": console.color_system is not None and not console.no_color,
        "ascii_only": console.options.ascii_only,
    }


def _save_page(results: list[LabResult], folder: Path) -> Path:
    """The page of the labs that have been run so far."""
    from weft.apps.labs.page import labs_page
    from weft.files import save_text

    path = folder / PAGE
    save_text(path, str(labs_page(results)))
    return path


@contextmanager
def _progress_bar(name: str) -> Iterator[None]:
    """A bar of the trials on stderr, in a terminal; elsewhere the status line says how far it is."""
    from weft.apps.cli.terminal.status import is_live
    from weft.runtime.activity import Activity, observing

    if not is_live(sys.stderr):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    class Column(BarColumn):
        """A bar that counts what is done whenever it is drawn."""

        def render(self, task: Any) -> Any:
            if isinstance(activity := task.fields["activity"], Activity):
                task.completed, task.total = activity.done, activity.total
            return super().render(task)

    columns = (TextColumn("{task.description}"), Column(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=2)

    class Observer:
        """Shows the activity that counts trials."""

        def begin(self, activity: Activity) -> None:
            if activity.total is not None:
                bar.add_task(f"{name}: {activity.unit}", total=activity.total, activity=activity)

        def end(self, activity: Activity) -> None:
            for task in list(bar.tasks):
                if task.fields["activity"] is activity:
                    bar.remove_task(task.id)

    with bar, observing(Observer()):
        yield
