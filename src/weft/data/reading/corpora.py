"""Corpora: which files (or data set) to read, and how a row becomes a pair.

A corpus is a value: it opens nothing until `blocks` is asked for, and `blocks` may be asked for again. Its files are
paths or patterns (``data/part*.tsv.gz``, in the order of their names); ``-`` is standard input. What is packed is
unpacked, see `weft.data.reading.compression`.

A broken file is an error of `blocks`; a broken row is a `RowError` among the rows, and whoever reads says what is done
about it: `read` raises the first, or skips and counts them. A pair with a blank side is a pair like any other here;
whoever trains drops and counts those (`weft.data.pairs.is_blank`).
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from weft.data.pairs import Pair, RowError
from weft.data.reading.arrow import dataset_parts
from weft.data.reading.blocks import Block, LineSplitter
from weft.data.reading.compression import display_name
from weft.data.reading.formats import Format, check_format, parts
from weft.data.reading.links import counted
from weft.data.reading.plain_text import LineBlock, PairBlock, parallel_blocks
from weft.data.reading.tables import Column, Filled, Joined, RecordBlock, Replies, Selection, named
from weft.data.reading.templates import Template
from weft.errors import DataError

Files = tuple[str, ...]
"""Paths or patterns; ``-`` is standard input."""
Policy = Literal["error", "skip"]


class Corpus(Protocol):
    """Something that pairs are read from."""

    def blocks(self) -> Iterator[Block]:
        """The corpus in pieces, in order; a file that cannot be read is a `DataError`."""

    def files(self) -> list[Path]:
        """The files that it is read from; none where it is read from something else."""


@dataclass(frozen=True)
class _LineFiles:
    """Files in which every line is a row."""

    paths: Files
    block: ClassVar[type[PairBlock] | type[LineBlock]]
    """What makes rows of some lines."""

    def __post_init__(self) -> None:
        _check_paths(self.paths)

    def blocks(self) -> Iterator[Block]:
        for path in expanded(self.paths):
            with LineSplitter(path) as cutter:
                for piece in cutter.pieces():
                    yield type(self).block(cutter.name, piece)

    def files(self) -> list[Path]:
        return _real(expanded(self.paths))


class TextPairs(_LineFiles):
    """Lines ``source TAB target`` or ``source TAB target TAB links`` (`weft.data.reading.links`)."""

    block = PairBlock


class PlainLines(_LineFiles):
    """Lines alone, for language models: the target is the line, or its last tab-separated column; no source."""

    block = LineBlock


@dataclass(frozen=True)
class ParallelText:
    """Files of sources and files of targets: the first with the first, and in them line by line."""

    sources: Files
    targets: Files

    def __post_init__(self) -> None:
        _check_paths(self.sources)
        _check_paths(self.targets)
        if "-" in self.sources and "-" in self.targets:
            raise DataError("source and target cannot both be standard input")

    def blocks(self) -> Iterator[Block]:
        sources, targets = expanded(self.sources), expanded(self.targets)
        if len(sources) != len(targets):
            raise DataError(
                f"{', '.join(self.sources)} and {', '.join(self.targets)}: {counted(len(sources), 'file')} of sources, "
                f"{len(targets)} of targets; file by file they must belong together"
            )
        for source, target in zip(sources, targets, strict=True):
            yield from parallel_blocks(source, target)

    def files(self) -> list[Path]:
        return _real([*expanded(self.sources), *expanded(self.targets)])


@dataclass(frozen=True)
class Table:
    """Columns of a table, by number (from 1) or name; those of a side are joined by one space, without empty ones.

    Names need a header in TSV and CSV, which is then the first line (header=None: there is one if names are used). JSON
    and Parquet have names only, dotted where values are nested. The columns among `tags` are lists of features and
    become tags, `links` is one of links (`weft.data.reading.links`). Without source columns the sources are empty.
    """

    paths: Files
    source: tuple[Column, ...]
    target: tuple[Column, ...]
    tags: tuple[Column, ...] = ()
    links: Column | None = None
    format: Format = "auto"
    header: bool | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        _check_paths(self.paths)
        check_format(self.format, self.delimiter)
        _check_columns([*self.source, *self.target, *self.tags, *([] if self.links is None else [self.links])])
        if not self.target:
            raise DataError("target: no column; a table needs one at least")
        for column in set(self.tags) - {*self.source, *self.target}:
            raise DataError(f"tags: {named(column)} is on neither side")

    def blocks(self) -> Iterator[Block]:
        links = () if self.links is None else (self.links,)
        columns = tuple(dict.fromkeys([*self.source, *self.target, *links]))
        places = {column: place for place, column in enumerate(columns)}
        for path in expanded(self.paths):
            for part, found in parts(path, self.format, Selection(columns), self.header, self.delimiter):
                maker = Joined(
                    found,
                    tuple(places[column] for column in self.source),
                    tuple(places[column] for column in self.target),
                    tuple(places[column] for column in dict.fromkeys(self.tags)),
                    None if self.links is None else places[self.links],
                )
                yield RecordBlock(display_name(path), part, maker)

    def files(self) -> list[Path]:
        return _real(expanded(self.paths))


@dataclass(frozen=True)
class Instructions:
    """Rows of an instruction, perhaps its input, and the output: the source is a template filled in.

    ``{instruction}`` and ``{input}`` stand for the columns named here, another ``{name}`` for the column of that name.
    A row whose input is blank, null or missing takes the template without input.
    """

    paths: Files
    instruction: Column = "instruction"
    input: Column | None = "input"
    output: Column = "output"
    template: str = "{instruction}\n{input}"
    template_without_input: str = "{instruction}"
    format: Format = "auto"
    header: bool | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        _check_paths(self.paths)
        check_format(self.format, self.delimiter)
        _check_columns([self.instruction, self.output, *([] if self.input is None else [self.input])])
        names = self._names(Template.read(self.template), Template.read(self.template_without_input))
        if "output" in names:
            raise DataError("template: {output} is what the model is to say; a template cannot tell it")

    def _names(self, *templates: Template) -> tuple[str, ...]:
        return tuple(dict.fromkeys(["input", *(name for template in templates for name in template.names)]))

    def blocks(self) -> Iterator[Block]:
        templates = Template.read(self.template), Template.read(self.template_without_input)
        known: dict[str, Column | None] = {"instruction": self.instruction, "input": self.input}
        names = tuple(name for name in self._names(*templates) if known.get(name, name) is not None)
        columns = tuple(known.get(name, name) or "" for name in names)
        optional = frozenset([] if self.input is None else [self.input])
        selection = Selection((self.output, *columns), optional)
        for path in expanded(self.paths):
            for part, found in parts(path, self.format, selection, self.header, self.delimiter):
                yield RecordBlock(display_name(path), part, Filled(found, names, *templates))

    def files(self) -> list[Path]:
        return _real(expanded(self.paths))


@dataclass(frozen=True)
class Dialogues:
    """A conversation a row: every turn from the second on is a target, its source the `context` turns before it.

    In TSV and CSV the turns are the columns, from number `turns` on; in JSON and Parquet a list under the name `turns`
    ("turns" if none is given; a JSON line may then also be a list itself) of texts or of objects that have a ``text``,
    ``content`` or ``value``.
    """

    paths: Files
    turns: Column | None = None
    context: int = 3
    separator: str = " <turn> "
    format: Format = "auto"
    header: bool | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        _check_paths(self.paths)
        check_format(self.format, self.delimiter)
        _check_columns([] if self.turns is None else [self.turns])
        if self.context < 1:
            raise DataError(f"context: {self.context} turns; a reply needs one before it at least")

    def blocks(self) -> Iterator[Block]:
        for path in expanded(self.paths):
            turns = self.turns
            for part, _ in parts(path, self.format, turns, self.header, self.delimiter):
                yield RecordBlock(display_name(path), part, Replies(turns, self.context, self.separator))

    def files(self) -> list[Path]:
        return _real(expanded(self.paths))


@dataclass(frozen=True)
class DatasetRows:
    """A Hugging Face data set, by its name or the folder it was saved to; columns by name, dotted where nested.

    It is streamed, never loaded whole. Needs the library ``datasets``.
    """

    name: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    config: str | None = None
    split: str = "train"

    def __post_init__(self) -> None:
        if not self.target:
            raise DataError("target: no column; a data set needs one at least")

    def blocks(self) -> Iterator[Block]:
        columns = tuple(dict.fromkeys([*self.source, *self.target]))
        maker = Joined(
            Selection(columns), tuple(map(columns.index, self.source)), tuple(map(columns.index, self.target))
        )
        for part in dataset_parts(self.name, self.config, self.split, columns):
            yield RecordBlock(self.name, part, maker)

    def files(self) -> list[Path]:
        folder = Path(self.name)
        return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []


def read(corpus: Corpus, policy: Policy = "error", problems: Counter[str] | None = None) -> Iterator[Pair]:
    """The pairs of a corpus in one process; a problem is raised, or skipped and counted by its kind."""
    if policy not in ("error", "skip"):
        raise DataError(f"policy: {policy!r}; choose one of error, skip")
    for block in corpus.blocks():
        for _, found in block.rows():
            if not isinstance(found, RowError):
                yield found
            elif policy == "error":
                raise DataError(found.message)
            elif problems is not None:
                problems[found.kind] += 1


def check_standard_input(corpora: Iterable[Corpus]) -> None:
    """Standard input can be one corpus only: the second that names it is an error."""
    if sum(map(reads_standard_input, corpora)) > 1:
        raise DataError("<standard input>: two corpora name it (-); it can be read as one only")


def reads_standard_input(corpus: Corpus) -> bool:
    return "-" in _named(corpus)


def expanded(paths: Files) -> list[str]:
    """The files that paths and patterns stand for; those of one pattern in the order of their names."""
    found: list[str] = []
    for path in paths:
        if path != "-" and glob.has_magic(path) and not is_there(path):
            matching = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute patterns)
            if not matching:
                raise DataError(f"{path}: no file has a name like that")
            found += matching
        else:
            found.append(path)
    return found


def is_there(path: str) -> bool:
    """Whether there is such a file, or something is in the way of knowing: whoever reads it then says what."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def _named(corpus: Corpus) -> Files:
    if isinstance(corpus, ParallelText):
        return corpus.sources + corpus.targets
    paths: Files = getattr(corpus, "paths", ())
    return paths


def _real(paths: list[str]) -> list[Path]:
    """Those that are files, or should be: no standard input, no pipes."""
    found: list[Path] = []
    for path in map(Path, filter("-".__ne__, paths)):
        with suppress(OSError):  # nobody may look at it; whoever reads it says so
            if not path.is_fifo() and not path.is_char_device():
                found.append(path)
    return found


def _check_paths(paths: Files | str) -> None:
    if not paths or isinstance(paths, str):
        raise DataError(f"files: {paths!r}; expected a tuple of one path at least")
    if paths.count("-") > 1:
        raise DataError("<standard input>: is named twice (-); it can be read as one file only")


def _check_columns(columns: Iterable[Column]) -> None:
    for column in columns:
        if column == "" or (isinstance(column, int) and column < 1):
            raise DataError(f"column {column!r}: columns are counted from 1, or named")
