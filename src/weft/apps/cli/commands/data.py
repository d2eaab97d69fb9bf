"""``weft data``: statistics of a corpus, what a recipe would keep of it, and preparing it once for many runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.apps.cli.arguments import AcceptNewData, Changes, Json, Source, Target, TargetsFile
from weft.apps.cli.commands.data_clean import clean_command
from weft.apps.cli.commands.data_show import ascii_only, show_command, width
from weft.apps.cli.commands.data_terms import terms_command
from weft.apps.cli.terminal.help_text import CommandGroup
from weft.errors import DataError, plural
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from weft.data.pairs import Pair
    from weft.data.store.block_tokenizer import RowCounts
    from weft.recipe import Recipe

app = CommandGroup(help="Inspect, check, prepare and generate corpora.", no_args_is_help=True)
app.command("show", epilog="Try:  weft data show grammar   or   weft data show train.en train.de")(show_command)
app.command("clean", epilog="Try:  weft data clean pairs.tsv --drop 5% --out clean.tsv")(clean_command)
app.command("terms", epilog="Try:  weft data terms pairs.tsv --out terms.tsv")(terms_command)
TASK_NAMES = "addition, copy, reverse, sort, dates, grammar, coreference, trees or drawn-digits"
"""Names of the built-in corpora (`weft.tasks.TASKS`, which takes 0.1 s to import)."""
RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="The name of a shipped recipe, or a TOML file.")]


@app.command("check", epilog="Try:  weft data check grammar --set 'data.pipeline=[{kind=\"length\", max=8}]'")
def check_command(
    name: RecipeName,
    changes: Changes = None,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Dropped pairs to show of each kind.")] = 3,
    accept_new_data: AcceptNewData = False,
    as_json: Json = False,
) -> None:
    """Show what a recipe drops from its training corpora, and why, without training.

    Invalid rows are counted, whatever the value of data.bad_rows. Last, how many validation and test pairs are in the
    training data.
    """
    from weft.recipe import load_recipe

    recipe = load_recipe(name, [*(changes or []), "data.bad_rows=skip", "data.blank_rows=skip"])
    recipe = recipe.accepting_new_data() if accept_new_data else recipe
    from weft.data.preparation import check_corpus, find_corpora, fingerprint_collector, training_overlaps

    fingerprints = fingerprint_collector(recipe, find_corpora(recipe, "train"))
    checked = check_corpus(recipe, examples=examples, fingerprints=fingerprints)
    for number, (corpus, counts) in enumerate(checked):
        if as_json:
            typer.echo(json.dumps({"corpus": corpus, **_record(recipe, counts)}, ensure_ascii=False))
        else:
            typer.echo(("\n" if number else "") + _report(recipe, corpus, counts))
    overlaps = training_overlaps(recipe, fingerprints.finish())
    if as_json and overlaps:
        record = {split: overlap.record() for split, overlap in overlaps.items()}
        typer.echo(json.dumps({"in_training_data": record}))
    elif overlaps:
        typer.echo("\n" + "\n".join(f"data.{split}: {overlap.describe()}" for split, overlap in overlaps.items()))


@app.command("prepare", epilog="Try:  weft data prepare grammar --out prepared/grammar")
def prepare_command(
    name: RecipeName,
    out: Annotated[Path, typer.Option("--out", help="The folder to write.", show_default=False)],
    changes: Changes = None,
) -> None:
    """Train the tokenizer and tokenize the corpus; runs with data.prepared=FOLDER then start immediately."""
    from weft.recipe import load_recipe

    recipe = load_recipe(name, [*(changes or []), f"data.prepared={json.dumps(str(out.resolve()))}"])
    if out.exists():
        raise DataError(f"{out}: already exists; remove it, or choose another folder with --out")
    from weft.data.preparation import prepare

    prepared = prepare(recipe.accepting_new_data())  # to train on the data of a recipe is to ask for them
    for corpus, counts in zip(prepared.names, prepared.counts, strict=True):
        typer.echo(f"{corpus}: {counts.kept:,} of {plural(counts.rows, 'row')} kept", err=True)
        for line in _error_lines(counts):
            typer.echo(f"  {line}", err=True)
    if Path(recipe.data.folder).resolve() != Path.cwd():  # to which a relative name would refer
        typer.echo(f"to train on it: --set data.prepared={out.resolve()}", err=True)
    size, pairs = prepared.data.corpus_size, prepared.pairs
    variants = f" in {size.pairs // pairs} variants each" if size.pairs > pairs > 0 else ""
    tokens = f"{size.source_tokens:,} source and {size.target_tokens:,} target tokens"
    typer.echo(f"{out}: {plural(pairs, 'pair')}{variants}, {tokens}")


@app.command("recommend", epilog="Try:  weft data recommend pairs.tsv > mine.toml   then   weft train mine.toml")
def recommend_command(
    pairs: Annotated[
        str | None,
        typer.Argument(metavar="PAIRS", help="A file of pairs, or a folder; - is standard input.", show_default=False),
    ] = None,
    targets: TargetsFile = None,
    source: Source = None,
    target: Target = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="For weft train PAIRS --minutes N: names the candidates that race."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recommend a recipe for pairs, each choice with its reason, without training.

    These are the choices of weft train PAIRS, or with --minutes those of weft train PAIRS --minutes N. A bounded sample
    is read, whatever the size of the files. The output is a recipe file.
    """
    from weft.pairs.profiling.inputs import PairsArgument
    from weft.pairs.recommendation.proposals import propose
    from weft.pairs.recommendation.recommend import recommend_recipe
    from weft.pairs.time_limit.budget import TimeLimit
    from weft.recipe.toml import comment

    if targets is not None and (source is not None or target is not None):
        raise DataError("--source and --target name columns of one file, or two files; give no TARGETS beside them")
    argument = PairsArgument(pairs, source, target) if targets is None else PairsArgument(None, pairs, targets)
    if minutes is not None:
        TimeLimit.from_now(minutes)  # checks the number
    recommendation = recommend_recipe(argument, minutes=minutes)
    candidates = propose(recommendation) if minutes is not None else []
    race = {candidate.name: candidate.summary for candidate in candidates if len(candidates) > 1}
    if as_json:
        record = recommendation.record()
        typer.echo(json.dumps(record if minutes is None else {**record, "race": race}, ensure_ascii=False))
    else:
        if race:
            typer.echo(comment(f"race: {'; '.join(f'{name} ({network})' for name, network in race.items())}"))
        for reason in (candidate.alone for candidate in candidates if candidate.alone is not None):
            typer.echo(comment(f"no race: {reason}"))
        typer.echo(recommendation.toml(), nl=False)


@app.command("generate", epilog="Try:  weft data generate grammar --count 1000 --out pairs.tsv.gz")
def generate_command(
    task: Annotated[str, typer.Argument(metavar="TASK", help=f"A built-in corpus: {TASK_NAMES}.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of pairs.")] = 1_000,
    out: Annotated[
        Path | None, typer.Option("--out", help="A TSV file; by default standard output. Of pictures: a folder.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "train",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed.")] = 1,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the corpus.")
    ] = None,
) -> None:
    """Write pairs of a built-in corpus to a file: source, tab, target, and the word links if they are known.

    Pictures are written into a folder, beside SPLIT.tsv, a table of their names and targets.
    """
    from weft.data.reading.pair_files import write_pairs
    from weft.recipe import parse_change
    from weft.tasks import TASKS, generate, write_pictures

    options: dict[str, Any] = {}
    for change in changes or []:
        path, value = parse_change(change)
        options[".".join(path)] = value
    pairs = _generated(generate(task, split, count, seed=seed, options=options), count)
    if TASKS[task].draw is not None:
        if out is None or out.suffix:
            raise DataError(f"{task}: its sources are pictures; give a folder to write them into with --out FOLDER")
        pairs, out = write_pictures(task, pairs, out), out / f"{split}.tsv"
    if out is not None:
        typer.echo(f"{out}: {plural(write_pairs(out, pairs), 'pair')}")
        return
    for pair in pairs:
        links = () if pair.links is None else (" ".join(f"{left}-{right}" for left, right in pair.links),)
        typer.echo("\t".join((pair.source, pair.target, *links)))


def _generated(pairs: Iterable[Pair], count: int) -> Iterator[Pair]:
    """Yield the pairs, with a counter on stderr."""
    with activity("generating", "pairs", total=count) as generating:
        for pair in pairs:
            yield pair
            generating.done += 1


def _report(recipe: Recipe, name: str, counts: RowCounts) -> str:
    """A table of the rows dropped from one corpus."""
    from weft.data.filtering.statistics import Sample
    from weft.pictures.corpus_report import StepCount, check

    rows = [
        StepCount(
            description, counts.dropped.get(reason, 0), [Sample(*pair) for pair in counts.examples.get(reason, [])]
        )
        for reason, description in _drop_reasons(recipe)
    ]
    table = check(rows, pairs=counts.rows, width=width(), ascii_only=ascii_only())
    return "\n".join([name, table, *_error_lines(counts)])


def _error_lines(counts: RowCounts) -> list[str]:
    """The row errors, a line for each kind."""
    return [
        f"left out ({kind}): {counts.row_errors[kind]:,}; the first: {first}"
        for kind, first in counts.first_errors.items()
    ]


def _record(recipe: Recipe, counts: RowCounts) -> dict[str, Any]:
    """The counts for programs, with what was dropped by its reason, in the order of the table."""
    dropped = dict[str, int]()
    for reason, description in _drop_reasons(recipe):
        if count := counts.dropped.get(reason, 0):
            dropped[description] = dropped.get(description, 0) + count
    return {**counts.record(), "dropped": dropped}


def _drop_reasons(recipe: Recipe) -> list[tuple[int, str]]:
    """The drop reasons in the order in which they apply to a row: unreadable, blank, the steps, too long."""
    from weft.data.preparation import drop_reasons
    from weft.data.store.block_tokenizer import BLANK, TOO_LONG, UNREADABLE

    descriptions = drop_reasons(recipe)
    steps = sorted(reason for reason in descriptions if reason >= 0)
    return [(reason, descriptions[reason]) for reason in (UNREADABLE, BLANK, *steps, TOO_LONG)]
