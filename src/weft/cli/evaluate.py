"""``weft evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.arguments import (
    Changes,
    Device,
    Engine,
    Json,
    PairsFile,
    Precision,
    Run,
    RunArguments,
    Search,
    SourceFile,
    TargetFile,
    With,
    read_given,
    search_changes,
)
from weft.cli.length_limit import warn_of_cut_off
from weft.evaluation.metrics import METRICS, check_metrics

if TYPE_CHECKING:
    from weft.data.pairs import Pair
    from weft.evaluation.report import Report
    from weft.evaluation.search_errors import SearchErrors
    from weft.recipe import Recipe

Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", metavar="NAME", help=f"{', '.join(METRICS)}; may be repeated."),
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
    pairs: PairsFile = None,
    source: SourceFile = None,
    target: TargetFile = None,
    metric: Metrics = None,
    references: References = None,
    split: Split = "test",
    search: Search = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Use only the first N pairs.")] = None,
    errors: Annotated[
        bool, typer.Option("--search-errors", help="Count search errors and model errors instead.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", help="Write the translations to this file.")] = None,
    as_json: Json = False,
    more: With = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Evaluate a run: metrics with their signatures.

    The pairs are the given ones or, by default, the test set of the run's recipe. With --search-errors: how often the
    search missed the output that the model scores highest (found by an exact search of at most search.max_nodes
    nodes), and how often that output is not the reference.
    """
    _check_options(metric or [], references, split, errors=errors)
    arguments = RunArguments(run, more, device, precision, engine)
    arguments.check()
    settings = search_changes(run, search, changes)
    given = read_given(pairs, source, target)
    from weft.evaluation.report import evaluate, search_errors
    from weft.files import save_text

    model = arguments.load()
    given = (_corpus(model.recipe, split) if given is None else given)[:limit]
    if errors:
        judged = search_errors(model, given, **settings)
        outputs, record = [sentence.output.text for sentence in judged.sentences], judged.record()
        lines = _search_error_lines(judged)
    else:
        report = evaluate(model, given, metric, references=references, **settings)
        outputs, record, lines = report.outputs, report.record(), _metric_lines(report)
        warn_of_cut_off(report.ended_by_length, len(outputs), model.search_settings(settings))
    if output is not None:
        save_text(output, "".join(line + "\n" for line in outputs))
    typer.echo(json.dumps(record, ensure_ascii=False) if as_json else "\n".join(lines))


def _check_options(metrics: list[str], references: str | None, split: str, *, errors: bool) -> None:
    from weft.errors import DataError, RecipeError

    if errors and metrics:
        raise RecipeError("--search-errors and --metric: two reports; choose one of them")
    if errors and references:
        raise RecipeError("--search-errors and --references: search errors are those of each pair; leave one out")
    if references not in (None, "each", "grouped"):
        raise RecipeError(f"--references {references}: use each or grouped")
    if split not in ("test", "valid"):
        raise DataError(f"--split {split}: use test or valid")
    check_metrics(metrics)


def _corpus(recipe: Recipe, split: str) -> list[Pair]:
    """The pairs of the recipe's test or validation set; dropped rows are reported on stderr."""
    from collections import Counter

    from weft.preparation import read_corpus

    problems: Counter[str] = Counter()
    pairs = list(read_corpus(recipe, split, problems))
    for kind, count in problems.items():
        typer.echo(f"dropped: {count:,} rows that cannot be read ({kind})", err=True)
    return pairs


def _metric_lines(report: Report) -> list[str]:
    """One line per score, followed by that of the references if they have one."""
    lines = []
    for score in report.scores:
        lines.append(f"{score.name:<24}{score.value:8.2f}   {score.signature}|{report.search}")
        if score.name in report.reference_scores:
            lines.append(f"{'  in the references':<24}{report.reference_scores[score.name].value:8.2f}")
    if report.alignment is not None:
        lines.append(f"{'alignment error rate':<24}{report.alignment.error_rate:8.2f}   {report.alignment.signature}")
    lines.append(f"{'perplexity':<24}{report.perplexity.value:8.3f}   {report.perplexity.signature}")
    counts = f"{report.pairs} pairs"
    if report.items is not None:
        counts = f"{report.items} items with {report.pairs} references"
    return [*lines, f"{counts}, searched in {report.seconds:.1f} s"]


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
