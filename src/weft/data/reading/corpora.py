"""Corpora: which files (or dataset) to read, and how a row becomes a pair.

A corpus is a value: it opens nothing until `blocks` is called, and `blocks` may be called again. Its files are paths
or glob patterns (``data/part*.tsv.gz``, in the order of their names); ``-`` is standard input. Compressed files are
decompressed (`weft.data.reading.compression`). Options are the settings of the recipe (`weft.recipe.data`).

A file that cannot be read is an error of `blocks`; a row that cannot be read is a `RowError` among the rows, and the
caller decides: `read` raises the first, or skips and counts them. A pair with a blank side is an ordinary pair here;
training drops and counts it (`weft.data.pairs.is_blank`).
"""

from __future__ import annotations

import glob
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from weft.data.pairs import Pair, Row, RowError
from weft.data.reading import text_files
from weft.data.reading.arrow import read_dataset
from weft.data.reading.formats import read_table
from weft.data.reading.links import is_links, parse_links
from weft.data.reading.tables import Column, Filled, Joined, RecordBlock, Replies, Selection, Turns
from weft.data.reading.templates import Template
from weft.data.reading.text_files import Block, Chunk, LineSplitter, RecordError, decode_lines, display_name
from weft.errors import DataError, plural, quote
from weft.recipe.data import DialogueFile, HubDataset, InstructionFile, TableFile

Files = tuple[str, ...]
"""Paths or glob patterns; ``-`` is standard input."""
Policy = Literal["error", "skip"]


class Corpus(Protocol):
    """A source of pairs."""

    def blocks(self) -> Iterator[Block]:
        """The corpus in blocks, in order; a file that cannot be read is a `DataError`."""

    def files(self) -> list[Path]:
        """The files that it is read from; none where it is read from something else."""

    def paths(self) -> Files:
        """The files as they were given, standard input included."""


@dataclass(frozen=True)
class _FileCorpus:
    """A corpus of one or several files."""

    patterns: Files

    def paths(self) -> Files:
        return self.patterns

    def files(self) -> list[Path]:
        return regular_files(expand(self.patterns))


@dataclass(frozen=True, slots=True)
class PairBlock:
    """Lines ``source TAB target`` or ``source TAB target TAB links``."""

    name: str
    chunk: Chunk

    def rows(self) -> Iterator[Row]:
        new = tuple.__new__  # takes a third of the time of Pair(…), which dominates this loop
        for number, line in enumerate(decode_lines(self.chunk, self.name), self.chunk.first_line):
            if not isinstance(line, str):
                yield number, line
                continue
            columns = line.split("\t")
            if len(columns) == 2:
                yield number, new(Pair, (columns[0], columns[1], None))
                continue
            try:
                if len(columns) != 3:
                    expected = f"{plural(len(columns), 'column')}, expected 2 (source, tab, target)"
                    raise RecordError("columns", expected + (_choose_columns(self.name) if len(columns) > 3 else ""))
                if not is_links(columns[2]):
                    reason = f"3 columns, but the third, {quote(columns[2])}, is not a list of links such as '0-0 1-2'"
                    raise RecordError("links", reason + _choose_columns(self.name))
                pair = parse_links(columns[0], columns[1], columns[2], "the third column")
            except RecordError as error:
                yield number, error.at(self.name, number)
            else:
                yield number, pair


def _choose_columns(name: str) -> str:
    """The end of the message for a file with columns that are not read: how to choose those that are."""
    corpus = f"{{file = {json.dumps(name)}, source = 1, target = 2}}"
    return f"; keep two (cut -f 1,2), or name them in a recipe: train = {corpus}"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines for a language model: the target is the last tab-separated column, the source is empty."""

    name: str
    chunk: Chunk

    def rows(self) -> Iterator[Row]:
        for number, line in enumerate(decode_lines(self.chunk, self.name), self.chunk.first_line):
            yield number, Pair("", line.rsplit("\t", 1)[-1]) if isinstance(line, str) else line


@dataclass(frozen=True, slots=True)
class ParallelBlock:
    """Parallel lines of a file of sources and a file of targets."""

    name: str
    target_name: str
    source: Chunk
    target: Chunk

    def rows(self) -> Iterator[Row]:
        sources, targets = decode_lines(self.source, self.name), decode_lines(self.target, self.target_name)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), self.source.first_line):
            if not isinstance(source, str):
                yield number, source
            elif not isinstance(target, str):
                yield number, target
            else:
                yield number, Pair(source, target)


@dataclass(frozen=True, slots=True)
class SurplusBlock:
    """Lines of the longer of two files, which have no counterpart."""

    name: str
    first_line: int
    count: int
    message: str

    def rows(self) -> Iterator[Row]:
        for number in range(self.first_line, self.first_line + self.count):
            yield number, RowError("unpaired", f"{self.name}:{number}: {self.message}")


def parallel_blocks(source: Path | str, target: Path | str) -> Iterator[ParallelBlock | SurplusBlock]:
    """Two files line by line; surplus lines of one of them come last."""
    with LineSplitter(source) as sources, LineSplitter(target) as targets:
        while sources.fill() & targets.fill():
            count = min(sources.buffered_lines, targets.buffered_lines, text_files.CHUNK_RECORDS)
            yield ParallelBlock(sources.name, targets.name, sources.take(count), targets.take(count))
        first = sources.next_line
        counts = sources.count_lines(), targets.count_lines()
        if counts[0] == counts[1]:
            return
        lengths = [
            f"{splitter.name} has {plural(count, 'line')}"
            for splitter, count in zip((sources, targets), counts, strict=True)
        ]
        message = f"has no counterpart; {lengths[0]}, {lengths[1]}; they must correspond line by line"
        longer = sources.name if counts[0] > counts[1] else targets.name
        for start in range(first, max(counts) + 1, text_files.CHUNK_RECORDS):
            yield SurplusBlock(longer, start, min(text_files.CHUNK_RECORDS, max(counts) + 1 - start), message)


class _LineCorpus(_FileCorpus):
    """Files in which every line is a row."""

    block: ClassVar[type[PairBlock] | type[LineBlock]]

    def blocks(self) -> Iterator[Block]:
        for path in expand(self.patterns):
            with LineSplitter(path) as splitter:
                for chunk in splitter.chunks():
                    yield type(self).block(splitter.name, chunk)


class TextPairs(_LineCorpus):
    """Lines ``source TAB target`` or ``source TAB target TAB links`` (`weft.data.reading.links`)."""

    block = PairBlock


class PlainLines(_LineCorpus):
    """Single lines, for language models: the target is the line, or its last tab-separated column; no source."""

    block = LineBlock


@dataclass(frozen=True)
class ParallelText:
    """Files of sources and files of targets: the first with the first, and in them line by line."""

    sources: Files
    targets: Files

    def blocks(self) -> Iterator[Block]:
        sources, targets = expand(self.sources), expand(self.targets)
        if len(sources) != len(targets):
            raise DataError(
                f"{', '.join(self.sources)} and {', '.join(self.targets)}: {plural(len(sources), 'file')} of sources, "
                f"{len(targets)} of targets; they must correspond file by file"
            )
        for source, target in zip(sources, targets, strict=True):
            yield from parallel_blocks(source, target)

    def paths(self) -> Files:
        return self.sources + self.targets

    def files(self) -> list[Path]:
        return regular_files([*expand(self.sources), *expand(self.targets)])


@dataclass(frozen=True)
class Table(_FileCorpus):
    """Columns of a table, by number (from 1) or name; those of a side are joined by one space, without empty ones.

    Names need a header in TSV and CSV, which is then the first line (header = None: there is one if names are used).
    JSON and Parquet have names only, dotted where values are nested. The columns among `tags` are lists of features
    and become tags, `links` is a column of word links (`weft.data.reading.links`). With ``keeps_columns`` the source
    columns are joined by tabs, empty ones included.
    """

    settings: TableFile
    keeps_columns: bool = False

    def blocks(self) -> Iterator[Block]:
        settings = self.settings
        links = [] if settings.links is None else [settings.links]
        columns = tuple(dict.fromkeys([*settings.source, *settings.target, *links]))
        index_of = {column: index for index, column in enumerate(columns)}
        for path in expand(self.patterns):
            for part, selection in read_table(path, Selection(columns), settings):
                maker = Joined(
                    selection,
                    tuple(index_of[column] for column in settings.source),
                    tuple(index_of[column] for column in settings.target),
                    tuple(index_of[column] for column in dict.fromkeys(settings.tags)),
                    None if settings.links is None else index_of[settings.links],
                    self.keeps_columns,
                )
                yield RecordBlock(display_name(path), part, maker)


@dataclass(frozen=True)
class Instructions(_FileCorpus):
    """Rows of an instruction, optionally its input, and the output: the source is a template filled in.

    ``{instruction}`` and ``{input}`` stand for the columns named in the settings, any other ``{name}`` for the column
    of that name. A row whose input is blank, null or missing uses the template without input.
    """

    settings: InstructionFile

    def __post_init__(self) -> None:
        if any("output" in template.names for template in self.templates):
            raise DataError("template: {output} is the target; a template for the source cannot contain it")

    @cached_property
    def templates(self) -> tuple[Template, Template]:
        """The templates with and without an input."""
        return Template.parse(self.settings.template), Template.parse(self.settings.template_without_input)

    def blocks(self) -> Iterator[Block]:
        settings = self.settings
        known: dict[str, Column | None] = {"instruction": settings.instruction, "input": settings.input}
        used = dict.fromkeys(["input", *(name for template in self.templates for name in template.names)])
        names = tuple(name for name in used if known.get(name, name) is not None)
        columns = tuple(known.get(name, name) or "" for name in names)
        optional = frozenset([] if settings.input is None else [settings.input])
        for path in expand(self.patterns):
            for part, selection in read_table(path, Selection((settings.output, *columns), optional), settings):
                yield RecordBlock(display_name(path), part, Filled(selection, names, *self.templates))


@dataclass(frozen=True)
class Dialogues(_FileCorpus):
    """A conversation per row: every turn but the first is a target, its source the `context` turns before it.

    In TSV and CSV the turns are the columns, from number `turns` on; in JSON and Parquet a list under the name `turns`
    ("turns" if none is given; a JSON line may then also be a list itself) of texts or of objects that have a ``text``,
    ``content`` or ``value``.
    """

    settings: DialogueFile

    def blocks(self) -> Iterator[Block]:
        turns = Turns(self.settings.turns)
        for path in expand(self.patterns):
            for part, _ in read_table(path, turns, self.settings):
                yield RecordBlock(display_name(path), part, Replies(turns, self.settings))


@dataclass(frozen=True)
class DatasetRows:
    """A Hugging Face dataset, by its name or the folder it was saved to; columns by name, dotted where nested.

    It is streamed, never loaded whole. Needs the library ``datasets``.
    """

    name: str
    settings: HubDataset
    keeps_columns: bool = False

    def blocks(self) -> Iterator[Block]:
        source, target = (list(map(str, columns)) for columns in (self.settings.source, self.settings.target))
        columns = tuple(dict.fromkeys([*source, *target]))
        sides = (tuple(map(columns.index, source)), tuple(map(columns.index, target)))
        maker = Joined(Selection(columns), *sides, keeps_columns=self.keeps_columns)
        for part in read_dataset(self.name, self.settings, columns):
            yield RecordBlock(self.name, part, maker)

    def paths(self) -> Files:
        return ()

    def files(self) -> list[Path]:
        folder = Path(self.name)
        return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []


def pair_file(path: str, *, sources: int = 1) -> Corpus:
    """A file of pairs: one or several source columns and the target, separated by tabs."""
    if sources == 1:
        return TextPairs((path,))
    columns: list[int | str] = [*range(1, sources + 1)]
    return Table((path,), TableFile(file=[path], source=columns, target=[sources + 1], format="tsv"), True)


def read(corpus: Corpus, policy: Policy = "error", errors: Counter[str] | None = None) -> Iterator[Pair]:
    """The pairs of a corpus in one process; a row error is raised, or skipped and counted by its kind."""
    for block in corpus.blocks():
        for _, row in block.rows():
            if not isinstance(row, RowError):
                yield row
            elif policy == "error":
                raise DataError(row.message)
            elif errors is not None:
                errors[row.kind] += 1


def check_standard_input(corpora: Iterable[Corpus]) -> None:
    """Refuse to read standard input twice."""
    if sum(corpus.paths().count("-") for corpus in corpora) > 1:
        raise DataError("<standard input>: is named twice (-); it can be read once only")


def reads_standard_input(corpus: Corpus) -> bool:
    return "-" in corpus.paths()


def expand(paths: Files) -> list[str]:
    """The files that paths and patterns stand for; those of one pattern in the order of their names."""
    files: list[str] = []
    for path in paths:
        if path != "-" and glob.has_magic(path) and not exists(path):
            matching = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute patterns)
            if not matching:
                raise DataError(f"{path}: no file has a name like that")
            files += matching
        else:
            files.append(path)
    return files


def exists(path: str) -> bool:
    """Whether there is such a file; True if that cannot be determined, since reading it then reports why."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def regular_files(paths: list[str]) -> list[Path]:
    """The paths that are files, or should be: neither standard input nor pipes."""
    files: list[Path] = []
    for path in map(Path, filter("-".__ne__, paths)):
        with suppress(OSError):  # no permission to look at it; reading it will report that
            if not path.is_fifo() and not path.is_char_device():
                files.append(path)
    return files
