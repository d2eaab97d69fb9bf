"""``weft evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    Search,
    SourceFile,
    TargetFile,
    With,
    check_output,
    read_given,
    search_changes,
    show_left_out,
)
from weft.errors import DataError, RecipeError
from weft.evaluation.metrics import METRICS, check_metrics
from weft.files import json_text, save_text
from weft.translation.text_warnings import warn_of_cut_off

if TYPE_CHECKING:
    from weft.evaluation.search_errors import SearchErrors

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help=f"{', '.join(METRICS)}; may be repeated. exact_match@5: a reference is among the 5 best outputs.",
    ),
]
References = Annotated[
    str | None,
    typer.Option(
        "--references",
        metavar="HOW",
        help="each: every pair is an item; grouped: pairs with the same source are one item with several references; "
        "by default as in the recipe.",
    ),
]
Split = Annotated[str, typer.Option("--split", help="The recipe's test or valid set, if no pairs are given.")]


def command(
    run: Run,
    pairs: PairsOrM2 = None,
    source: SourceFile = None,
    target: TargetFile = None,
    metric: Metrics = None,
    references: References = None,
    split: Split = "test",
    search: Search = None,
    limit: Limit = None,
    errors: Annotated[
        bool, typer.Option("--search-errors", help="Count search errors and model errors instead.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "--out", help="Write the translations to this file, one line for each item."),
    ] = None,
    accept_new_data: AcceptNewData = False,
    as_json: Json = False,
    more: With = None,
    adapter: Adapter = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Evaluate a run: metrics with their signatures.

    The pairs are the given ones or, by default, the test set of the run's recipe. Columns of JSON lines, Parquet, CSV
    and TSV are those that the recipe names; --source and --target name others. Pairs with a blank side are left out and
    counted, unless data.blank_rows of the recipe says otherwise. The report states how many of the pairs the run was
    trained on. For an M2 file (sentences with the corrections of annotators), precision, recall and F0.5 of the edits
    are reported too. With --search-errors: how often the search missed the output that the model scores highest (found
    by an exact search of at most search.max_nodes nodes), and how often that output is not the reference.
    """
    _check_options(metric or [], references, split, errors=errors)
    arguments = RunArguments(run, more, device, precision, engine, adapter, accept_new_data)
    arguments.check()
    settings = search_changes(run, search, changes)
    check_output(output)
    is_m2 = pairs is not None and pairs.endswith(".m2") and source is None and target is None
    if is_m2 and errors:
        raise RecipeError(f"--search-errors: {pairs} is an M2 file; give a file of pairs")
    given = pairs if is_m2 else read_given(run, pairs, source, target)
    from weft.evaluation.evaluate import evaluate, search_errors
    from weft.translation.output_format import in_one_line

    model = arguments.load()
    if errors:
        judged = search_errors(model, given, split=split, limit=limit, **settings)
        outputs, record = [sentence.output.text for sentence in judged.sentences], judged.record()
        lines, left_out = _search_error_lines(judged), judged.left_out
    else:
        report = evaluate(model, given, metric, split=split, references=references, limit=limit, **settings)
        outputs, record, lines, left_out = report.outputs, report.record(), report.summary(), report.left_out
        warn_of_cut_off(report.ended_by_length, len(outputs), model.search_settings(settings))
    show_left_out(left_out)
    typer.echo(json_text(record) if as_json else "\n".join(lines))
    if output is not None:  # the scores are not lost if it cannot be written
        save_text(output, "".join(in_one_line(text) + "\n" for text in outputs))


def _check_options(metrics: list[str], references: str | None, split: str, *, errors: bool) -> None:
    if errors and metrics:
        raise RecipeError("--search-errors and --metric: two reports; choose one of them")
    if errors and references:
        raise RecipeError("--search-errors and --references: search errors are those of each pair; leave one out")
    if references not in (None, "each", "grouped"):
        raise RecipeError(f"--references {references}: use each or grouped")
    if split not in ("test", "valid"):
        raise DataError(f"--split {split}: use test or valid")
    check_metrics(metrics)


def _search_error_lines(judged: SearchErrors) -> list[str]:
    """The counts, and the worst search errors."""
    lines = judged.summary()
    for sentence in judged.worst():
        outputs = {
            "found": sentence.output,
            "best" if sentence.proven else "better": sentence.best,
            "reference": sentence.reference,
        }
        lines += ["", f"source     {sentence.source}"]
        lines += [
            f"{name:<11}{output.text or '(empty)'}   {output.score(judged.ranking):.4f}"
            for name, output in outputs.items()
            if output is not None
        ]
    return lines
