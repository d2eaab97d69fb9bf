"""Tables that Arrow reads, batch by batch and only the columns asked for: Parquet files, Hugging Face data sets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from weft.data.reading.blocks import MOST, SIZE
from weft.data.reading.compression import (
    compression_of,
    display_name,
    first_line,
    import_pyarrow,
    open_rereadable,
    reading,
)
from weft.data.reading.records import ArrowRecords, no_column
from weft.errors import DataError


def parquet_parts(
    path: Path | str, columns: Sequence[str], *, optional: Sequence[str] = (), lists: bool = False
) -> Iterator[ArrowRecords]:
    """The rows of a Parquet file; `lists` says that the columns hold lists rather than text."""
    name = display_name(path)
    arrow = import_pyarrow(name)
    with _reading_arrow(name, arrow), ExitStack() as stack:
        import pyarrow.parquet

        file: Any = stack.enter_context(open_rereadable(path))
        if compression_of(path):  # Parquet is read from its end
            unpacked = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, unpacked)
            file = unpacked
        table = stack.enter_context(pyarrow.parquet.ParquetFile(file, page_checksum_verification=True))
        schema = table.schema_arrow
        columns = [column for column in columns if column not in optional or _top(schema, column) in schema.names]
        _check_columns(schema, columns, name, lists=lists)
        expected, first = table.metadata.num_rows, 1
        for batch in table.iter_batches(batch_size=MOST, columns=list(columns), use_threads=False):
            yield from _parts(batch, first)
            first += len(batch)
        if first - 1 != expected:
            raise DataError(f"{name}: damaged Parquet file ({first - 1} rows, but it says that it has {expected})")


def dataset_parts(name: str, config: str | None, split: str, columns: Sequence[str]) -> Iterator[ArrowRecords]:
    """The rows of a data set: a name on the Hugging Face hub, streamed, or a folder that ``save_to_disk`` wrote."""
    arrow = import_pyarrow(name)
    rows = _open_dataset(name, config, split)
    first = 1
    with _reading_arrow(name, arrow):
        for table in rows.with_format("arrow").iter(batch_size=MOST // 8):
            if first == 1:
                _check_columns(table.schema, columns, name, lists=False)
            tops = {_top(table.schema, column) for column in columns}
            for batch in table.select(sorted(tops)).combine_chunks().to_batches():
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
            found = datasets.load_from_disk(name)
            if not isinstance(found, datasets.DatasetDict):
                return found
            if split not in found:
                raise DataError(f"{name}: no split {split!r}; it has {', '.join(sorted(map(str, found)))}")
            return found[split]
        return datasets.load_dataset(name, config, split=split, streaming=True)
    except DataError:
        raise
    except Exception as error:  # the library raises errors of many libraries
        raise DataError(f"{name}: cannot open the data set: {first_line(error)}") from None


@contextmanager
def _reading_arrow(name: str, arrow: Any) -> Iterator[None]:
    try:
        with reading(name, lambda: 0):
            yield
    except (arrow.ArrowException, ValueError, OSError) as error:
        raise DataError(f"{name}: cannot be read: {first_line(error)}") from None
    except MemoryError:
        raise DataError(f"{name}: cannot be read: it asks for more memory than there is") from None


def _parts(batch: Any, first: int) -> Iterator[ArrowRecords]:
    """A batch as it can be sent; in halves, while it is large."""
    if len(batch) > 1 and batch.nbytes > 4 * SIZE:
        half = len(batch) // 2
        yield from _parts(batch.slice(0, half), first)
        yield from _parts(batch.slice(half), first + half)
    elif len(batch):
        import pyarrow

        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield ArrowRecords(sink.getvalue().to_pybytes(), first)


def _check_columns(schema: Any, columns: Sequence[str], name: str, *, lists: bool) -> None:
    import pyarrow.types as types

    for column in columns:
        kind = schema.field(_top(schema, column)).type if _top(schema, column) in schema.names else None
        for part in [] if column in schema.names else column.split(".")[1:]:
            place = kind.get_field_index(part) if kind is not None and types.is_struct(kind) else -1
            kind = kind.field(place).type if kind is not None and place >= 0 else None
        if kind is None:
            raise DataError(f"{name}: {no_column(column, schema.names)}")
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_null(kind)
        if lists and not is_list:
            raise DataError(f"{name}: column {column!r} is {_type_name(kind)}, expected lists of turns")
        if not lists and not _is_text(kind):
            raise DataError(f"{name}: column {column!r} is {_type_name(kind)}, expected text")


def _top(schema: Any, column: str) -> str:
    """The column of a table that a dotted name leads into."""
    return column if column in schema.names else column.split(".")[0]


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    tests = [types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_null]
    tests += [types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_string_view]
    return any(test(kind) for test in tests)


def _type_name(kind: Any) -> str:
    return " ".join(str(kind).split())[:60]
