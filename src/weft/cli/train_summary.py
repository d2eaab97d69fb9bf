"""What ``weft train`` ends with: the scores on the test set, some outputs, and the commands that come next."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import typer

from weft.cli.signals import exit_code
from weft.errors import WeftError

MAX_PASTED = 60
"""Characters of a source in a command to be pasted."""


def show_summary(folder: Path, *, device: str, limit: int | None = None) -> None:
    """Evaluate a finished run on its test set, or on ``limit`` items of it, and print the result on stdout."""
    try:
        lines = summary_lines(folder, device=device, limit=limit)
    except WeftError as error:  # the run is complete nevertheless
        typer.echo(f"weft: not evaluated: {error}", err=True)
    except KeyboardInterrupt as interruption:
        typer.echo(f"weft: evaluation interrupted; the run is complete: weft evaluate {_quoted(folder)}", err=True)
        raise typer.Exit(exit_code(interruption)) from None
    else:
        typer.echo("\n".join([*lines, ""]))


def summary_lines(folder: Path, *, device: str, limit: int | None = None) -> list[str]:
    """The result on the test set, and how to use the run and learn more about it."""
    from weft.cli import COMMANDS
    from weft.evaluation.forgetting import measure_forgetting
    from weft.evaluation.summary import summarize
    from weft.translation.load import load

    run = load(folder, device=device)
    summary = summarize(run, limit=limit)
    in_color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    use = f"weft translate {_quoted(folder)} FILE"
    if run.source_role == "none":
        use = f"weft sample {_quoted(folder)}"
    for example in (*summary.right, *summary.wrong):
        if len(example.source) <= MAX_PASTED and example.source.isprintable() and "'" not in example.source:
            use = f"echo {shlex.quote(example.source)} | weft translate {_quoted(folder)}"
            break
    forgetting = measure_forgetting(folder, device=device)
    former = [] if forgetting is None else ["", str(forgetting)]
    lines = [*summary.lines(_colored if in_color else _plain), *former, "", f"Use it:    {use}"]
    if "report" in COMMANDS:
        lines.append(f"Report:    weft report {_quoted(folder)} --to report.html")
    return [*lines, f"Settings:  {folder / 'recipe.toml'}, which trains the same model again"]


def _quoted(folder: Path) -> str:
    return shlex.quote(str(folder))


def _plain(text: str) -> str:
    return f"[{text}]"


def _colored(text: str) -> str:
    return typer.style(f"[{text}]", fg=typer.colors.RED, bold=True)
