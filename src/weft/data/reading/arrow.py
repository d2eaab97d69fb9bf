"""Tables read with Arrow, batch by batch and only the columns needed: Parquet files and Hugging Face datasets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.data.pairs import RowError
from weft.data.reading.compression import compression_of, import_pyarrow
from weft.data.reading.pipes import copy_bounded
from weft.data.reading.records import NumberedRecords, Record, Records, no_column
from weft.data.reading.tables import Selection, Turns, check_named_columns
from weft.data.reading.text_files import (
    CHUNK_BYTES,
    CHUNK_RECORDS,
    RecordError,
    display_name,
    first_line,
    open_rereadable,
    read_errors,
)
from weft.errors import DataError
from weft.recipe.data import HubDataset, TableSettings


class Parquet:
    """The format of Parquet files."""

    suffixes = (".parquet", ".pq")

    def read(
        self, path: Path | str, columns: Selection | Turns, settings: TableSettings
    ) -> Iterator[tuple[Records, Selection]]:
        check_named_columns(path, "parquet", columns, settings)
        name = display_name(path)
        arrow = import_pyarrow(name)
        with _arrow_errors(name, arrow), ExitStack() as stack:
            import pyarrow.parquet

            file: Any = stack.enter_context(open_rereadable(path))
            if compression_of(path):  # Parquet is read from its end
                decompressed = stack.enter_context(tempfile.TemporaryFile())
                copy_bounded(file, decompressed, str(path))
                file = decompressed
            table = stack.enter_context(pyarrow.parquet.ParquetFile(file, page_checksum_verification=True))
            names = _column_names(table.schema_arrow, columns)
            _check_columns(table.schema_arrow, names, name, lists=isinstance(columns, Turns))
            selection = columns if isinstance(columns, Selection) else Selection(())
            expected, first = table.metadata.num_rows, 1
            for batch in table.iter_batches(batch_size=CHUNK_RECORDS, columns=names, use_threads=False):
                for part in _parts(batch, first):
                    yield part, selection
                first += len(batch)
            if first - 1 != expected:
                raise DataError(f"{name}: damaged Parquet file ({first - 1} rows, but its metadata has {expected})")


def read_dataset(name: str, settings: HubDataset, columns: Sequence[str]) -> Iterator[ArrowRecords]:
    """The rows of a dataset: by its name on the Hugging Face hub, streamed, or a folder that ``save_to_disk`` wrote."""
    arrow = import_pyarrow(name)
    rows = _open_dataset(name, settings.config, settings.split)
    first = 1
    with _arrow_errors(name, arrow):
        for table in rows.with_format("arrow").iter(batch_size=CHUNK_RECORDS // 8):
            if first == 1:
                _check_columns(table.schema, columns, name, lists=False)
            top_columns = {_top_column(table.schema, column) for column in columns}
            for batch in table.select(sorted(top_columns)).combine_chunks().to_batches():
                yield from _parts(batch, first)
                first += len(batch)


def _open_dataset(name: str, config: str | None, split: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise DataError(f"{name}: reading data sets needs the library datasets; pip install datasets") from None
    try:
        folder = Path(name)
        if (folder / "dataset_info.json").is_file() or (folder / "dataset_dict.json").is_file():
            saved = datasets.load_from_disk(name)
            if not isinstance(saved, datasets.DatasetDict):
                return saved
            if split not in saved:
                raise DataError(f"{name}: no split {split!r}; it has {', '.join(sorted(map(str, saved)))}")
            return saved[split]
        return datasets.load_dataset(name, config, split=split, streaming=True)
    except DataError:
        raise
    except Exception as error:  # the library raises errors of many libraries
        raise DataError(f"{name}: cannot open the data set: {first_line(error)}") from None


@dataclass(frozen=True, slots=True)
class ArrowRecords:
    """Rows of a record batch, in Arrow's IPC format."""

    data: bytes
    first: int

    def records(self, name: str) -> NumberedRecords:
        arrow = import_pyarrow(name)
        with arrow.ipc.open_stream(self.data) as stream:
            table = stream.read_all()
        try:
            rows = table.to_pylist()
        except UnicodeDecodeError:
            rows = [self._row(table.slice(index, 1), name, self.first + index) for index in range(len(table))]
        yield from enumerate(rows, self.first)

    def _row(self, table: Any, name: str, number: int) -> Record | RowError:
        try:
            record: Record = table.to_pylist()[0]
            return record
        except UnicodeDecodeError as error:
            return RecordError("encoding", f"not valid UTF-8 (byte 0x{error.object[error.start]:02x})").at(name, number)


@contextmanager
def _arrow_errors(name: str, arrow: Any) -> Iterator[None]:
    try:
        with read_errors(name, lambda: 0):
            yield
    except (arrow.ArrowException, ValueError, OSError) as error:
        raise DataError(f"{name}: cannot be read: {first_line(error)}") from None
    except MemoryError:
        raise DataError(f"{name}: cannot be read: it asks for more memory than there is") from None


def _parts(batch: Any, first: int) -> Iterator[ArrowRecords]:
    """A batch as it can be sent to another process; a large one in halves."""
    if len(batch) > 1 and batch.nbytes > 4 * CHUNK_BYTES:
        half = len(batch) // 2
        yield from _parts(batch.slice(0, half), first)
        yield from _parts(batch.slice(half), first + half)
    elif len(batch):
        import pyarrow

        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield ArrowRecords(sink.getvalue().to_pybytes(), first)


def _column_names(schema: Any, columns: Selection | Turns) -> list[str]:
    """The columns to read; optional ones only if the table has them."""
    if isinstance(columns, Turns):
        return [columns.name]
    names = map(str, columns.columns)
    return [name for name in names if name not in columns.optional or _top_column(schema, name) in schema.names]


def _check_columns(schema: Any, columns: Sequence[str], name: str, *, lists: bool) -> None:
    """Refuse columns that are missing, or of the wrong type; `lists`: lists are expected instead of text."""
    import pyarrow.types as types

    for column in columns:
        top = _top_column(schema, column)
        column_type: Any = schema.field(top).type if top in schema.names else None
        for part in [] if column in schema.names else column.split(".")[1:]:
            is_struct = column_type is not None and types.is_struct(column_type)
            index = column_type.get_field_index(part) if is_struct else -1
            column_type = column_type.field(index).type if index >= 0 else None
        if column_type is None:
            raise DataError(f"{name}: {no_column(column, schema.names)}")
        is_list = types.is_list(column_type) or types.is_large_list(column_type) or types.is_null(column_type)
        if lists and not is_list:
            raise DataError(f"{name}: column {column!r} is {_type_name(column_type)}, expected lists of turns")
        if not lists and not is_text(column_type):
            raise DataError(f"{name}: column {column!r} is {_type_name(column_type)}, expected text")


def _top_column(schema: Any, column: str) -> str:
    """The column of a table that a dotted name leads into."""
    return column if column in schema.names else column.split(".")[0]


def is_struct(column_type: Any) -> bool:
    """Whether the values of a column are objects."""
    import pyarrow.types as types

    return bool(types.is_struct(column_type))


def is_text(column_type: Any) -> bool:
    """Whether the values of a column can be read as text."""
    import pyarrow.types as types

    if types.is_dictionary(column_type):
        return is_text(column_type.value_type)
    tests = [types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_null]
    tests += [types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_string_view]
    return any(test(column_type) for test in tests)


def _type_name(column_type: Any) -> str:
    return " ".join(str(column_type).split())[:60]
