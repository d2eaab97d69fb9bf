"""``weft pull``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model on the Hub: OWNER/NAME.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="The run folder to write; by default runs/NAME.")] = None,
    revision: Annotated[str | None, typer.Option("--revision", metavar="NAME", help="A branch, tag or commit.")] = None,
) -> None:
    """Download a run that weft push uploaded, and print the folder."""
    from weft.interop.huggingface.sharing import pull

    typer.echo(pull(name, out, revision=revision))
