"""``weft history``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.apps.cli.arguments import Json, check_output
from weft.apps.cli.terminal.status import duration
from weft.files import json_text

if TYPE_CHECKING:
    from rich.table import Table as LiveTable

    from weft.apps.labs.history.experiment import Condition

PAGE = Path("history.html")
SECONDS, QUICK_SECONDS = 420, 20
"""Expected duration on two cores with three seeds."""
Watcher = Callable[["Condition", int, dict[str, Any]], None]


def command(
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, help="Number of seeds; by default 3, or 2 with --quick.", show_default=False),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", "--out", metavar="FILE", help="The page to write; by default history.html.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Train very briefly, in under half a minute, to see the page.")
    ] = False,
) -> None:
    """Train six models of the last ten years on one task, and compare them on one page.

    Sutskever 2014, Cho 2014, Bahdanau 2015, Luong 2015, the Transformer of 2017, and one with today's parts: the same
    sentences and the same number of updates, at sizes that two cores train in minutes. The page has exact match by
    length, alignment error rates, attention maps of one sentence, the size and speed of each model, what was new in
    it, its equations, and verdicts on four claims with 95 % intervals over seeds. The same seeds give the same page,
    except for speeds. With --json the numbers are printed, and a page is written only if --to is given.
    """
    page = to or (None if as_json else PAGE)
    check_output(page)
    from weft.apps.labs import history

    seeds = seeds or (2 if quick else 3)
    if not as_json:
        seconds = QUICK_SECONDS if quick else SECONDS * seeds / 3
        about = f"{'less than' if quick else 'about'} {duration(seconds)} on two cores"
        typer.echo(f"Ten years of attention: six models, {seeds} {'seed' if seeds == 1 else 'seeds'}, {about}")
    with live_table(silent=as_json) as watch:
        result = history(seeds, quick=quick, on_result=watch)
    if as_json:
        typer.echo(json_text(result.record()))
    else:
        _show(result.text)
    if page is not None:
        typer.echo(result.save(page), err=as_json)


def _show(text: Callable[..., str]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    color = console.color_system is not None and not console.no_color
    sys.stdout.write(f"\n{text(console.width, color=color, ascii_only=console.options.ascii_only)}\n")


@contextmanager
def live_table(*, silent: bool) -> Iterator[Watcher | None]:
    """A callback for each result: it fills a table in a terminal, and writes lines to stderr elsewhere."""
    from weft.apps.cli.terminal.status import is_live

    if silent:
        yield None
        return
    if not is_live(sys.stderr):
        yield _write_line
        return
    from rich.console import Console
    from rich.live import Live

    from weft.runtime.activity import observing

    measured: dict[str, list[dict[str, Any]]] = {}
    with Live(make_table(measured), console=Console(stderr=True), transient=True, refresh_per_second=2) as live:

        def show(condition: Condition, seed: int, result: dict[str, Any]) -> None:
            measured.setdefault(condition.key, []).append(result)
            live.update(make_table(measured))

        with observing(_Silent()):
            yield show


def make_table(measured: dict[str, list[dict[str, Any]]]) -> LiveTable:
    """The means of what has been measured so far; models that are still to be trained have dots."""
    from statistics import fmean

    from rich.table import Table

    from weft.apps.labs.history.models import MODELS
    from weft.apps.labs.history.task import LENGTHS

    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("model")
    for heading in ("seeds", *(f"{length} words" for length in LENGTHS), "alignment error"):
        table.add_column(heading, justify="right")
    for model in MODELS:
        rows = measured.get(model.key, [])
        exact = [f"{fmean(row['exact'][i] for row in rows):.0f} %" if rows else "·" for i in range(len(LENGTHS))]
        rates = [row["error"] for row in rows if row["error"] is not None]
        error = f"{fmean(rates):.1f} %" if rates else "–" if rows else "·"
        table.add_row(model.name, str(len(rows)) if rows else "·", *exact, error)
    return table


def _write_line(condition: Condition, seed: int, result: dict[str, Any]) -> None:
    from weft.apps.labs.history.models import BY_KEY
    from weft.apps.labs.history.task import LENGTHS

    exact = ", ".join(f"{length} words {value:.0f} %" for length, value in zip(LENGTHS, result["exact"], strict=True))
    error = "" if result["error"] is None else f"; alignment error rate {result['error']:.1f} %"
    typer.echo(f"{BY_KEY[condition.key].name}, seed {seed}: exact match {exact}{error}", err=True)


class _Silent:
    """An observer that shows nothing: the table says how far it is."""

    def begin(self, activity: object) -> None: ...

    def end(self, activity: object) -> None: ...
