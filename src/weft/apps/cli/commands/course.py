"""``weft course``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from weft.apps.cli.arguments import Json
from weft.apps.cli.terminal.help_text import CommandGroup
from weft.files import json_text

app = CommandGroup(help="Solve the programming exercises of the course.", no_args_is_help=True)


@app.command("list", epilog="Try:  weft course list")
def list_command(as_json: Json = False) -> None:
    """List the exercises with their chapters."""
    from weft.apps.course import EXERCISES

    rows = [{"chapter": item.chapter, "file": item.file_name, "title": item.title} for item in EXERCISES.values()]
    if as_json:
        typer.echo(json_text(rows), nl=False)
        return
    width = max(len(item.file_name) for item in EXERCISES.values())
    typer.echo(f"chapter  {'file':<{width}}  exercise")
    for row in rows:
        typer.echo(f"{row['chapter']:>7}  {row['file']:<{width}}  {row['title']}")
    typer.echo("\nBegin with one: weft course start CHAPTER; check it: weft course check FILE")


@app.command("start", epilog="Try:  weft course start 6")
def start_command(
    chapter: Annotated[
        str,
        typer.Argument(metavar="CHAPTER", help="A chapter, or the name of one exercise.", show_default=False),
    ],
    to: Annotated[Path, typer.Option("--to", "--out", metavar="DIR", help="The folder for the files.")] = Path(),
) -> None:
    """Write the stub files of a chapter: functions with docstrings, to be completed.

    A file that exists is left as it is.
    """
    from weft.apps.course import start

    for stub in start(chapter, to):
        if stub.written:
            typer.echo(f"{stub.path}: write the functions, then run: weft course check {stub.path}")
        else:
            typer.echo(f"{stub.path}: exists, left as it is")


@app.command("check", epilog="Try:  weft course start 6 && weft course check attention.py")
def check_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A completed stub file.", show_default=False)],
    exercise: Annotated[
        str | None,
        typer.Option("--exercise", metavar="NAME", help="The exercise; by default that of the file's name."),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Time limit of each case.")] = 10.0,
    as_json: Json = False,
) -> None:
    """Test a completed stub file: which cases are right, which are not, and hints for known mistakes.

    The file runs in a child process with a time limit. Its output goes to stderr. Exit code 1 if a case fails.
    """
    from weft.apps.course import check
    from weft.apps.course.report import report_text

    result = check(file, exercise, seconds=seconds)
    if as_json:
        cases = [verdict._asdict() for verdict in result.verdicts]
        record = {"passed": result.passed, "cases": cases, "hints": result.hints, "error": result.broken or None}
        typer.echo(json_text(record), nl=False)
    else:
        from rich.console import Console

        console = Console(highlight=False)
        sys.stdout.write(report_text(result, console.width, ascii_only=console.options.ascii_only))
    raise typer.Exit(0 if result.passed else 1)
