"""``weft sample``."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.apps.cli.arguments import (
    Adapter,
    Changes,
    Device,
    Run,
    check_adapter,
    check_runs,
    load_runs,
    search_changes,
)


def command(
    run: Run,
    prompt: Annotated[str, typer.Option("--prompt", help="The beginning of every text.")] = "",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of texts.")] = 5,
    length: Annotated[
        int | None,
        typer.Option(
            "--length",
            min=1,
            help="Maximum number of tokens after the prompt; default: learned from the training data, at least 100.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Random seed; by default that of the recipe.")] = None,
    adapter: Adapter = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Sample texts from a language model, one per line."""
    from weft.translation.output_format import in_one_line
    from weft.translation.text_warnings import warn_of_cut_off

    check_runs(run)
    check_adapter(run, adapter)
    settings = search_changes(run, None, changes)
    model = load_runs(run, device=device, adapter=adapter)
    outputs = model.complete(prompt, count=count, length=length, seed=seed, **settings)
    for output in outputs:
        typer.echo(in_one_line(output.text))
    if length is None:
        cut_off = sum(output.ended_by_length for output in outputs)
        warn_of_cut_off(cut_off, len(outputs), model.search_settings(settings), "--length")
