"""``weft evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.arguments import (
    Changes,
    Device,
    Json,
    PairsFile,
    Run,
    Search,
    SourceFile,
    TargetFile,
    read_given,
    search_changes,
)


def command(
    run: Run,
    pairs: PairsFile = None,
    source: SourceFile = None,
    target: TargetFile = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="bleu, chrf, ter, exact_match, …; may be repeated.")
    ] = None,
    split: Annotated[
        str, typer.Option("--split", help="Which of the recipe's pairs, where none are given: test or valid.")
    ] = "test",
    search: Search = None,
    output: Annotated[Path | None, typer.Option("--output", help="Write the translations to this file.")] = None,
    as_json: Json = False,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Measure a run: metrics with their signatures.

    On the pairs given or, without any, on the test set that the run's recipe names.
    """
    from weft.build import read_corpus
    from weft.errors import DataError
    from weft.files import save_text
    from weft.report import evaluate
    from weft.translator import load

    given = read_given(pairs, source, target)
    model = load(run, device=device)
    if given is None:
        if split not in ("test", "valid"):
            raise DataError(f"--split {split}: use test or valid")
        given = list(read_corpus(model.recipe, split))
    report = evaluate(model, given, metric, **search_changes(search, changes))
    if output is not None:
        save_text(output, "".join(line + "\n" for line in report.outputs))
    if as_json:
        typer.echo(json.dumps(report.record(), ensure_ascii=False))
        return
    for one in report.measures:
        typer.echo(f"{one.name:<24}{one.value:8.2f}   {one.signature}|{report.search}")
    if report.alignment is not None:
        typer.echo(f"{'alignment error rate':<24}{report.alignment.error_rate:8.2f}   {report.alignment.signature}")
    typer.echo(f"{'perplexity':<24}{report.perplexity.value:8.3f}   {report.perplexity.signature}")
    typer.echo(f"{report.pairs} pairs, searched in {report.seconds:.1f} s")
