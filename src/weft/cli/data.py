"""``weft data``: what is in a corpus, what a recipe would keep of it, and preparing it once for many runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.arguments import Changes, Json
from weft.errors import DataError

if TYPE_CHECKING:
    from weft.data.store.prepared import RowCounts
    from weft.recipe import Recipe

app = typer.Typer(help="Look at corpora, check what a recipe keeps of them, prepare them.", no_args_is_help=True)
What = Annotated[str, typer.Argument(metavar="RECIPE|FILE", help="A recipe, or a file of pairs; - is standard input.")]
RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped recipe's name, or a TOML file.")]


@app.command("show", epilog="Try:  weft data show grammar   or   weft data show train.en train.de")
def show_command(
    what: What,
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGETS]", help="The targets, where FILE has sources.")
    ] = None,
    source_column: Annotated[
        str | None, typer.Option("--source", metavar="COLUMN", help="Of a table: the source's column, name or number.")
    ] = None,
    target_column: Annotated[
        str | None, typer.Option("--target", metavar="COLUMN", help="Of a table: the target's column.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="Of a recipe: train, valid or test.")] = "train",
    samples: Annotated[int, typer.Option("--samples", min=0, help="Pairs to show.")] = 5,
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """Say what is in a corpus: pairs, lengths, scripts, duplicates, a histogram, a few pairs.

    Rows that cannot be read are counted, not fatal. Nothing is filtered.
    """
    from weft.data.pairs import RowError
    from weft.data.reading.statistics import Description
    from weft.preparation import find_corpora
    from weft.views.corpus_report import describe

    recipe = _recipe_or_files(what, target, source_column, target_column, changes)
    _check_split(split)
    for number, named in enumerate(find_corpora(recipe, split)):
        found = Description(samples=samples, seed=recipe.seed)
        problems: dict[str, tuple[int, str]] = {}
        for block in named.corpus.blocks():
            lines, pairs = [], []
            for line, row in block.rows():
                if isinstance(row, RowError):
                    count, first = problems.get(row.kind, (0, row.message))
                    problems[row.kind] = count + 1, first
                else:
                    lines.append(line)
                    pairs.append(row)
            found.add(pairs, name=block.name, lines=lines)
        if as_json:
            bad = {kind: {"rows": count, "first": first} for kind, (count, first) in problems.items()}
            typer.echo(json.dumps({"corpus": named.name, "bad_rows": bad, **found.record()}, ensure_ascii=False))
            continue
        typer.echo(("\n" if number else "") + describe(found, title=named.name, width=_width(), ascii_only=_ascii()))
        for kind, (count, first) in problems.items():
            typer.echo(f"bad rows ({kind}): {count:,}; the first: {first}")


@app.command("check", epilog="Try:  weft data check grammar --set 'data.pipeline=[{kind=\"length\", max=8}]'")
def check_command(
    name: RecipeName,
    changes: Changes = None,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Dropped pairs to show of each kind.")] = 3,
    as_json: Json = False,
) -> None:
    """Say what a recipe would leave out of its training corpora, and why, without training.

    Rows that cannot be read are counted here whatever data.bad_rows says.
    """
    from weft.preparation import check_corpus
    from weft.recipe import load_recipe

    recipe = load_recipe(name, [*(changes or []), "data.bad_rows=skip", "data.blank_rows=skip"])
    for number, (called, counts) in enumerate(check_corpus(recipe, examples=examples)):
        if as_json:
            typer.echo(json.dumps({"corpus": called, **_named(recipe, counts)}, ensure_ascii=False))
        else:
            typer.echo(("\n" if number else "") + _checked(recipe, called, counts))


@app.command("prepare", epilog="Try:  weft data prepare grammar --out prepared/grammar")
def prepare_command(
    name: RecipeName,
    out: Annotated[Path, typer.Option("--out", help="The folder to make.", show_default=False)],
    changes: Changes = None,
) -> None:
    """Learn the tokenizer and cut the whole corpus into ids, once; runs with data.prepared=FOLDER start at once."""
    from rich.console import Console

    from weft.preparation import prepare
    from weft.recipe import load_recipe

    recipe = load_recipe(name, [*(changes or []), f"data.prepared={json.dumps(str(out.resolve()))}"])
    if out.exists():
        raise DataError(f"{out}: exists already; remove it, or choose another folder with --out")
    with Console(stderr=True, markup=False, emoji=False).status("learning the tokenizer") as status:
        done = prepare(recipe, on_progress=lambda called, rows: status.update(f"{called}: {rows:,} rows"))
    for called, counts in zip(done.names, done.counts, strict=True):
        typer.echo(f"{called}: {counts.kept:,} of {counts.rows:,} rows kept", err=True)
        for line in _problems(counts):
            typer.echo(f"  {line}", err=True)
    if Path(recipe.data.folder).resolve() != Path.cwd():  # where a relative name would be looked for
        typer.echo(f"to train on it: --set data.prepared={out.resolve()}", err=True)
    size = done.data.corpus_size
    cuts = f", each cut in {size.pairs // done.pairs} ways" if size.pairs > done.pairs > 0 else ""
    typer.echo(
        f"{out}: {done.pairs:,} pairs{cuts}, {size.source_tokens:,} source and {size.target_tokens:,} target tokens"
    )


@app.command("generate", epilog="Try:  weft data generate grammar --count 1000 --out pairs.tsv.gz")
def generate_command(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A built-in corpus.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Pairs.")] = 1_000,
    out: Annotated[Path | None, typer.Option("--out", help="A TSV file, compressed by its name; else printed.")] = None,
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "train",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed draws other pairs.")] = 1,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the corpus.")
    ] = None,
) -> None:
    """Write pairs of a built-in corpus to a file: source, tab, target, and the word links where they are known."""
    from weft.data.reading.pair_files import write_pairs
    from weft.recipe import parse_change
    from weft.tasks import generate

    options: dict[str, Any] = {}
    for change in changes or []:
        path, value = parse_change(change)
        options[".".join(path)] = value
    pairs = generate(task, split, count, seed=seed, options=options)
    if out is not None:
        typer.echo(f"{out}: {write_pairs(out, pairs):,} pairs")
        return
    for pair in pairs:
        links = () if pair.links is None else (" ".join(f"{left}-{right}" for left, right in pair.links),)
        typer.echo("\t".join((pair.source, pair.target, *links)))


def _recipe_or_files(
    what: str, target: str | None, source_column: str | None, target_column: str | None, changes: list[str] | None
) -> Recipe:
    """A recipe by name, or one made up for files."""
    from weft.data.reading.formats import format_of
    from weft.recipe import load_recipe, make_recipe, shipped
    from weft.tasks import TASKS

    columns = source_column is not None or target_column is not None
    if target is None and not columns and (what in shipped() or what.endswith(".toml")):
        return load_recipe(what, changes or ())
    if columns and (source_column is None or target_column is None or target is not None):
        raise DataError("--source and --target name columns of one file; give both")
    train: Any = what
    if target is not None:
        train = {"source": what, "target": target}
    elif columns:
        train = {"file": what, "source": _column(source_column), "target": _column(target_column)}
    elif what not in TASKS and format_of(what) not in (None, "tsv"):
        raise DataError(f"{what}: say which columns, e.g. --source en --target de")
    return make_recipe({"data": {"train": train}}, changes or ())


def _column(given: str | None) -> int | str:
    assert given is not None
    return int(given) if given.isdecimal() else given


def _check_split(split: str) -> None:
    from weft.errors import nearest
    from weft.tasks import SPLITS

    if split not in SPLITS:
        raise DataError(f"--split {split}: {nearest(split, SPLITS)}")


def _checked(recipe: Recipe, name: str, counts: RowCounts) -> str:
    """The table of one corpus."""
    from weft.data.reading.statistics import Sample
    from weft.preparation import drop_reasons
    from weft.views.corpus_report import StepCount, check

    reasons = drop_reasons(recipe)
    rows = [
        StepCount(
            reasons[drop_reason],
            counts.dropped.get(drop_reason, 0),
            [Sample(*one) for one in counts.examples.get(drop_reason, [])],
        )
        for drop_reason in _order(reasons)
    ]
    lines = [name, check(rows, pairs=counts.rows, width=_width(), ascii_only=_ascii())]
    return "\n".join([*lines, *_problems(counts)])


def _problems(counts: RowCounts) -> list[str]:
    """What was wrong with rows, a line for each kind."""
    return [f"left out ({kind}): {counts.problems[kind]:,}; the first: {first}" for kind, first in counts.first.items()]


def _named(recipe: Recipe, counts: RowCounts) -> dict[str, Any]:
    """The same for programs: what was dropped by its reason, in the order of the table."""
    from weft.preparation import drop_reasons

    reasons, dropped = drop_reasons(recipe), dict[str, int]()
    for drop_reason in _order(reasons):
        if times := counts.dropped.get(drop_reason, 0):
            dropped[reasons[drop_reason]] = dropped.get(reasons[drop_reason], 0) + times
    return {**counts.record(), "dropped": dropped}


def _order(reasons: dict[int, str]) -> Iterator[int]:
    """As a row meets them: what is bad, what is blank, the steps, what is too long."""
    from weft.data.store.block_tokenizer import BLANK, TOO_LONG, UNREADABLE

    yield from (UNREADABLE, BLANK)
    yield from sorted(drop_reason for drop_reason in reasons if drop_reason >= 0)
    yield TOO_LONG


def _width() -> int:
    return min(get_terminal_size().columns, 120)


def _ascii() -> bool:
    """Whether the terminal cannot show bars."""
    from weft.views.histogram import can_show

    return not can_show(sys.stdout.encoding)
