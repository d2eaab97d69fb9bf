"""``weft sample``."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.arguments import Changes, Device, Run, search_changes


def command(
    run: Run,
    prompt: Annotated[str, typer.Option("--prompt", help="What every text begins with.")] = "",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many texts.")] = 5,
    length: Annotated[int, typer.Option("--length", min=1, help="Most tokens after the prompt.")] = 100,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the draw; the recipe's if not given.")] = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Draw texts from a language model, word by word, one a line."""
    from weft.translation.load import load

    model = load(run, device=device)
    settings = search_changes(None, changes)
    for text in model.sample(count, prompt=prompt, length=length, seed=seed, **settings):
        typer.echo(text)
