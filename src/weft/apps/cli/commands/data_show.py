"""``weft data show``: statistics of a corpus of texts, pictures or frames, and some of its pairs."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.apps.cli.arguments import AcceptNewData, Changes, Json, check_output
from weft.errors import DataError
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from weft.data.filtering.statistics import CorpusStatistics
    from weft.data.reading.corpora import Corpus
    from weft.pairs.profiling.differences import TrainedStructures
    from weft.pictures.thumbnails import Thumbnail
    from weft.recipe import Recipe

What = Annotated[
    str, typer.Argument(metavar="RECIPE|FILE", help="A recipe, a file or a folder of pairs; - is standard input.")
]

FIRST_ROWS = 100
"""Rows by which sources are recognized that name pictures or frames."""


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
    page: Annotated[
        Path | None, typer.Option("--page", help="Write the pairs that are shown, with their pictures, as HTML.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe a corpus: pairs, lengths, scripts, duplicates, a histogram, some pairs.

    Invalid rows are counted and skipped. Nothing is filtered. If sources are pictures or frames, they are read: sizes,
    ink, colors, files that cannot be read, thumbnails. Last, how validation and test pairs differ from the training
    pairs, if they do: lengths, new tokens, new combinations of tokens.
    """
    check_output(page)
    recipe = _recipe_or_files(what, target, source_column, target_column, changes)
    recipe = recipe.accepting_new_data() if accept_new_data else recipe
    _check_split(split)
    if page is not None and not recipe.tokenizer.reads_arrays:
        raise DataError(f"--page {page}: a page of pictures, but the sources of {what} are texts; leave it out")
    from weft.data.preparation import find_corpora
    from weft.pairs.profiling.differences import TrainedStructures
    from weft.pictures.corpus_report import describe

    structures, reads_arrays = TrainedStructures(), recipe.tokenizer.reads_arrays
    thumbnails: list[Thumbnail] = []
    for number, (name, corpus, _) in enumerate(find_corpora(recipe, split)):
        statistics, errors = _statistics(name, corpus, structures, samples=samples, seed=recipe.seed)
        if as_json:
            record = _record(name, statistics, errors) | _array_record(recipe, corpus)
            typer.echo(json.dumps(record, ensure_ascii=False))
            continue
        shown = describe(statistics, title=name, width=width(), ascii_only=ascii_only(), reads_arrays=reads_arrays)
        typer.echo(("\n" if number else "") + shown)
        if reads_arrays:
            from weft.apps.cli.commands.data_arrays import show_arrays

            thumbnails += show_arrays(recipe, corpus, statistics)
        for kind, (count, first) in errors.items():
            typer.echo(f"bad rows ({kind}): {count:,}; the first: {first}")
    if page is not None:
        from weft.apps.cli.commands.data_arrays import write_thumbnails

        write_thumbnails(page, what, thumbnails)
    if split == "train":
        _show_differences(recipe, structures, as_json=as_json)


def _record(name: str, statistics: CorpusStatistics, errors: dict[str, tuple[int, str]]) -> dict[str, Any]:
    """The statistics of a corpus, for JSON."""
    bad = {kind: {"rows": count, "first": first} for kind, (count, first) in errors.items()}
    return {"corpus": name, "bad_rows": bad, **statistics.record()}


def _array_record(recipe: Recipe, corpus: Corpus) -> dict[str, Any]:
    """The profile of the arrays of a corpus, for JSON; nothing if its sources are texts."""
    if not recipe.tokenizer.reads_arrays:
        return {}
    from weft.apps.cli.commands.data_arrays import array_record

    return array_record(recipe, corpus)


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
    return make_recipe({"data": {"train": train}, **_of_arrays(what, train)}, changes or ())


def _of_arrays(what: str, train: Any) -> dict[str, Any]:
    """Further settings of a recipe whose sources name pictures or frames, by its first rows; none if they do not."""
    from weft.data.arrays.files import names_array, names_picture
    from weft.data.pairs import RowError
    from weft.data.preparation import find_corpora
    from weft.pairs.profiling.arrays import NAMED_SHARE
    from weft.recipe import make_recipe
    from weft.recipe.choices import DRAWINGS

    names = ["drawing.png"] if what in DRAWINGS else []
    if Path(what).is_file():
        blocks = find_corpora(make_recipe({"data": {"train": train}}), "train")[0].corpus.blocks()
        rows = islice((row for block in blocks for _, row in block.rows()), FIRST_ROWS)
        names = [row.source for row in rows if not isinstance(row, RowError)]
    if not names or sum(map(names_array, names)) < NAMED_SHARE * len(names):
        return {}
    kind, stem = ("picture", "columns") if names_picture(names[0]) else ("frames", "frames")
    return {"tokenizer": {"kind": kind, "target_kind": "character", "joint": False}, "model": {"stem": {"kind": stem}}}


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


def width() -> int:
    return min(get_terminal_size().columns, 120)


def ascii_only() -> bool:
    """Whether the terminal cannot show bars."""
    from weft.pictures.histogram import can_show

    return not can_show(sys.stdout.encoding)
