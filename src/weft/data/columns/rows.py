"""Rows of any input as lists of cells, up to a limit of bytes, and how many rows there are.

Rows of JSON lines have the names of all rows before them: a row that has no text for a name, since its value is
missing, null or a list, has None in its place.

A large text file is read at evenly spaced offsets, so that a file sorted by length or by topic is sampled evenly; a
compressed file, CSV with its quoted line ends and two parallel files are read from their beginning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from weft.data.pairs import RowError
from weft.data.reading import text_files
from weft.data.reading.arrow import Parquet, is_struct, is_text
from weft.data.reading.compression import compression_of, import_pyarrow
from weft.data.reading.corpora import SurplusBlock, expand, parallel_blocks
from weft.data.reading.delimited import SEPARATOR_LINE, Csv, Tsv
from weft.data.reading.formats import DEFAULT, format_of
from weft.data.reading.json_lines import BLANK_LINE, JsonRecords
from weft.data.reading.records import as_text
from weft.data.reading.tables import Selection
from weft.data.reading.text_files import (
    BYTE_ORDER_MARK,
    CHUNK_BYTES,
    Chunk,
    LineSplitter,
    RecordError,
    check_text,
    display_name,
    open_rereadable,
)
from weft.errors import DataError, plural
from weft.recipe.data import TableFile
from weft.runtime.activity import Activity, activity

READ_BYTES = 32 << 20
"""Bytes of text that are read of an input."""
READ_ROWS = 1_000_000
"""Rows that are read from the beginning of an input; further ones are only counted."""
COUNT_BYTES = 256 << 20
"""Bytes of a compressed file that are read only to count its lines."""
FIRST_BYTES = 1 << 16
"""Bytes at the beginning of CSV by which its delimiter is detected."""
DELIMITERS = (",", ";", "\t", "|")
DELIMITED_LINES = 50
"""Lines of CSV by which its delimiter is detected."""
MAX_DEPTH = 8
"""Objects inside of each other whose fields are looked at."""
MAX_NAMES = 1_000
"""Fields of JSON lines that are looked at; further ones are not."""
Certainty = Literal["exact", "estimated", "at least"]


@dataclass(frozen=True)
class PairInput:
    """A file of pairs in one of the table formats, or a file of sources and a file of targets."""

    file: str
    """``-`` is standard input."""
    targets: str | None = None
    """The file of targets, if `file` has the sources only."""
    is_guess: bool = False
    """Whether it was guessed which of two files has the sources."""

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return display_name(self.file) if self.targets is None else f"{self.file} and {self.targets}"

    @property
    def format(self) -> str:
        """tsv, csv, jsonl or parquet; "parallel" for two files."""
        return "parallel" if self.targets is not None else format_of(self.file) or DEFAULT


@dataclass
class RowCount:
    """The number of rows of an input."""

    rows: int = 0
    certainty: Certainty = "exact"


class TableRow(NamedTuple):
    """The cells of a row, and where it is."""

    file: str
    number: int
    cells: list[str | None]
    """None: no text."""

    @property
    def is_blank(self) -> bool:
        return not any(cell and cell.strip() for cell in self.cells)

    def texts(self, width: int = 0) -> list[str]:
        """The cells, at least that many, as text."""
        return [cell or "" for cell in self.cells] + [""] * (width - len(self.cells))


class RowStream:
    """The rows of an input, once; afterwards `count`, `bad_rows` and, in formats with names, `names` are known."""

    def __init__(self, pair_input: PairInput, read_bytes: int = READ_BYTES) -> None:
        self.input = pair_input
        self.read_bytes = read_bytes
        self.count = RowCount()
        self.bad_rows = self.encoding_errors = self.blank_lines = 0
        self.first_error: str | None = None
        self.names: tuple[str, ...] | None = None
        """The names of the columns of JSON and Parquet, dotted where values are nested: those of all rows so far."""
        self._orders: Counter[tuple[str, ...]] = Counter()
        """Number of rows with these names, in this order."""
        self.other_fields: dict[str, Any] = {}
        """Names without text, and the first value of each."""
        self.delimiter: str | None = None
        """The delimiter of CSV, if it is not a comma."""
        self._bytes = 0
        self._reading = Activity("reading", "rows")

    @property
    def ordered_names(self) -> tuple[str, ...] | None:
        """The names in the order of most rows: the first row may lack the first field."""
        if self.names is None:
            return None
        usual = max(self._orders, key=self._orders.__getitem__, default=())
        return tuple(name for name in dict.fromkeys((*usual, *self.names)) if name in self.names)

    def __iter__(self) -> Iterator[TableRow]:
        with activity(f"reading {self.input.name}", "rows") as self._reading:
            for row in self._rows_of_input():
                self._reading.done += 1
                yield row

    def _rows_of_input(self) -> Iterator[TableRow]:
        if self.input.format == "parallel":
            yield from self._parallel()
            return
        for path in expand((self.input.file,)):
            if self.input.format == "parquet":
                yield from self._parquet(path)
            elif self._is_large_text(path):
                yield from self._spread(path)
            else:
                yield from self._from_start(path)

    def _is_large_text(self, path: str) -> bool:
        """Whether a file is read at several places: a regular text file above the limit in which a line is a record."""
        if path == "-" or self.input.format == "csv" or compression_of(path) or not Path(path).is_file():
            return False
        return Path(path).stat().st_size > self.read_bytes

    def _spread(self, path: str) -> Iterator[TableRow]:
        """Chunks at evenly spaced offsets, each from a line's beginning."""
        size, chunks = Path(path).stat().st_size, max(1, self.read_bytes // CHUNK_BYTES)
        read = rows = 0
        with open_rereadable(path) as file:
            for index in range(chunks):
                offset = size * index // chunks
                file.seek(offset)
                name = f"{display_name(path)}, from byte {offset:,} on" if index else display_name(path)
                if index:
                    _rest_of_line(file, name)
                data = file.read(CHUNK_BYTES)
                data += _rest_of_line(file, name) if not data.endswith(b"\n") else b""
                read += len(data)
                rows += data.count(b"\n")
                if index == 0:
                    check_text(data, name)
                    data = data.removeprefix(BYTE_ORDER_MARK)
                yield from self._rows(Chunk(data, 1), name)
                if read > 2 * self.read_bytes:  # of a few very long lines
                    break
        self.count.rows += round(size * rows / max(1, read))
        self.count.certainty = "estimated"

    def _from_start(self, path: str) -> Iterator[TableRow]:
        if self.input.format == "csv":
            self.delimiter = _delimiter(path)
        with self._splitter(path) as splitter:
            while self._bytes < self.read_bytes and self.count.rows < READ_ROWS and splitter.fill():
                chunk = splitter.take(1 << 13)
                self._bytes += len(chunk.data)
                _check_line_ends(chunk, splitter.name)
                for row in self._rows(chunk, splitter.name):
                    self.count.rows += 1
                    yield row
            self._count_rest(splitter)

    def _count_rest(self, splitter: LineSplitter) -> None:
        while self._bytes < COUNT_BYTES and splitter.fill():
            chunk = splitter.take(1 << 13)
            self._bytes += len(chunk.data)
            self.count.rows += chunk.data.count(b"\n")
            self._reading.done += chunk.data.count(b"\n")
        if splitter.fill():
            self.count.certainty = "at least"

    def _splitter(self, path: str) -> LineSplitter:
        return Csv().splitter(path, self.delimiter or ",") if self.input.format == "csv" else LineSplitter(path)

    def _rows(self, chunk: Chunk, name: str) -> Iterator[TableRow]:
        """The readable rows of a chunk."""
        if self.input.format == "jsonl":
            records: Any = JsonRecords(chunk).records(name)
        else:
            table = Csv() if self.input.format == "csv" else Tsv()
            records = table.records(chunk, self.delimiter or table.delimiter).records(name)
        for number, record in records:
            if isinstance(record, RowError):
                self._bad(record)
            else:
                yield TableRow(name, number, self._values(record) if isinstance(record, dict) else record)

    def _values(self, record: dict[str, Any]) -> list[str | None]:
        """The texts of a record in the order of the names, to which it may add."""
        values = _flat(record)
        names = self.names or ()
        texts = [name for name, value in values.items() if isinstance(value, str)]
        if len(texts) > 1 and len(self._orders) < MAX_NAMES:
            self._orders[tuple(texts)] += 1
        if any(name not in names for name in values):
            self.names = names = tuple(dict.fromkeys((*names, *texts)))[:MAX_NAMES]
            for name, value in values.items():
                if not isinstance(value, str) and len(self.other_fields) < MAX_NAMES:
                    self.other_fields.setdefault(name, value)
        return [value if isinstance(value := values.get(name), str) else None for name in names]

    def _bad(self, error: RowError) -> None:
        self.bad_rows += 1
        self.encoding_errors += error.kind == "encoding"
        self.blank_lines += error.message.endswith(BLANK_LINE)
        self.first_error = self.first_error or error.message

    def _parquet(self, path: str) -> Iterator[TableRow]:
        import_pyarrow(display_name(path))
        import pyarrow.parquet

        with open_rereadable(path) as file:
            try:
                metadata = None if compression_of(path) else pyarrow.parquet.ParquetFile(file)
                names = [] if metadata is None else _text_columns(metadata.schema_arrow)
            except pyarrow.ArrowInvalid as error:
                raise DataError(f"{display_name(path)}: not a Parquet file ({error})") from None
        if metadata is None:
            raise DataError(f"{path}: a compressed Parquet file; decompress it, Parquet has its own compression")
        if len(names) < 2:
            shown = f" ({names[0]})" if names else ""
            raise DataError(f"{display_name(path)}: {plural(len(names), 'column')} of text{shown}; expected two")
        self.names = (*(self.names or ()), *(name for name in names if name not in (self.names or ())))
        settings = TableFile(file=[path], source=[names[0]], target=[names[-1]])
        for part, _ in Parquet().read(path, Selection(tuple(names)), settings):
            for number, record in part.records(display_name(path)):
                if isinstance(record, RowError):
                    self._bad(record)
                    continue
                assert isinstance(record, dict)
                row = TableRow(display_name(path), number, self._values(record))
                self._bytes += sum(map(len, row.texts()))
                yield row
            if self._bytes >= self.read_bytes:
                break
        self.count.rows += metadata.metadata.num_rows

    def _parallel(self) -> Iterator[TableRow]:
        assert self.input.targets is not None
        sources, targets = expand((self.input.file,)), expand((self.input.targets,))
        if len(sources) != len(targets):
            raise DataError(
                f"{self.input.name}: {len(sources)} and {len(targets)} files; they must correspond file by file"
            )
        for source, target in zip(sources, targets, strict=True):
            rows = read = 0
            for block in parallel_blocks(source, target):
                if isinstance(block, SurplusBlock):  # a line that is missing somewhere shifts all that follow it
                    raise DataError(f"{block.name}:{block.first_line}: {block.message}")
                if self._bytes < self.read_bytes:
                    for number, row in block.rows():
                        if isinstance(row, RowError):
                            self._bad(row)
                        else:
                            yield TableRow(block.name, number, [row.source, row.target])
                rows += block.source.data.count(b"\n") + (not block.source.data.endswith(b"\n"))
                read += len(block.source.data)
                self._bytes += len(block.source.data) + len(block.target.data)
                if self._bytes >= COUNT_BYTES:
                    self.count.certainty = "at least"
                    break
            self.count.rows += rows


def _rest_of_line(file: BinaryIO, name: str) -> bytes:
    """The bytes of a file up to the next line end; an error if the line is too long."""
    line = file.readline(text_files.MAX_LINE_BYTES + 1)
    if len(line) > text_files.MAX_LINE_BYTES:
        raise DataError(f"{name}: a line of more than {text_files.MAX_LINE_BYTES} bytes; is this a text file?")
    return line


def _delimiter(path: str) -> str | None:
    """The delimiter of a CSV file: the one that most lines have equally often; None for a comma."""
    with open_rereadable(path) as file:
        start = file.read(FIRST_BYTES).removeprefix(BYTE_ORDER_MARK)
    if told := SEPARATOR_LINE.match(start):
        return None if told[1] == b"," else told[1].decode("ascii", "replace")
    lines = [line for line in re.sub(rb'"[^"]*"', b"", start).split(b"\n") if line.strip()][:DELIMITED_LINES]

    def agreement(delimiter: str) -> tuple[float, int]:
        counts = Counter(line.count(delimiter.encode()) for line in lines)
        counts.pop(0, None)
        return max(((lines_of / len(lines), count) for count, lines_of in counts.items()), default=(0.0, 0))

    delimiter = max(DELIMITERS, key=agreement)
    return None if delimiter == "," else delimiter


def _check_line_ends(chunk: Chunk, name: str) -> None:
    """Refuse a file whose lines end with carriage returns, as those of the first Macintosh did: it would be one row."""
    if chunk.first_line == 1 and b"\n" not in chunk.data and chunk.data.rstrip(b"\r").count(b"\r"):
        raise DataError(f"{name}: its lines end with CR, expected LF or CR LF; convert it, e.g. with tr '\\r' '\\n'")


def _text_columns(columns: Iterable[Any], prefix: str = "") -> list[str]:
    """The names of the columns of a Parquet file that can be read as text, dotted inside of structs."""
    names = []
    for column in columns:
        if is_struct(column.type):
            inner = (column.type.field(index) for index in range(column.type.num_fields))
            names += _text_columns(inner, f"{prefix}{column.name}.")
        elif is_text(column.type):
            names.append(prefix + column.name)
    return names


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a record by their names, dotted where objects are nested; as text, where they can be read so."""
    values: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict) and value and prefix.count(".") < MAX_DEPTH:
            values |= _flat(value, f"{prefix}{name}.")
            continue
        try:
            values[prefix + name] = as_text(value, name)
        except RecordError:
            values[prefix + name] = value
    return values
