"""``weft report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from weft.apps.cli.arguments import (
    AcceptNewData,
    Adapter,
    Changes,
    Device,
    Engine,
    Json,
    Limit,
    PairsOrM2,
    Precision,
    Run,
    RunArguments,
    Samples,
    SamplesSeed,
    Search,
    SourceFile,
    TargetFile,
    check_file,
    check_output,
    read_given,
    search_changes,
    show_left_out,
)
from weft.apps.cli.commands.evaluate import Metrics
from weft.evaluation.metrics import check_metrics
from weft.files import json_text

Page = Annotated[
    Path | None,
    typer.Option(
        "--to", "--out", help="The page to write; by default report.html in the run folder.", show_default=False
    ),
]


def command(
    run: Run,
    pairs: PairsOrM2 = None,
    source: SourceFile = None,
    target: TargetFile = None,
    to: Page = None,
    metric: Metrics = None,
    search: Search = None,
    limit: Limit = None,
    samples: Samples = 1_000,
    seed: SamplesSeed = 12_345,
    accept_new_data: AcceptNewData = False,
    as_json: Json = False,
    adapter: Adapter = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Write a report on a run: one self-contained HTML page.

    Data, settings and their reasons, learning curves, scores with signatures and bootstrap intervals, quality by
    length, by how rare the words are and by whether the source was seen in training, confusions, calibration, examples
    with attention maps, speed and the model card. The pairs are the given ones, the test set of the run's recipe or, if
    it has none, the validation set. With --json the numbers are printed, and a page is written only if --to is given.
    """
    check_metrics(metric or [])
    arguments = RunArguments(run, None, device, precision, engine, adapter, accept_new_data)
    arguments.check()
    settings = search_changes(run, search, changes)
    check_output(to)
    if pairs is not None:
        check_file(pairs)
    is_named = pairs not in (None, "-") and source is None and target is None  # the report names the file
    given = pairs if is_named else read_given(run, pairs, source, target)
    from weft.apps.reporting.report import report

    made = report(arguments.load(), given, metric, limit=limit, samples=samples, seed=seed, **settings)
    if adapter is not None:
        made = replace(made, name=f"{made.name}:{adapter}")
    show_left_out(made.left_out)
    typer.echo(json_text(made.record()) if as_json else "\n".join(made.summary()))
    if to is not None or not as_json:  # the scores are not lost if it cannot be written
        path = made.save(to)
        typer.echo(path, err=as_json)
