"""``weft back-translate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.apps.cli.arguments import Changes, Device, Run, Search, With, check_runs, search_changes
from weft.apps.cli.terminal.signals import exit_code
from weft.errors import plural

Targets = Annotated[
    Path, typer.Argument(metavar="TARGETS", help="A file with a target on every line.", show_default=False)
]
Pairs = Annotated[
    Path,
    typer.Option(
        "--out", help="The pairs: a TSV file, or JSON lines if its name ends with .jsonl.", show_default=False
    ),
]
Tag = Annotated[str | None, typer.Option("--tag", help="Put before every source, with a space: <bt>.")]


def command(
    run: Run,
    targets: Targets,
    out: Pairs,
    tag: Tag = None,
    search: Search = None,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Sources for each target.")] = 1,
    more: With = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Make training pairs from monolingual targets, whose sources a model of the reverse direction writes.

    Each line of TARGETS is translated by RUN, and written to OUT as translation, tab, target. --search sample draws
    the sources at random. Repeating the command continues an interrupted one. To train on real and synthetic pairs:
    --set 'data.train=["real.tsv", "pairs.tsv"]'; see docs/distillation.md.
    """
    check_runs(run, *(more or ()))
    settings = search_changes(run, search, changes)
    from weft.pairs.distillation.back_translation import back_translate

    try:
        written = back_translate(
            [run, *(more or ())], targets, out, tag=tag, n_best=n_best, search=settings, device=device
        )
    except KeyboardInterrupt as interruption:
        typer.echo("weft: interrupted; repeat the command to continue", err=True)
        raise typer.Exit(exit_code(interruption)) from None
    left_out = f"; left out: {plural(written.left_out, 'target')} without a usable source" if written.left_out else ""
    typer.echo(f"{plural(written.rows, 'pair')}{left_out}", err=True)
    typer.echo(out)
