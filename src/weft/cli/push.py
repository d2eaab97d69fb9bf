"""``weft push``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A run folder, or one that weft export wrote.", show_default=False)
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model on the Hub: OWNER/NAME.", show_default=False)],
    private: Annotated[bool, typer.Option("--private", help="Make a new model private.")] = False,
    message: Annotated[str | None, typer.Option("--message", help="The message of the commit.")] = None,
) -> None:
    """Upload a run or an export to the Hugging Face Hub, and print its address.

    Of a run: recipe, tokenizers, weights and model card; no checkpoints, no log. Log in with `hf auth login` first.
    """
    from weft.interop.huggingface.sharing import push

    typer.echo(push(folder, name, private=private, message=message))
