"""``weft attend``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.arguments import Device, Run


def command(
    run: Run,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="What to translate.", show_default=False)],
    target: Annotated[
        str | None, typer.Option("--target", help="Show where it looks when it must say this instead.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", help="Write a picture: .svg, .png or .pdf.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show tokens, not whole words.")] = False,
    device: Device = "auto",
) -> None:
    """Show where a model looks, word by word.

    A map in the terminal or, with --to, a picture.
    """
    from rich.console import Console

    from weft.evaluation.alignment import write_pharaoh
    from weft.translator import load
    from weft.views.attention_map import draw, terminal

    found, words = load(run, device=device).attend(sentence, target)
    weights_TS, source, said = words
    if tokens and found.attention is not None:
        weights_TS, source, said = found.attention, found.source_tokens, found.tokens
    if to is not None:
        draw(weights_TS, source, said, to, title=found.text)
        typer.echo(to)
        return
    console = Console(highlight=False)
    console.print(f"{found.text}\n", markup=False)
    console.print(terminal(weights_TS, source, said))
    console.print(f"\nlinks {write_pharaoh(found.links)}   log p {found.log_probability:.3f}", markup=False)
