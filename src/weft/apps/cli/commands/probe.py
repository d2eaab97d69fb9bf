"""``weft probe``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import (
    Adapter,
    Device,
    Json,
    Picture,
    Run,
    check_adapter,
    check_picture,
    check_runs,
    load_runs,
)
from weft.apps.cli.terminal.help_text import CommandGroup

if TYPE_CHECKING:
    from weft.apps.probes.result import ProbeResult

app = CommandGroup(help="Measure how a trained model behaves on inputs of a special kind.", no_args_is_help=True)


@app.command("repeat", epilog="Try:  weft probe repeat runs/try 'il dort' --source 'he sleeps' --times 20")
def repeat_command(
    run: Run,
    phrase: Annotated[str, typer.Argument(metavar="PHRASE", help="The phrase to repeat.", show_default=False)],
    times: Annotated[int, typer.Option("--times", min=2, help="Number of copies.")] = 200,
    source: Annotated[
        str | None,
        typer.Option("--source", help="The source of a translation model, whose target the copies are; or a prompt."),
    ] = None,
    to: Picture = None,
    as_json: Json = False,
    adapter: Adapter = None,
    device: Device = "auto",
) -> None:
    """Show the probability of each token of a phrase that is repeated.

    For a language model the copies continue the text, for a translation model they are the target of --source. In most
    models each copy makes the next one more probable. In Python: weft.probes.repeat(run, phrase).
    """
    _check(run, to, adapter)
    from weft.apps.probes import repeat

    _show(repeat(load_runs(run, device=device, adapter=adapter), phrase, times=times, source=source), to, as_json)


def _check(run: Path, to: Path | None, adapter: str | None) -> None:
    """Fail on bad arguments before torch is imported."""
    check_picture(to)
    check_runs(run)
    check_adapter(run, adapter)


def _show(result: ProbeResult, to: Path | None, as_json: bool) -> None:
    """Write the picture, then print its path, the numbers as JSON, or tables and chart."""
    if to is not None:
        path = result.save(to)
        if not as_json:
            typer.echo(path)
    if as_json:
        typer.echo(result.to_json())
    elif to is None:
        from rich.console import Console

        console = Console(highlight=False)
        color = console.color_system is not None and not console.no_color
        sys.stdout.write(result.text(console.width, color=color, ascii_only=console.options.ascii_only))
