"""``weft bench``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from weft.cli.arguments import (
    Changes,
    Device,
    Engine,
    Json,
    Precision,
    Run,
    Search,
    With,
    load_run,
    search_changes,
)

app = typer.Typer(help="Measure how fast things go on this machine.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Measure how fast things go on this machine."""


@app.command("train", epilog="Try:  weft bench train addition --seconds 5")
def training(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped recipe's name, or a TOML file.")],
    changes: Changes = None,
    device: Annotated[
        str | None, typer.Option("--device", help="auto, cpu, cuda or cuda:N; not given: as the recipe says.")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long to measure.")] = 30.0,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Steps that are not counted.")] = 20,
    as_json: Json = False,
) -> None:
    """Train for a while and print real tokens a second, step time, share of the matrix peak, and memory.

    Nothing is kept.
    """
    from weft.evaluation.training_speed import training_speed
    from weft.recipe import load_recipe

    given = [*(changes or ()), *([f"training.device={device}"] if device else [])]
    found = training_speed(load_recipe(recipe, given), seconds=seconds, warmup=warmup)
    if as_json:
        typer.echo(json.dumps(found.record()))
        return
    low, high = min(found.windows, default=0.0), max(found.windows, default=0.0)
    varied = f" ({low:,.0f} to {high:,.0f} in windows of 5 s)" if found.windows else ""
    typer.echo(f"{found.recipe} on {found.device}, {found.precision}, {found.parameters:,} parameters")
    typer.echo(f"target tokens/s  {found.target_tokens_per_second:,.0f}{varied}")
    typer.echo(f"source tokens/s  {found.source_tokens_per_second:,.0f}")
    typer.echo(f"step             {found.step_milliseconds:.1f} ms (median of {found.steps} in {found.seconds:.1f} s)")
    typer.echo(f"first step       {found.first_step_seconds:.1f} s")
    typer.echo(
        f"matrix products  {found.flops_per_second / 1e9:,.0f} GFLOP/s, "
        f"{found.flops_utilization:.0%} of the {found.peak_flops_per_second / 1e9:,.0f} that one large product reaches"
    )
    typer.echo(f"peak memory      {found.memory_bytes / 2**20:,.0f} MiB")


@app.command("translate", epilog="Try:  weft bench translate runs/try --seconds 5")
def translating(
    run: Run,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="One source a line; not given: the recipe's test set.")
    ] = None,
    sentences: Annotated[int, typer.Option("--sentences", min=1, help="At most so many sources, the first.")] = 4096,
    search: Search = None,
    more: With = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="How long to measure: many together, then one by one.")
    ] = 10.0,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Sentences that are not counted.")] = 32,
    as_json: Json = False,
) -> None:
    """Translate for a while and print sentences and tokens a second, the latency of one sentence, and memory.

    The sources are translated over and over, so a second pass may follow the first; empty ones are left out.
    """
    from itertools import islice

    from weft.data.reading.lines import read_lines
    from weft.evaluation.translation_speed import translation_speed
    from weft.preparation import read_corpus

    settings = search_changes(search, changes)
    given = None if file is None else list(islice(read_lines(file), sentences))
    model = load_run(run, more, device=device, precision=precision, engine=engine)
    if given is None:
        given = [pair.source for pair in islice(read_corpus(model.recipe, "test"), sentences)]
    found = translation_speed(model, given, seconds=seconds, warmup=warmup, **settings)
    record = found.record()
    if as_json:
        typer.echo(json.dumps(record))
        return
    typer.echo(f"{found.run} on {found.device}, {found.engine}, {found.precision}, {found.parameters:,} parameters")
    typer.echo(f"search           {found.search}, batches of {found.batch_tokens:,} tokens")
    typer.echo(f"sentences/s      {found.sentences_per_second:,.1f} ({found.sentences:,} in {found.seconds:.1f} s)")
    typer.echo(f"output tokens/s  {found.output_tokens_per_second:,.0f}")
    middle, late = found.latency_p50_milliseconds, found.latency_p99_milliseconds
    typer.echo(f"latency          {middle:.1f} ms (p50), {late:.1f} ms (p99) of {found.calls:,} sentences one by one")
    typer.echo(f"peak memory      {found.memory_bytes / 2**20:,.0f} MiB")
    typer.echo(f"CPU              {found.threads} threads, {found.cores:.1f} cores busy")
    typer.echo(f"versions         weft {record['weft']}, torch {record['torch']}, Python {record['python']}")
