"""From the records of a table to pairs: which columns, and what is made of them.

Columns are counted from 1 or named; a `Selection` finds them in a record and gives their texts. A maker makes pairs of
the texts: of columns joined (`Joined`), of an instruction put into a template (`Filled`), of the turns of a dialogue
(`Replies`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from weft.data.pairs import Pair, Row, RowError
from weft.data.reading.blocks import RecordError
from weft.data.reading.links import as_tags, counted, linked
from weft.data.reading.records import Record, Records, as_text, look_up, no_column
from weft.data.reading.templates import Template
from weft.errors import DataError

Column = int | str


class Maker(Protocol):
    """Makes the pairs of a record; raises `RecordError` where there are none to make."""

    def pairs(self, record: Any) -> Sequence[Pair]: ...


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """A part of a table, and what to make of it."""

    name: str
    part: Records
    maker: Maker

    def rows(self) -> Iterator[Row]:
        pairs = self.maker.pairs
        for number, record in self.part.records(self.name):
            if isinstance(record, RowError):
                yield number, record
                continue
            try:
                for pair in pairs(record):
                    yield number, pair
            except RecordError as unfit:
                yield number, unfit.at(self.name, number)


@dataclass(frozen=True, slots=True)
class Selection:
    """Some columns of a record, by name or, where `places` are given, by where they stand in a list of cells."""

    columns: tuple[Column, ...]
    optional: frozenset[Column] = frozenset()
    """These may be missing or null, and are then empty."""
    places: tuple[int | None, ...] = ()
    """From 0; None: an optional column that the table has not."""
    width: int | None = None
    """How many cells a record has, if a header tells."""

    def texts(self, record: Record) -> list[str]:
        """The texts of the columns, in their order."""
        return self._cells(record) if isinstance(record, list) else self._values(record)

    def _cells(self, cells: list[str]) -> list[str]:
        if self.width is not None and len(cells) != self.width:
            raise RecordError("columns", f"{counted(len(cells), 'column')}, expected {self.width} as in the header")
        try:
            return [cells[place] if place is not None else "" for place in self.places]
        except IndexError:
            last = max(place for place in self.places if place is not None) + 1
            raise RecordError("columns", f"{counted(len(cells), 'column')}, but column {last} was asked for") from None

    def _values(self, record: dict[str, Any]) -> list[str]:
        found = []
        for column in self.columns:
            try:
                found.append(as_text(look_up(record, str(column)), named(column)))
            except RecordError as unfit:
                if column not in self.optional or unfit.kind != "columns":
                    raise
                found.append("")
        return found

    def in_cells(self, header: Sequence[str] | None, where: str) -> Selection:
        """The same columns as places among cells, the named ones as the header names them."""
        width = None if header is None else len(header)
        places = tuple(self._place(column, header, where) for column in self.columns)
        return Selection(self.columns, self.optional, places, width)

    def _place(self, column: Column, header: Sequence[str] | None, where: str) -> int | None:
        if isinstance(column, int):
            if header is not None and column > len(header):
                raise DataError(f"{where}: {counted(len(header), 'column')}, but column {column} was asked for")
            return column - 1
        assert header is not None  # a corpus with names asks for one
        count = header.count(column)
        if count == 1:
            return header.index(column)
        if count:
            raise DataError(f"{where}: {named(column)} stands {count} times in the header; give its number")
        if column in self.optional:
            return None
        raise DataError(f"{where}: {no_column(column, header)}")


@dataclass(frozen=True, slots=True)
class Joined:
    """Columns of each side, joined by one space without the empty ones; some of them as tags; perhaps links."""

    selection: Selection
    source: tuple[int, ...]
    """Places among the texts selected."""
    target: tuple[int, ...]
    tags: tuple[int, ...] = ()
    links: int | None = None

    def pairs(self, record: Record) -> Sequence[Pair]:
        texts = self.selection.texts(record)
        for place in self.tags:
            texts[place] = as_tags(texts[place], named(self.selection.columns[place]))
        source, target = _joined(texts, self.source), _joined(texts, self.target)
        if self.links is None:
            return (Pair(source, target),)
        return (linked(source, target, texts[self.links], named(self.selection.columns[self.links])),)


@dataclass(frozen=True, slots=True)
class Filled:
    """A template filled with the columns of a record, and the output that answers it."""

    selection: Selection
    """The output, then what the names stand for."""
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
    """Every turn of a dialogue from the second on, after the turns before it."""

    turns: Column | None
    context: int
    separator: str

    def pairs(self, record: Record) -> Sequence[Pair]:
        turns = self._turns(record)
        if len(turns) < 2:
            raise RecordError("turns", f"a dialogue of {counted(len(turns), 'turn')}, expected at least 2")
        return [
            Pair(self.separator.join(turns[max(0, place - self.context) : place]), turns[place])
            for place in range(1, len(turns))
        ]

    def _turns(self, record: Record) -> list[str]:
        if isinstance(record, list):
            first = 0 if self.turns is None else int(self.turns) - 1
            found: Any = record[first:]
        else:
            name = "turns" if self.turns is None else str(self.turns)
            found = look_up(record, name)
            if not isinstance(found, list):
                raise RecordError("type" if found is not None else "columns", f"{named(name)} is not a list of turns")
        return [_turn(turn, number) for number, turn in enumerate(found, start=1)]


def _turn(turn: Any, number: int) -> str:
    if isinstance(turn, dict):
        names = [name for name in ("text", "content", "value") if name in turn]
        if not names:
            raise RecordError("columns", f"turn {number} has neither 'text' nor 'content' nor 'value'")
        turn = turn[names[0]]
    return as_text(turn, f"turn {number}")


def named(column: Column) -> str:
    """How messages call a column."""
    return f"column {column!r}"


def _joined(texts: Sequence[str], places: Sequence[int]) -> str:
    if len(places) == 1:
        return texts[places[0]]
    return " ".join(filter(None, (texts[place] for place in places)))
