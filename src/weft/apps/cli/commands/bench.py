"""``weft bench``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import (
    AcceptNewData,
    Adapter,
    Changes,
    Device,
    DeviceOrNone,
    Engine,
    Json,
    Precision,
    RecipeName,
    Run,
    RunArguments,
    Search,
    With,
    check_device,
    check_file,
    search_changes,
)
from weft.apps.cli.terminal.help_text import CommandGroup
from weft.errors import DataError, RecipeError, warn

if TYPE_CHECKING:
    from weft.apps.bench.cluster import Forecast
    from weft.apps.bench.scale import Scale
from weft.files import json_text
from weft.runtime.activity import activity

app = CommandGroup(help="Measure the speed of training and translation.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Measure the speed of training and translation."""


@app.command("train", epilog="Try:  weft bench train addition --seconds 5")
def training(
    recipe: RecipeName,
    changes: Changes = None,
    device: DeviceOrNone = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Duration of the measurement.")] = 30.0,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Steps before the measurement.")] = 20,
    as_json: Json = False,
) -> None:
    """Train for a while and print tokens per second, step time, share of the peak matrix throughput, and memory.

    Padding is not counted. Nothing is saved.
    """
    from weft.recipe import load_recipe

    settings = load_recipe(recipe, [*(changes or ()), *([f"training.device={device}"] if device else [])])
    check_device(device)
    from weft.apps.bench.training_speed import training_speed

    with activity(f"training for {seconds:g} s to measure the speed"):
        speed = training_speed(settings, seconds=seconds, warmup=warmup)
    if as_json:
        typer.echo(json.dumps(speed.record()))
        return
    low, high = min(speed.windows, default=0.0), max(speed.windows, default=0.0)
    spread = f" ({low:,.0f} to {high:,.0f} in windows of 5 s)" if speed.windows else ""
    typer.echo(f"{speed.recipe} on {speed.device}, {speed.precision}, {speed.parameters:,} parameters")
    typer.echo(f"target tokens/s  {speed.target_tokens_per_second:,.0f}{spread}")
    typer.echo(f"source tokens/s  {speed.source_tokens_per_second:,.0f}")
    typer.echo(f"step             {speed.step_milliseconds:.1f} ms (median of {speed.steps} in {speed.seconds:.1f} s)")
    typer.echo(f"first step       {speed.first_step_seconds:.1f} s")
    typer.echo(
        f"full speed       after {speed.full_speed_seconds:.0f} s (90 % of it in every second since); "
        f"{speed.stalled_seconds:.1f} s in stalls"
    )
    typer.echo(
        f"matrix products  {speed.flops_per_second / 1e9:,.0f} GFLOP/s, "
        f"{speed.flops_utilization:.0%} of the {speed.peak_flops_per_second / 1e9:,.0f} of one large product"
    )
    typer.echo(f"peak memory      {speed.memory_bytes / 2**20:,.0f} MiB")


@app.command("translate", epilog="Try:  weft bench translate runs/try --seconds 5")
def translating(
    run: Run,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="One source per line; by default the test set of the recipe.")
    ] = None,
    sentences: Annotated[int, typer.Option("--sentences", min=1, help="Maximum number of sources.")] = 4096,
    search: Search = None,
    more: With = None,
    adapter: Adapter = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Duration of each measurement: in batches, then one at a time.")
    ] = 10.0,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Sentences before the measurement.")] = 32,
    accept_new_data: AcceptNewData = False,
    as_json: Json = False,
) -> None:
    """Translate for a while and print sentences and tokens per second, the latency of one sentence, and memory.

    The sources are translated repeatedly until the time is up; empty ones are skipped.
    """
    from itertools import islice

    from weft.data.reading.lines import read_lines

    arguments = RunArguments(run, more, device, precision, engine, adapter, accept_new_data)
    arguments.check()
    settings = search_changes(run, search, changes)
    if file is not None:
        check_file(file)
    sources = None if file is None else list(islice(read_lines(file), sentences))
    from weft.apps.bench.translation_speed import translation_speed
    from weft.data.preparation import read_corpus

    model = arguments.load()
    if sources is None:
        sources = [pair.source for pair in islice(read_corpus(model.recipe, "test"), sentences)]
    with activity(f"translating for twice {seconds:g} s to measure the speed"):
        speed = translation_speed(model, sources, seconds=seconds, warmup=warmup, **settings)
    record = speed.record()
    if as_json:
        typer.echo(json.dumps(record))
        return
    typer.echo(f"{speed.run} on {speed.device}, {speed.engine}, {speed.precision}, {speed.parameters:,} parameters")
    tokens = speed.batch_tokens
    batches = f"batches of {tokens:,} tokens" if isinstance(tokens, int) else "automatic batches"
    typer.echo(f"search           {speed.search}, {batches}")
    typer.echo(f"sentences/s      {speed.sentences_per_second:,.1f} ({speed.sentences:,} in {speed.seconds:.1f} s)")
    typer.echo(f"output tokens/s  {speed.output_tokens_per_second:,.0f}")
    p50, p99 = speed.latency_p50_milliseconds, speed.latency_p99_milliseconds
    typer.echo(f"latency          {p50:.1f} ms (p50), {p99:.1f} ms (p99) of {speed.calls:,} sentences, one at a time")
    typer.echo(f"peak memory      {speed.memory_bytes / 2**20:,.0f} MiB")
    typer.echo(f"CPU              {speed.threads} threads, {speed.cores:.1f} cores busy")
    typer.echo(f"versions         weft {record['weft']}, torch {record['torch']}, Python {record['python']}")


Minutes = Annotated[float, typer.Option("--minutes", min=0.01, help="Approximate duration of the measurement.")]
VARY_HELP = "Vary only this size: source_length, target_length, batch, beam or vocabulary; may be repeated."
Vary = Annotated[list[str] | None, typer.Option("--vary", metavar="SIZE", help=VARY_HELP)]
AT_HELP = "The value of a size while others vary; may be repeated."
At = Annotated[list[str] | None, typer.Option("--at", metavar="SIZE=N", help=AT_HELP)]
TO_HELP = "Write JSON, SVG and PNG into this folder."
To = Annotated[Path | None, typer.Option("--to", "--out", metavar="DIR", help=TO_HELP, show_default=False)]
GPUS_HELP = "Also predict tokens/s of training on these numbers of GPUs."
Gpus = Annotated[str | None, typer.Option("--gpus", metavar="N,N", help=GPUS_HELP, show_default=False)]
INTERCONNECT_HELP = "--gpus: nvlink (eight GPUs a machine), infiniband (one), or a rate between any two GPUs."
Interconnect = Annotated[str, typer.Option("--interconnect", metavar="NAME|GB/s", help=INTERCONNECT_HELP)]


@app.command("scale", epilog="Try:  weft bench scale addition --minutes 0.5 --vary batch")
def scaling(
    recipe: RecipeName,
    changes: Changes = None,
    device: DeviceOrNone = None,
    minutes: Minutes = 1.0,
    vary: Vary = None,
    at: At = None,
    to: To = None,
    gpus: Gpus = None,
    interconnect: Interconnect = "nvlink",
    as_json: Json = False,
) -> None:
    """Measure how time and memory grow with length, batch size, beam size and vocabulary size.

    For a training update, the encoder and a search step: tables and log-log charts, fitted exponents with 95 %
    intervals, the share of the machine's peak matrix throughput and memory bandwidth, and the size at which memory
    runs out. Weights and tokens are random: no data is needed. Without --to nothing is written.

    With --gpus 2,8,64, the speed of data-parallel and FSDP training on several GPUs is predicted from the measured
    update and the rate of the interconnect; the assumptions are printed with it.
    """
    from weft.apps.bench.cluster import forecast, parse_gpus, parse_interconnect
    from weft.apps.bench.sizes import base_sizes, check_axis
    from weft.recipe import load_recipe

    settings = load_recipe(recipe, [*(changes or ()), *([f"training.device={device}"] if device else [])])
    base_sizes(settings, on_gpu=False, at=at or ())
    for name in vary or ():
        check_axis(name, "vary", name)
    if to is not None and to.exists() and not to.is_dir():
        raise DataError(f"{to}: is a file, expected a folder for the results")
    counts = [] if gpus is None else parse_gpus(gpus)
    parse_interconnect(interconnect)
    if counts and "batch" not in (vary or ["batch"]):
        raise RecipeError("--gpus: predicts from updates of several batch sizes; add --vary batch")
    check_device(device)
    from weft.apps.bench.scale import measure_scale

    scale = measure_scale(settings, minutes=minutes, vary=vary or (), at=at or ())
    from weft.apps.bench import report

    predicted = None
    if counts:
        batch_tokens = settings.training.batch_tokens
        predicted = forecast(scale, gpus=counts, interconnect=interconnect, batch_tokens=batch_tokens)
        if predicted is None:
            warn("--gpus: no update was measured, so nothing is predicted; give it more time with --minutes")
    paths = [] if to is None else report.save(scale, to, predicted)
    if as_json:
        typer.echo(json_text(report.json_record(scale, predicted)))
        return
    _print_report(scale, predicted)
    for path in paths:
        typer.echo(path)


def _print_report(scale: Scale, forecast: Forecast | None) -> None:
    from rich.console import Console

    from weft.apps.bench.report import text

    console = Console(highlight=False)
    color = console.color_system is not None and not console.no_color
    sys.stdout.write(text(scale, console.width, color=color, ascii_only=console.options.ascii_only, forecast=forecast))
