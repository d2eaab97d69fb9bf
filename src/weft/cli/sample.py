"""``weft sample``."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.arguments import Changes, Device, Run, check_runs, search_changes


def command(
    run: Run,
    prompt: Annotated[str, typer.Option("--prompt", help="The beginning of every text.")] = "",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of texts.")] = 5,
    length: Annotated[int, typer.Option("--length", min=1, help="Maximum number of tokens after the prompt.")] = 100,
    seed: Annotated[int | None, typer.Option("--seed", help="Random seed; by default that of the recipe.")] = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Sample texts from a language model, one per line."""
    check_runs(run)
    settings = search_changes(run, None, changes)
    from weft.translation.load import load

    model = load(run, device=device)
    for text in model.sample(count, prompt=prompt, length=length, seed=seed, **settings):
        typer.echo(text)
