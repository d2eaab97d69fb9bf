"""Rows of any input as lists of cells, up to a limit of bytes, and how many rows there are.

A large text file is read at evenly spaced offsets, so that a file sorted by length or by topic is sampled evenly; a
compressed file, CSV with its quoted line ends and two parallel files are read from their beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from weft.data.pairs import RowError
from weft.data.profiling.inputs import PairInput
from weft.data.reading.arrow import Parquet
from weft.data.reading.blocks import CHUNK_BYTES, Chunk, LineSplitter, RecordError
from weft.data.reading.compression import compression_of, display_name, import_pyarrow, open_rereadable
from weft.data.reading.corpora import expand
from weft.data.reading.delimited import Csv, Tsv
from weft.data.reading.json_lines import JsonRecords
from weft.data.reading.plain_text import SurplusBlock, parallel_blocks
from weft.data.reading.records import Record, as_text
from weft.data.reading.tables import Selection
from weft.errors import DataError, plural
from weft.recipe.corpus import TableFile

READ_BYTES = 32 << 20
"""Bytes of text that are read of an input."""
COUNT_BYTES = 256 << 20
"""Bytes of a compressed file that are read only to count its lines."""
FIRST_BYTES = 1 << 16
"""Bytes of the first line of CSV by which its delimiter is detected."""
DELIMITERS = (",", ";", "\t", "|")
Certainty = Literal["exact", "estimated", "at least"]


@dataclass
class RowCount:
    """How many rows an input has."""

    rows: int = 0
    certainty: Certainty = "exact"


class RowStream:
    """The rows of an input, once; afterwards `count`, `bad_rows` and, in formats with names, `names` are known."""

    def __init__(self, pair_input: PairInput, read_bytes: int = READ_BYTES) -> None:
        self.input = pair_input
        self.read_bytes = read_bytes
        self.count = RowCount()
        self.bad_rows = self.encoding_errors = 0
        self.first_error: str | None = None
        self.names: tuple[str, ...] | None = None
        """The names of the columns of JSON and Parquet, dotted where values are nested."""
        self.delimiter: str | None = None
        """What separates the cells of CSV, if it is not a comma."""
        self._bytes = 0

    def __iter__(self) -> Iterator[list[str]]:
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

    def _spread(self, path: str) -> Iterator[list[str]]:
        """Chunks at evenly spaced offsets, each from a line's beginning."""
        size, chunks = Path(path).stat().st_size, max(1, self.read_bytes // CHUNK_BYTES)
        read = rows = 0
        with open_rereadable(path) as file:
            for index in range(chunks):
                file.seek(size * index // chunks)
                if index:
                    file.readline()
                data = file.read(CHUNK_BYTES)
                data += file.readline() if not data.endswith(b"\n") else b""
                read += len(data)
                rows += data.count(b"\n")
                yield from self._cells(Chunk(data, 1), display_name(path))
        self.count.rows += round(size * rows / max(1, read))
        self.count.certainty = "estimated"

    def _from_start(self, path: str) -> Iterator[list[str]]:
        if self.input.format == "csv":
            self.delimiter = _delimiter(path)
        with self._splitter(path) as splitter:
            while self._bytes < self.read_bytes and splitter.fill():
                chunk = splitter.take(1 << 13)
                self._bytes += len(chunk.data)
                rows = 0
                for cells in self._cells(chunk, splitter.name):
                    rows += 1
                    yield cells
                self.count.rows += rows
            self._count_rest(splitter)

    def _count_rest(self, splitter: LineSplitter) -> None:
        while self._bytes < COUNT_BYTES and splitter.fill():
            chunk = splitter.take(1 << 13)
            self._bytes += len(chunk.data)
            self.count.rows += chunk.data.count(b"\n")
        if splitter.fill():
            self.count.certainty = "at least"

    def _splitter(self, path: str) -> LineSplitter:
        return Csv().splitter(path, self.delimiter or ",") if self.input.format == "csv" else LineSplitter(path)

    def _cells(self, chunk: Chunk, name: str) -> Iterator[list[str]]:
        """The readable rows of a chunk."""
        if self.input.format == "jsonl":
            records: Any = JsonRecords(chunk).records(name)
        else:
            table = Csv() if self.input.format == "csv" else Tsv()
            records = table.records(chunk, self.delimiter or table.delimiter).records(name)
        for _, record in records:
            if isinstance(record, RowError):
                self._bad(record)
            elif isinstance(record, dict):
                yield self._values(record)
            else:
                yield record

    def _values(self, record: Record) -> list[str]:
        """The values of a record in the order of the names, which are those of the first record."""
        values = _flat(record)
        if self.names is None:
            self.names = tuple(values)
        return [values.get(name, "") for name in self.names]

    def _bad(self, error: RowError) -> None:
        self.bad_rows += 1
        self.encoding_errors += error.kind == "encoding"
        self.first_error = self.first_error or error.message

    def _parquet(self, path: str) -> Iterator[list[str]]:
        import_pyarrow(display_name(path))
        import pyarrow.parquet

        with open_rereadable(path) as file:
            try:
                metadata = None if compression_of(path) else pyarrow.parquet.ParquetFile(file)
                names = [] if metadata is None else _text_columns(metadata.schema_arrow)
            except pyarrow.ArrowInvalid as error:
                raise DataError(f"{display_name(path)}: not a Parquet file ({error})") from None
        if metadata is None:
            raise DataError(f"{path}: a compressed Parquet file; decompress it, Parquet has a compression of its own")
        if len(names) < 2:
            raise DataError(f"{display_name(path)}: {plural(len(names), 'column')} of text; expected two")
        settings = TableFile(file=[path], source=[names[0]], target=[names[-1]])
        for part, _ in Parquet().read(path, Selection(tuple(names)), settings):
            for _, record in part.records(display_name(path)):
                if isinstance(record, RowError):
                    self._bad(record)
                    continue
                cells = self._values(record)
                self._bytes += sum(map(len, cells))
                yield cells
            if self._bytes >= self.read_bytes:
                break
        self.count.rows += metadata.metadata.num_rows

    def _parallel(self) -> Iterator[list[str]]:
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
                    for _, row in block.rows():
                        if isinstance(row, RowError):
                            self._bad(row)
                        else:
                            yield [row.source, row.target]
                rows += block.source.data.count(b"\n") + (not block.source.data.endswith(b"\n"))
                read += len(block.source.data)
                self._bytes += len(block.source.data) + len(block.target.data)
                if self._bytes >= COUNT_BYTES:
                    self.count.certainty = "at least"
                    break
            self.count.rows += rows


def _delimiter(path: str) -> str | None:
    """The delimiter of a CSV file, detected in its first line; None for a comma."""
    with open_rereadable(path) as file:
        line = re.sub(rb'"[^"]*"', b"", file.readline(FIRST_BYTES))
    delimiter = max(DELIMITERS, key=lambda delimiter: line.count(delimiter.encode()))
    return None if delimiter == "," else delimiter


def _text_columns(schema: Any) -> list[str]:
    """The names of the columns of a Parquet file that can be read as text, dotted inside of structs; no lists."""
    import pyarrow

    names = []
    for column in schema:
        if pyarrow.types.is_struct(column.type):
            inner = [column.type.field(index) for index in range(column.type.num_fields)]
            names += [f"{column.name}.{part.name}" for part in inner if not pyarrow.types.is_nested(part.type)]
        elif not pyarrow.types.is_nested(column.type):
            names.append(column.name)
    return names


def _flat(record: Record, prefix: str = "") -> dict[str, str]:
    """The texts of a record by their names, dotted where objects are nested; values that are not text are left out."""
    assert isinstance(record, dict)
    texts: dict[str, str] = {}
    for name, value in record.items():
        if isinstance(value, dict) and not prefix:
            texts.update(_flat(value, f"{name}."))
            continue
        try:
            texts[prefix + name] = as_text(value, name)
        except RecordError:
            continue
    return texts
