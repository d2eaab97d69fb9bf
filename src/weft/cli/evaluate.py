"""``weft evaluate``."""

from __future__ import annotations

import json
from collections import Counter
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
    Search,
    SourceFile,
    TargetFile,
    With,
    load_run,
    read_given,
    search_changes,
)
from weft.evaluation.metrics import METRICS, check_metrics

if TYPE_CHECKING:
    from weft.evaluation.report import Report
    from weft.evaluation.search_errors import SearchErrors


def command(
    run: Run,
    pairs: PairsFile = None,
    source: SourceFile = None,
    target: TargetFile = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAME", help=f"{', '.join(METRICS)}; may be repeated."),
    ] = None,
    references: Annotated[
        str | None,
        typer.Option(
            "--references",
            metavar="HOW",
            help="each: a pair is an item; grouped: pairs with the same source are one item with several references. "
            "Not said, as in the recipe.",
        ),
    ] = None,
    split: Annotated[
        str, typer.Option("--split", help="Which of the recipe's pairs, where none are given: test or valid.")
    ] = "test",
    search: Search = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many pairs.")] = None,
    errors: Annotated[
        bool, typer.Option("--search-errors", help="Tell errors of the search from errors of the model.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", help="Write the translations to this file.")] = None,
    as_json: Json = False,
    more: With = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Measure a run: metrics with their signatures.

    On the pairs given or, without any, on the test set that the run's recipe names. With --search-errors, instead:
    how often the search missed what the model rates highest (found by an exact search, where search.max_nodes
    suffice), and how often that is not the reference.
    """
    from weft.errors import DataError, RecipeError
    from weft.evaluation.report import evaluate, search_errors
    from weft.files import save_text
    from weft.preparation import read_corpus

    if errors and metric:
        raise RecipeError("--search-errors and --metric: two reports; ask for one at a time")
    if errors and references:
        raise RecipeError("--search-errors and --references: search errors are those of each pair; leave one out")
    if references not in (None, "each", "grouped"):
        raise RecipeError(f"--references {references}: use each or grouped")
    check_metrics(metric or [])
    given = read_given(pairs, source, target)
    model = load_run(run, more, device=device, precision=precision, engine=engine)
    if given is None:
        if split not in ("test", "valid"):
            raise DataError(f"--split {split}: use test or valid")
        problems: Counter[str] = Counter()
        given = list(read_corpus(model.recipe, split, problems))
        for kind, count in problems.items():
            typer.echo(f"left out: {count:,} rows that cannot be read ({kind})", err=True)
    settings = search_changes(search, changes)
    if errors:
        judged = search_errors(model, given[:limit], **settings)
        outputs, record, lines = [one.output.text for one in judged.sentences], judged.record(), _errors(judged)
    else:
        report = evaluate(model, given[:limit], metric, references=references, **settings)
        outputs, record, lines = report.outputs, report.record(), _metrics(report)
    if output is not None:
        save_text(output, "".join(line + "\n" for line in outputs))
    typer.echo(json.dumps(record, ensure_ascii=False) if as_json else "\n".join(lines))


def _metrics(report: Report) -> list[str]:
    """A line a number, the references' own below it where they have one."""
    lines = []
    for one in report.scores:
        lines.append(f"{one.name:<24}{one.value:8.2f}   {one.signature}|{report.search}")
        if one.name in report.reference_scores:
            lines.append(f"{'  in the references':<24}{report.reference_scores[one.name].value:8.2f}")
    if report.alignment is not None:
        lines.append(f"{'alignment error rate':<24}{report.alignment.error_rate:8.2f}   {report.alignment.signature}")
    lines.append(f"{'perplexity':<24}{report.perplexity.value:8.3f}   {report.perplexity.signature}")
    counted = f"{report.pairs} pairs"
    if report.items is not None:
        counted = f"{report.items} items with {report.pairs} references"
    return [*lines, f"{counted}, searched in {report.seconds:.1f} s"]


def _errors(judged: SearchErrors) -> list[str]:
    """The counts, and what the worst search errors look like."""
    lines = judged.summary()
    for one in judged.worst():
        sides = {"found": one.output, "best" if one.proven else "better": one.best, "reference": one.reference}
        lines += ["", f"source     {one.source}"]
        lines += [
            f"{name:<11}{said.text or '(nothing)'}   {said.score(judged.ranking):.4f}"
            for name, said in sides.items()
            if said is not None
        ]
    return lines
