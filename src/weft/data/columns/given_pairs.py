"""The pairs of a file that is given for a run, in every format that training reads.

Columns are those that the run's recipe names for its test, validation or training pairs. Where it names none that the
file can have, they are found as ``weft train`` finds them; TSV then has source, tab, target.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from weft.data.columns.layout import find_layout
from weft.data.columns.rows import PairInput, RowStream
from weft.data.reading.corpora import Corpus, Dialogues, Instructions, Table, pair_file
from weft.data.reading.delimited import column_names
from weft.data.reading.formats import DEFAULT, format_of
from weft.recipe import Recipe
from weft.recipe.data import DialogueFile, InstructionFile, TableFile, as_list

Tabular = TableFile | InstructionFile | DialogueFile


class GivenPairs(NamedTuple):
    """A corpus, and its columns if they had to be found."""

    corpus: Corpus
    found_columns: str | None = None


def given_pairs(recipe: Recipe, file: str, columns: tuple[str, str] | None = None) -> GivenPairs:
    """The pairs of a file for a run of this recipe; ``columns``: source and target, by name or number.

    Names of arrays are relative to the file, which the user named: they may leave its folder.
    """
    given = _given_pairs(recipe, file, columns)
    if not recipe.tokenizer.reads_arrays:
        return given
    from weft.data.arrays.corpus import array_corpus

    return given._replace(corpus=array_corpus(given.corpus, file, outside=True))


def _given_pairs(recipe: Recipe, file: str, columns: tuple[str, str] | None) -> GivenPairs:
    sources = recipe.given_columns
    if file == "-" or not Path(file).exists():  # reading it reports why
        return GivenPairs(pair_file(file, sources=sources))
    stream = RowStream(PairInput(file))
    first = next((row.texts() for row in stream), [])
    if columns is not None:
        source, target = (int(column) if column.isdecimal() else column for column in columns)
        named = TableFile(file=[file], source=[source], target=[target], delimiter=stream.delimiter)
        return GivenPairs(Table((file,), named, sources > 1))
    table = _table(recipe)
    if table is not None and _can_have(file, first, table):
        return GivenPairs(_corpus(file, table, stream.delimiter, sources))
    if stream.input.format == "tsv":
        return GivenPairs(pair_file(file, sources=sources))
    layout = find_layout(stream.input)
    tree = layout.corpus(stream.input)
    settings: Tabular = InstructionFile(**tree) if layout.instructions else TableFile(**tree)
    return GivenPairs(_corpus(file, settings, stream.delimiter, sources), "{} ({})".format(*layout.describe()))


def _table(recipe: Recipe) -> Tabular | None:
    """The first table among the pairs of a recipe."""
    corpora = [corpus for split in ("test", "valid", "train") for corpus in as_list(getattr(recipe.data, split))]
    return next((corpus for corpus in corpora if isinstance(corpus, Tabular)), None)


def _can_have(file: str, first: list[str], table: Tabular) -> bool:
    """Whether a file that begins with these cells can have the columns of a table; one of JSON lines only names."""
    table_format = format_of(file) or DEFAULT
    if isinstance(table, DialogueFile):
        return table_format != "tsv" and isinstance(table.turns, int) == (table_format == "csv" and bool(table.turns))
    columns = [*table.source, *table.target] if isinstance(table, TableFile) else [table.instruction, table.output]
    names = {column for column in columns if isinstance(column, str)}
    if table_format != "tsv":
        return table_format == "csv" or len(names) == len({*columns})
    return names <= {*column_names(first)} and all(column in names or int(column) <= len(first) for column in columns)


def _corpus(file: str, table: Tabular, delimiter: str | None, sources: int) -> Corpus:
    """The corpus of a file with the settings of another."""
    is_delimited = (format_of(file) or DEFAULT) in ("tsv", "csv")
    changes = {"format": "auto", "delimiter": delimiter, "header": table.header if is_delimited else None}
    settings = table.model_copy(update=changes)
    if isinstance(settings, InstructionFile):
        return Instructions((file,), settings)
    if isinstance(settings, DialogueFile):
        return Dialogues((file,), settings)
    return Table((file,), settings, sources > 1)
