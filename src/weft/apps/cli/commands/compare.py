"""``weft compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.arguments import (
    AcceptNewData,
    Changes,
    Device,
    Engine,
    Json,
    Limit,
    Precision,
    RunArguments,
    Samples,
    SamplesSeed,
    Search,
    SourceFile,
    TargetFile,
    check_file,
    read_given,
    search_changes,
    show_left_out,
)
from weft.apps.cli.commands.evaluate import Metrics
from weft.errors import RecipeError
from weft.evaluation.metrics import check_metrics
from weft.files import json_text
from weft.runs.adapted_run import AdaptedRun

if TYPE_CHECKING:
    from weft.evaluation.comparison import ComparedRun

Baseline = Annotated[
    str, typer.Argument(metavar="RUN", help="The run folder that the others are compared with.", show_default=False)
]
OthersAndPairs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN",
        help="Other run folders, at least one. The last argument may be PAIRS, to use instead of the test set: a "
        "TSV file of source and target, or an M2 file (*.m2); - is standard input.",
        show_default=False,
    ),
]
TESTS = ("randomization", "bootstrap")


def command(
    run: Baseline,
    others: OthersAndPairs,
    source: SourceFile = None,
    target: TargetFile = None,
    metric: Metrics = None,
    search: Search = None,
    limit: Limit = None,
    samples: Samples = 1_000,
    seed: SamplesSeed = 12_345,
    test: Annotated[str, typer.Option("--test", help="Paired test: randomization or bootstrap.")] = TESTS[0],
    examples: Annotated[
        int, typer.Option("--examples", min=0, help="Show at most N lines with different outputs for each run.")
    ] = 5,
    accept_new_data: AcceptNewData = False,
    as_json: Json = False,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Compare runs on the same test set: scores, significance of the differences, and where the outputs differ.

    weft compare RUN RUN [PAIRS]: the first run is the baseline that every other run is compared with; RUN:ADAPTER is a
    run with one of its adapters, and RUN:none one without. The metrics are those of its recipe, or those given by
    --metric. Scores and differences have 95 % intervals by bootstrap; the p-value of a difference is that of
    approximate randomization or, with --test bootstrap, of paired bootstrap resampling. Then: how many lines only one
    of the two runs has right, and the lines whose outputs differ most in their similarity to the reference.
    """
    if test not in TESTS:
        raise RecipeError(f"--test {test}: use {' or '.join(TESTS)}")
    check_metrics(metric or [])
    folders, pairs = split_arguments([run, *others])
    runs = [AdaptedRun.parse(folder) for folder in folders]
    options = (device, precision, engine)
    arguments = [RunArguments(each.path, None, *options, each.adapter, accept_new_data) for each in runs]
    for each in runs:
        each.check()
    for each in runs:  # the same changes, checked with the recipe of each run
        settings = search_changes(each.path, search, changes)
    is_m2 = pairs is not None and pairs.endswith(".m2") and source is None and target is None
    if pairs is not None:
        check_file(pairs)
    given = pairs if is_m2 else read_given(runs[0].path, pairs, source, target)
    from weft.evaluation.comparison import compare_candidates
    from weft.evaluation.significance import Resampling

    candidates = [_candidate(argument, str(each)) for argument, each in zip(arguments, runs, strict=True)]
    resampling = Resampling(samples, seed, test)
    comparison = compare_candidates(candidates, given, metric, limit, resampling, settings)
    show_left_out(comparison.left_out)
    typer.echo(json_text(comparison.record(examples)) if as_json else "\n".join(comparison.summary(examples)))


def split_arguments(names: list[str]) -> tuple[list[Path], str | None]:
    """The run folders, and the file of pairs if the last argument is one: a file, ``-``, or a name with an ending."""
    last = Path(names[-1])
    is_file = names[-1] == "-" or last.is_file() or (len(names) > 2 and bool(last.suffix) and not last.is_dir())
    folders, pairs = (names[:-1], names[-1]) if is_file else (names, None)
    if len(folders) < 2:
        raise RecipeError(f"compare: {' '.join(names)}: expected two or more run folders, then a file of pairs if any")
    return [Path(folder) for folder in folders], pairs


def _candidate(arguments: RunArguments, name: str) -> ComparedRun:
    from weft.evaluation.comparison import candidate_of_folder

    candidate = candidate_of_folder(arguments.run, arguments.load)._replace(name=name)
    return candidate._replace(recipe=candidate.recipe.accepting_new_data()) if arguments.accept_new_data else candidate
