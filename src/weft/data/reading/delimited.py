"""Tables of cells between delimiters: TSV and CSV.

TSV has no quoting: a tab ends a cell, a line end the record. CSV follows RFC 4180: a cell that starts with a quote
ends at the next single quote, may contain delimiters and line ends, and a quote written twice. A quote that is never
closed is an error of the file, whatever is done with bad rows: it takes all rows that follow. The line ``sep=;`` with
which spreadsheets begin CSV is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from weft.data.pairs import RowError
from weft.data.reading import text_files
from weft.data.reading.records import NumberedRecords, Records
from weft.data.reading.tables import Selection, Turns
from weft.data.reading.text_files import Chunk, LineSplitter, RecordError, decode_line, decode_lines, display_name
from weft.errors import DataError, column_phrase, plural, quote
from weft.recipe.data import TableSettings


class Tsv:
    """The format of a file whose lines are cells separated by tabs, or by another delimiter."""

    name = "tsv"
    suffixes: tuple[str, ...] = (".tsv",)
    delimiter = "\t"

    def read(
        self, path: Path | str, columns: Selection | Turns, settings: TableSettings
    ) -> Iterator[tuple[Records, Selection]]:
        name = display_name(path)
        delimiter = settings.delimiter or self.delimiter
        if isinstance(columns, Turns) and isinstance(columns.column, str):
            raise DataError(
                f"{name}: turns: {columns.column!r}: in {self.name} they are columns; give the number of the first"
            )
        selection = columns if isinstance(columns, Selection) else Selection(())
        names = [column for column in selection.columns if isinstance(column, str)]
        if names and settings.header is False:
            raise DataError(f"{name}: {column_phrase(names[0])}: {self.name} without a header has numbers, not names")
        with self.splitter(path, delimiter) as splitter:
            has_header = settings.header or (settings.header is None and names)
            header = self._header(splitter, delimiter) if has_header else None
            if isinstance(columns, Selection):
                selection = columns.in_cells(header, f"{name}:{max(1, splitter.next_line - 1)}")
            for chunk in splitter.chunks():
                yield self.records(chunk, delimiter), selection

    def splitter(self, path: Path | str, delimiter: str) -> LineSplitter:
        return LineSplitter(path)

    def records(self, chunk: Chunk, delimiter: str) -> Records:
        return TsvRecords(chunk, delimiter)

    def cells(self, record: str, delimiter: str) -> list[str]:
        return record.split(delimiter)

    def _header(self, splitter: LineSplitter, delimiter: str) -> list[str]:
        """The names in the first line that is not blank."""
        cells: list[str] = []
        while not any(map(str.strip, cells)):
            if not splitter.fill():
                raise DataError(f"{splitter.name}: is empty, expected a header with the names of the columns")
            raw, number = splitter.take(1)
            if raw.endswith(b"\n"):
                raw = raw[:-1].removesuffix(b"\r")
            line = decode_line(raw, splitter.name, number)
            if isinstance(line, RowError):
                raise DataError(line.message)
            try:
                cells = self.cells(line, delimiter)
            except RecordError as error:
                raise DataError(error.at(splitter.name, number).message) from None
        return column_names(cells)


class Csv(Tsv):
    """The format of RFC 4180."""

    name = "csv"
    suffixes = (".csv",)
    delimiter = ","

    def splitter(self, path: Path | str, delimiter: str) -> LineSplitter:
        if not delimiter.isascii():
            raise DataError(f"{display_name(path)}: delimiter: {delimiter!r}; in csv it is one ASCII character")
        return CsvSplitter(path, delimiter)

    def records(self, chunk: Chunk, delimiter: str) -> Records:
        return CsvRecords(chunk, delimiter)

    def cells(self, record: str, delimiter: str) -> list[str]:
        return csv_cells(record, delimiter)


class CsvSplitter(LineSplitter):
    """Splits a file into chunks of whole CSV records, which may contain quoted line ends.

    A quote opens a cell only at its start. All that follows a quote that is never closed is one chunk.
    """

    def __init__(self, path: Path | str, delimiter: str) -> None:
        super().__init__(path)
        self.delimiter = delimiter

    def _without_preamble(self, start: bytes) -> bytes:
        line = SEPARATOR_LINE.match(start)
        self.next_line += line is not None
        return start[line.end() :] if line else start

    def _records_end(self, max_records: int) -> int:
        if b'"' not in self._buffer:
            return super()._records_end(max_records)
        match = csv_records(self.delimiter, max_records).match(self._buffer)
        end = match.end() if match else 0
        if not end and self._ended:  # the last record without its line end, or a quote that is never closed
            return len(self._buffer)
        return end

    def _refuse_long_lines(self) -> None:
        limit = text_files.MAX_LINE_BYTES
        if len(self._buffer) > limit and not 0 < self._records_end(1) <= limit:
            self._buffer, self._line_ends = b"", self._line_ends[:0]
            message = f"a record of more than {limit} bytes; is a quote never closed?"
            self._failure = DataError(f"{self.name}:{self.next_line}: {message}")


class UnclosedQuoteError(RecordError):
    """A cell of CSV that begins with a quote and has no end."""


@dataclass(frozen=True, slots=True)
class TsvRecords:
    chunk: Chunk
    delimiter: str

    def records(self, name: str) -> NumberedRecords:
        delimiter = self.delimiter
        for number, line in enumerate(decode_lines(self.chunk, name), self.chunk.first_line):
            yield number, line.split(delimiter) if isinstance(line, str) else line


@dataclass(frozen=True, slots=True)
class CsvRecords:
    chunk: Chunk
    delimiter: str

    def records(self, name: str) -> NumberedRecords:
        if b'"' not in self.chunk.data:
            yield from TsvRecords(self.chunk, self.delimiter).records(name)
            return
        one_record = csv_records(self.delimiter, 1)
        data, number, start = self.chunk.data, self.chunk.first_line, 0
        while start < len(data):
            match = one_record.match(data, start)
            end = match.end() if match else len(data)
            raw = data[start:end]
            text = decode_line(raw.removesuffix(b"\n").removesuffix(b"\r") if match else raw, name, number)
            if isinstance(text, str):
                try:
                    yield number, csv_cells(text, self.delimiter)
                except UnclosedQuoteError as error:
                    raise DataError(error.at(name, number).message) from None
                except RecordError as error:
                    yield number, error.at(name, number)
            else:
                yield number, text
            number += raw.count(b"\n")
            start = end


def csv_cells(record: str, delimiter: str) -> list[Any]:
    """The cells of one record without its line end."""
    if '"' not in record:
        return record.split(delimiter)
    cells, start, cell = [], 0, _csv_cell(delimiter)
    while match := cell.match(record, start):
        quoted, bare, end = match.groups()
        cells.append(bare if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        start = match.end()
    column = f"column {len(cells) + 1}"
    if (closed := _CSV_QUOTED.match(record, start)) is None:
        remaining = plural(record.removesuffix("\n").count("\n") + 1, "line")
        raise UnclosedQuoteError("csv", f"{column} has a quote that is never closed ({remaining} to the file's end)")
    rest, later = record[closed.end() :].split("\n")[0][:20], record.count("\n", 0, closed.end())
    where = f" {plural(later, 'line')} below" if later else ""
    raise RecordError("csv", f"{column} continues after its closing quote{where}: {quote(rest)}")


def column_names(cells: list[str]) -> list[str]:
    """The cells of a header as names: without white space and byte order marks around them."""
    return [cell.strip().strip("\ufeff").strip() for cell in cells]


@cache
def csv_records(delimiter: str, max_records: int) -> re.Pattern[bytes]:
    """Matches up to that many whole CSV records, line ends included."""
    d = re.escape(delimiter.encode())
    cell = rb'(?:"(?:[^"]++|"")*+"[^%b\n]*+|[^"%b\n][^%b\n]*+)?+' % (d, d, d)
    return re.compile(rb"(?:%b(?:%b%b)*+\n){1,%d}+" % (cell, d, cell, max_records))


@cache
def _csv_cell(delimiter: str) -> re.Pattern[str]:
    d = re.escape(delimiter)
    return re.compile(rf'(?:"((?:[^"]++|"")*+)"|([^"{d}][^{d}]*+|))({d}|\Z)')


_CSV_QUOTED = re.compile(r'"(?:[^"]++|"")*+"')
SEPARATOR_LINE = re.compile(rb'"?sep=([^\r\n"])"?\r?\n', re.IGNORECASE)
"""The first line of CSV that names its delimiter."""
