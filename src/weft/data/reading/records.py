"""Records of tables as pieces of a file hold them: cells of TSV and CSV, named values of JSON lines and of Arrow.

TSV has no quoting: a tab ends a cell, a line end the record. CSV is that of RFC 4180: a cell that begins with a quote
ends with the next single one, may hold delimiters and line ends, and a quote as two. JSON lines: an object in each,
the last of equal names wins; a name may be dotted (``translation.en``) where objects stand in objects.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Protocol

from weft.data.pairs import RowError
from weft.data.reading.blocks import Piece, RecordError, csv_records, decoded, decoded_line
from weft.data.reading.compression import import_pyarrow
from weft.data.reading.links import counted, shown
from weft.errors import nearest

Record = list[Any] | dict[str, Any]
"""Cells in their order, or values by name."""


class Records(Protocol):
    """A part of a table; it can be pickled."""

    def records(self, name: str) -> Iterator[tuple[int, Record | RowError]]:
        """The number of the line each begins in, and the record, or why there is none; the file's name is for that."""


@dataclass(frozen=True, slots=True)
class TsvRecords:
    piece: Piece
    delimiter: str

    def records(self, name: str) -> Iterator[tuple[int, Record | RowError]]:
        delimiter = self.delimiter
        for number, line in enumerate(decoded(self.piece, name), self.piece.first):
            yield number, line.split(delimiter) if isinstance(line, str) else line


@dataclass(frozen=True, slots=True)
class CsvRecords:
    piece: Piece
    delimiter: str

    def records(self, name: str) -> Iterator[tuple[int, Record | RowError]]:
        if b'"' not in self.piece.data:
            yield from TsvRecords(self.piece, self.delimiter).records(name)
            return
        whole = csv_records(self.delimiter, 1)
        data, number, place = self.piece.data, self.piece.first, 0
        while place < len(data):
            found = whole.match(data, place)
            end = found.end() if found else len(data)
            raw = data[place:end]
            text = decoded_line(raw.removesuffix(b"\n").removesuffix(b"\r") if found else raw, name, number)
            if isinstance(text, str):
                try:
                    yield number, csv_cells(text, self.delimiter)
                except RecordError as unfit:
                    yield number, unfit.at(name, number)
            else:
                yield number, text
            number += raw.count(b"\n")
            place = end


def csv_cells(record: str, delimiter: str) -> list[Any]:
    """The cells of one record, which has no line end any more."""
    if '"' not in record:
        return record.split(delimiter)
    cells, place, cell = [], 0, _csv_cell(delimiter)
    while found := cell.match(record, place):
        quoted, bare, end = found.groups()
        cells.append(bare if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        place = found.end()
    if (closed := _csv_quoted().match(record, place)) is None:
        lines = counted(record.count("\n") + 1, "line")
        raise RecordError(
            "csv", f"column {len(cells) + 1} has a quote that is never closed ({lines} to the file's end)"
        )
    after = record[closed.end() : closed.end() + 20]
    raise RecordError("csv", f"column {len(cells) + 1} goes on after its closing quote: {shown(after)}")


@cache
def _csv_cell(delimiter: str) -> re.Pattern[str]:
    d = re.escape(delimiter)
    return re.compile(rf'(?:"((?:[^"]++|"")*+)"|([^"{d}][^{d}]*+|))({d}|\Z)')


@cache
def _csv_quoted() -> re.Pattern[str]:
    return re.compile(r'"(?:[^"]++|"")*+"')


@dataclass(frozen=True, slots=True)
class JsonRecords:
    """Lines that are each a JSON object or, where `lists` are allowed too, a list."""

    piece: Piece
    lists: bool = False

    def records(self, name: str) -> Iterator[tuple[int, Record | RowError]]:
        for number, line in enumerate(decoded(self.piece, name), self.piece.first):
            if not isinstance(line, str):
                yield number, line
                continue
            try:
                found = _from_json(line)
                if not (isinstance(found, dict) or (self.lists and isinstance(found, list))):
                    raise RecordError("json", f"is {_kind(found)}, expected a JSON object ({{…}}) in each line")
            except RecordError as unfit:
                yield number, unfit.at(name, number)
            else:
                yield number, found


_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None)
"""Numbers stay as they are written; NaN and Infinity, which are no JSON, count as nothing."""


def _from_json(line: str) -> Any:
    try:
        return _JSON.decode(line)
    except json.JSONDecodeError as error:
        if not line.strip():
            raise RecordError("json", "is a blank line, expected a JSON object ({…}) in each line") from None
        if line.lstrip().startswith("["):
            raise RecordError(
                "json", "a list that goes on, expected a JSON object ({…}) in each line; `jq -c '.[]'` makes it so"
            ) from None
        raise RecordError("json", f"not valid JSON (column {error.pos + 1}: {error.msg})") from None
    except RecursionError:
        raise RecordError("json", "JSON that is nested too deeply") from None


@dataclass(frozen=True, slots=True)
class ArrowRecords:
    """Rows of a record batch, in the format that Arrow sends them in."""

    data: bytes
    first: int

    def records(self, name: str) -> Iterator[tuple[int, Record | RowError]]:
        arrow = import_pyarrow(name)
        with arrow.ipc.open_stream(self.data) as stream:
            table = stream.read_all()
        try:
            found = table.to_pylist()
        except UnicodeDecodeError:
            found = [self._row(table.slice(place, 1), name, self.first + place) for place in range(len(table))]
        yield from enumerate(found, self.first)

    def _row(self, table: Any, name: str, number: int) -> Record | RowError:
        try:
            record: Record = table.to_pylist()[0]
            return record
        except UnicodeDecodeError as error:
            return RecordError("encoding", f"not valid UTF-8 (byte 0x{error.object[error.start]:02x})").at(name, number)


def look_up(record: dict[str, Any], name: str) -> Any:
    """The value of a name, or of a dotted one; none, or nothing to look into, is an `RecordError`."""
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise RecordError("columns", no_column(name, record))
        value = value[part]
    return value


def no_column(name: str, names: Iterable[str]) -> str:
    """What to say of a column that is not there."""
    printable = [other for other in names if other.isprintable() and len(other) <= 40][:20]
    return f"no column {shown(name)}" + (f"; {nearest(name, printable)}" if printable else "")


def as_text(value: Any, column: str) -> str:
    """A value as text; a number or a truth value as JSON writes it."""
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise RecordError("encoding", f"{column} has a lone surrogate, which no text has") from None
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise RecordError("columns", f"{column} is null, expected text")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, bytes):
        text = decoded_line(value, "", 0)
        if isinstance(text, str):
            return text
        raise RecordError("encoding", f"{column} is not valid UTF-8")
    raise RecordError("type", f"{column} is {_kind(value)}, expected text")


def _kind(value: Any) -> str:
    names: dict[type, str] = {
        list: "a list",
        dict: "an object",
        str: "text or a number",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), f"of type {type(value).__name__}")
