"""From the records of a table to pairs: which columns are read, and what is made of them.

Columns are numbered from 1, or named; a `Selection` finds them in a record and gives their texts. A `PairMaker` makes
pairs of a record: of joined columns (`Joined`), of an instruction in a template (`Filled`), of the turns of a dialogue
(`Replies`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from weft.data.pairs import Pair, Row, RowError
from weft.data.reading.links import as_tags, parse_links
from weft.data.reading.records import Record, Records, as_text, look_up, no_column
from weft.data.reading.templates import Template
from weft.data.reading.text_files import RecordError, display_name
from weft.errors import DataError, column_phrase, plural
from weft.recipe.data import DialogueFile, TableSettings

Column = int | str


class PairMaker(Protocol):
    """Makes the pairs of a record; raises `RecordError` where it cannot."""

    def pairs(self, record: Any) -> Sequence[Pair]: ...


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Some records of a table, and what makes pairs of them."""

    name: str
    part: Records
    maker: PairMaker

    def rows(self) -> Iterator[Row]:
        pairs = self.maker.pairs
        for number, record in self.part.records(self.name):
            if isinstance(record, RowError):
                yield number, record
                continue
            try:
                for pair in pairs(record):
                    yield number, pair
            except RecordError as error:
                yield number, error.at(self.name, number)


@dataclass(frozen=True, slots=True)
class Selection:
    """Some columns of a record, by name or, if `positions` are given, by their positions in a list of cells."""

    columns: tuple[Column, ...]
    optional: frozenset[Column] = frozenset()
    """Columns that may be missing or null, and are then empty."""
    positions: tuple[int | None, ...] = ()
    """From 0; None: an optional column that the table does not have."""
    width: int | None = None
    """Number of cells of a record, if known from a header."""

    def texts(self, record: Record) -> list[str]:
        """The texts of the columns, in their order."""
        return self._cells(record) if isinstance(record, list) else self._values(record)

    def _cells(self, cells: list[str]) -> list[str]:
        if self.width is not None and len(cells) != self.width:
            raise RecordError("columns", f"{plural(len(cells), 'column')}, expected {self.width} as in the header")
        try:
            return [cells[position] if position is not None else "" for position in self.positions]
        except IndexError:
            last = max(position for position in self.positions if position is not None) + 1
            raise RecordError("columns", f"{plural(len(cells), 'column')}, but column {last} was requested") from None

    def _values(self, record: dict[str, Any]) -> list[str]:
        texts = []
        for column in self.columns:
            try:
                texts.append(as_text(look_up(record, str(column)), column_phrase(column)))
            except RecordError as error:
                if column not in self.optional or error.kind != "columns":
                    raise
                texts.append("")
        return texts

    def in_cells(self, header: Sequence[str] | None, where: str) -> Selection:
        """The columns as positions in a list of cells; names are looked up in the header."""
        width = None if header is None else len(header)
        positions = tuple(self._position(column, header, where) for column in self.columns)
        return Selection(self.columns, self.optional, positions, width)

    def _position(self, column: Column, header: Sequence[str] | None, where: str) -> int | None:
        if isinstance(column, int):
            if header is not None and column > len(header):
                raise DataError(f"{where}: {plural(len(header), 'column')}, but column {column} was requested")
            return column - 1
        assert header is not None  # tables with named columns have one
        count = header.count(column)
        if count == 1:
            return header.index(column)
        if count:
            raise DataError(f"{where}: {column_phrase(column)} occurs {count} times in the header; give its number")
        if column in self.optional:
            return None
        raise DataError(f"{where}: {no_column(column, header)}")


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a dialogue: a list in a named column, or the cells of a record from a numbered column on."""

    column: Column | None
    """None: the column "turns", or a record that is a list itself."""

    @property
    def name(self) -> str:
        return "turns" if self.column is None else str(self.column)

    def texts(self, record: Record) -> list[str]:
        """The texts of the turns, in their order."""
        if isinstance(record, list):
            turns: Any = record[0 if self.column is None else int(self.column) - 1 :]
        else:
            turns = look_up(record, self.name)
            if not isinstance(turns, list):
                kind = "type" if turns is not None else "columns"
                raise RecordError(kind, f"{column_phrase(self.name)} is not a list of turns")
        return [_turn_text(turn, number) for number, turn in enumerate(turns, start=1)]


def _turn_text(turn: Any, number: int) -> str:
    if isinstance(turn, dict):
        names = [name for name in ("text", "content", "value") if name in turn]
        if not names:
            raise RecordError("columns", f"turn {number} has neither 'text' nor 'content' nor 'value'")
        turn = turn[names[0]]
    return as_text(turn, f"turn {number}")


@dataclass(frozen=True, slots=True)
class Joined:
    """Columns of each side, joined by one space without the empty ones; some of them as tags; optionally links.

    The sides, tags and links are indices of the selection's columns. Source columns that stay apart are joined by tabs,
    empty ones included; a tab inside such a column becomes a space.
    """

    selection: Selection
    source: tuple[int, ...]
    target: tuple[int, ...]
    tags: tuple[int, ...] = ()
    links: int | None = None
    keeps_columns: bool = False
    """Whether the source columns stay apart."""

    def pairs(self, record: Record) -> Sequence[Pair]:
        texts = self.selection.texts(record)
        for index in self.tags:
            texts[index] = as_tags(texts[index], column_phrase(self.selection.columns[index]))
        target = _join(texts, self.target)
        source = _with_tabs(texts, self.source) if self.keeps_columns else _join(texts, self.source)
        if self.links is None:
            return (Pair(source, target),)
        return (parse_links(source, target, texts[self.links], column_phrase(self.selection.columns[self.links])),)


@dataclass(frozen=True, slots=True)
class Filled:
    """A template filled with the columns of a record as the source, and the output as the target."""

    selection: Selection
    """The output, then the columns that the names of the template stand for."""
    names: tuple[str, ...]
    template: Template
    without_input: Template

    def pairs(self, record: Record) -> Sequence[Pair]:
        texts = self.selection.texts(record)
        values = dict(zip(self.names, texts[1:], strict=True))
        template = self.template if values.get("input", "").strip() else self.without_input
        return (Pair(template.fill(values), texts[0]),)


@dataclass(frozen=True, slots=True)
class Replies:
    """Every turn of a dialogue but the first as a target, with the turns before it as its source."""

    turns: Turns
    settings: DialogueFile

    def pairs(self, record: Record) -> Sequence[Pair]:
        turns = self.turns.texts(record)
        if len(turns) < 2:
            raise RecordError("turns", f"a dialogue of {plural(len(turns), 'turn')}, expected at least 2")
        join, context = self.settings.separator.join, self.settings.context
        return [
            Pair(join(turns[max(0, index - context) : index]), turn) for index, turn in enumerate(turns) if index > 0
        ]


def check_named_columns(
    path: Path | str, table_format: str, columns: Selection | Turns, settings: TableSettings
) -> None:
    """Refuse numbers of columns, a header and a delimiter in a format whose columns have names."""
    chosen = columns.columns if isinstance(columns, Selection) else (columns.column,)
    for column in chosen:
        if isinstance(column, int):
            phrase = column_phrase(column)
            raise DataError(f"{display_name(path)}: {phrase}: columns of {table_format} have names, not numbers")
    if settings.header or settings.delimiter is not None:
        raise DataError(f"{display_name(path)}: {table_format} has neither a header nor a delimiter")


def _join(texts: Sequence[str], indices: Sequence[int]) -> str:
    if len(indices) == 1:
        return texts[indices[0]]
    return " ".join(filter(None, (texts[index] for index in indices)))


def _with_tabs(texts: Sequence[str], indices: Sequence[int]) -> str:
    return "\t".join(texts[index].replace("\t", " ") for index in indices)
