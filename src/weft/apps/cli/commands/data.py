"""``weft data``: statistics of a corpus, what a recipe would keep of it, and preparing it once for many runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.apps.cli.arguments import AcceptNewData, Changes, Json, Source, Target
from weft.apps.cli.commands.data_clean import clean_command
from weft.apps.cli.terminal.help_text import CommandGroup
from weft.errors import DataError, plural
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from weft.data.filtering.statistics import CorpusStatistics
    from weft.data.pairs import Pair
    from weft.data.reading.corpora import Corpus
    from weft.data.store.block_tokenizer import RowCounts
    from weft.pairs.profiling.differences import TrainedStructures
    from weft.recipe import Recipe

app = CommandGroup(help="Inspect, check, prepare and generate corpora.", no_args_is_help=True)
app.command("clean", epilog="Try:  weft data clean pairs.tsv --drop 5% --out clean.tsv")(clean_command)
What = Annotated[
    str, typer.Argument(metavar="RECIPE|FILE", help="A recipe, a file or a folder of pairs; - is standard input.")
]
TASK_NAMES = "addition, copy, reverse, sort, dates, grammar, coreference, trees or drawn-digits"
"""Names of the built-in corpora (`weft.tasks.TASKS`, which takes 0.1 s to import)."""
RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="The name of a shipped recipe, or a TOML file.")]


@app.command("show", epilog="Try:  weft data show grammar   or   weft data show train.en train.de")
def show_command(
    what: What,
    target: Annotated[
        str | None, typer.Argument(metavar="TARGETS", help="A file of targets, if FILE has sources only.")
    ] = None,
    source_column: Annotated[
        str | None, typer.Option("--source", metavar="COLUMN", help="Source column of a table, by name or number.")
    ] = None,
    target_column: Annotated[
        str | None, typer.Option("--target", metavar="COLUMN", help="Target column of a table.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train, valid or test corpus of a recipe.")] = "train",
    samples: Annotated[int, typer.Option("--samples", min=0, help="Number of pairs to show.")] = 5,
    changes: Changes = None,
    accept_new_data: AcceptNewData = False,
    as_json: Json = False,
) -> None:
    """Describe a corpus: pairs, lengths, scripts, duplicates, a histogram, some pairs.

    Invalid rows are counted and skipped. Nothing is filtered. Last, how validation and test pairs differ from the
    training pairs, if they do: lengths, new tokens, new combinations of tokens.
    """
    recipe = _recipe_or_files(what, target, source_column, target_column, changes)
    recipe = recipe.accepting_new_data() if accept_new_data else recipe
    _check_split(split)
    from weft.data.preparation import find_corpora
    from weft.pairs.profiling.differences import TrainedStructures
    from weft.pictures.corpus_report import describe

    structures = TrainedStructures()
    for number, (name, corpus, _) in enumerate(find_corpora(recipe, split)):
        statistics, errors = _statistics(name, corpus, structures, samples=samples, seed=recipe.seed)
        if as_json:
            bad = {kind: {"rows": count, "first": first} for kind, (count, first) in errors.items()}
            typer.echo(json.dumps({"corpus": name, "bad_rows": bad, **statistics.record()}, ensure_ascii=False))
            continue
        typer.echo(("\n" if number else "") + describe(statistics, title=name, width=_width(), ascii_only=_ascii()))
        for kind, (count, first) in errors.items():
            typer.echo(f"bad rows ({kind}): {count:,}; the first: {first}")
    if split == "train":
        _show_differences(recipe, structures, as_json=as_json)


def _show_differences(recipe: Recipe, structures: TrainedStructures, *, as_json: bool) -> None:
    """Show differences of the validation and test pairs of a recipe, named or held out, from its training pairs."""
    from weft.data.pairs import RowError
    from weft.data.preparation import find_corpora
    from weft.pairs.recommendation.splits import NAMES

    data, differences = recipe.data, {}
    for split in [split for split in NAMES if getattr(data, split) is not None or getattr(data.holdout, split)]:
        with suppress(DataError):  # a corpus that is not there cannot be compared
            blocks = (block for entry in find_corpora(recipe, split) for block in entry.corpus.blocks())
            rows = (row for block in blocks for _, row in block.rows() if not isinstance(row, RowError))
            differences[split] = structures.differences(row[:2] for row in rows)
    if as_json and differences:
        typer.echo(json.dumps({"differences": {split: found.record() for split, found in differences.items()}}))
    if as_json:
        return
    for number, line in enumerate(line for split, found in differences.items() for line in found.lines(NAMES[split])):
        typer.echo(line if number else f"\n{line}")


def _statistics(
    name: str, corpus: Corpus, structures: TrainedStructures, *, samples: int, seed: int
) -> tuple[CorpusStatistics, dict[str, tuple[int, str]]]:
    """The statistics of a corpus, and for each kind of row error how many there are and the first message.

    ``structures`` collects the lengths and combinations of its pairs.
    """
    from weft.data.filtering.statistics import CorpusStatistics
    from weft.data.pairs import RowError

    statistics = CorpusStatistics(samples=samples, seed=seed)
    errors: dict[str, tuple[int, str]] = {}
    with activity(f"reading {name}", "rows") as reading:
        for block in corpus.blocks():
            lines, pairs = [], []
            for line, row in block.rows():
                reading.done += 1
                if isinstance(row, RowError):
                    count, first = errors.get(row.kind, (0, row.message))
                    errors[row.kind] = count + 1, first
                else:
                    lines.append(line)
                    pairs.append(row)
                    structures.add(row.source, row.target)
            statistics.add(pairs, name=block.name, lines=lines)
    return statistics, errors


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
    targets: Annotated[
        str | None, typer.Argument(metavar="TARGETS", help="A file of targets, if PAIRS has sources only.")
    ] = None,
    source: Source = None,
    target: Target = None,
    as_json: Json = False,
) -> None:
    """Recommend a recipe for pairs, each choice with its reason, without training.

    These are the choices of weft train PAIRS. A bounded sample is read, whatever the size of the files. The output is a
    recipe file.
    """
    from weft.pairs.profiling.inputs import PairsArgument
    from weft.pairs.recommendation.recommend import recommend_recipe

    if targets is not None and (source is not None or target is not None):
        raise DataError("--source and --target name columns of one file, or two files; give no TARGETS beside them")
    argument = PairsArgument(pairs, source, target) if targets is None else PairsArgument(None, pairs, targets)
    recommendation = recommend_recipe(argument)
    if as_json:
        typer.echo(json.dumps(recommendation.record(), ensure_ascii=False))
    else:
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


def _recipe_or_files(
    what: str, target: str | None, source_column: str | None, target_column: str | None, changes: list[str] | None
) -> Recipe:
    """A recipe by name, or one made for files."""
    from weft.data.reading.formats import format_of
    from weft.recipe import load_recipe, make_recipe, shipped
    from weft.tasks import TASKS

    columns = source_column is not None or target_column is not None
    if target is None and Path(what).is_dir() and what not in shipped():
        return _folder_recipe(what, source_column, target_column, changes)
    if target is None and not columns and (what in shipped() or what.endswith(".toml")):
        return load_recipe(what, changes or ())
    if columns and (source_column is None or target_column is None or target is not None):
        raise DataError("--source and --target name columns of one file; give both")
    train: Any = what
    if target is not None:
        train = {"source": what, "target": target}
    elif columns:
        train = {"file": what, "source": _column(source_column), "target": _column(target_column)}
    if not changes:  # data.folder may be among them
        _check_files(what, target, named=[*shipped(), *TASKS] if train is what else [])
    if train is what and what not in TASKS and Path(what).is_file():
        train = _columns_found(what)
    elif train is what and format_of(what) not in (None, "tsv"):
        raise DataError(f"{what}: say which columns, e.g. --source en --target de")
    return make_recipe({"data": {"train": train}}, changes or ())


def _folder_recipe(folder: str, source: str | None, target: str | None, changes: list[str] | None) -> Recipe:
    """The recipe that ``weft train FOLDER`` would choose: its corpora are those of the folder."""
    from weft.pairs.profiling.inputs import PairsArgument
    from weft.pairs.recommendation.recommend import recommend_recipe

    return recommend_recipe(PairsArgument(folder, source, target), changes or ()).recipe


def _columns_found(file: str) -> Any:
    """The corpus of a file, with the columns that ``weft train FILE`` would choose; they are printed to stderr."""
    from weft.data.columns.layout import find_layout
    from weft.data.columns.rows import PairInput

    pair_input = PairInput(file)
    try:
        layout = find_layout(pair_input)
    except DataError:
        if pair_input.format != "tsv":
            raise
        return file  # its rows are read as pairs, and what is wrong with them is counted
    if pair_input.format == "tsv" and layout.is_source_and_target:
        return file
    typer.echo("columns: {} ({})".format(*layout.describe()), err=True)
    return layout.corpus(pair_input)


def _check_files(*files: str | None, named: list[str]) -> None:
    """Fail on a file that does not exist, before torch is imported; patterns are expanded later."""
    from glob import has_magic

    from weft.errors import nearest

    for file in files:
        if file in (None, "-") or file in named or has_magic(str(file)) or Path(str(file)).exists():
            continue
        hint = f", recipe or built-in corpus; {nearest(str(file), named)}" if named else ""
        raise DataError(f"{file}: no such file{hint}")


def _column(name: str | None) -> int | str:
    assert name is not None
    return int(name) if name.isdecimal() else name


def _check_split(split: str) -> None:
    from weft.errors import nearest
    from weft.tasks import SPLITS

    if split not in SPLITS:
        raise DataError(f"--split {split}: {nearest(split, SPLITS)}")


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
    table = check(rows, pairs=counts.rows, width=_width(), ascii_only=_ascii())
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


def _width() -> int:
    return min(get_terminal_size().columns, 120)


def _ascii() -> bool:
    """Whether the terminal cannot show bars."""
    from weft.pictures.histogram import can_show

    return not can_show(sys.stdout.encoding)
