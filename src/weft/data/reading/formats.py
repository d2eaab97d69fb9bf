"""Tables of any format, as parts with records in them: which format a file has, and what its header says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from weft.data.pairs import RowError
from weft.data.reading.arrow import parquet_parts
from weft.data.reading.blocks import CsvSplitter, LineSplitter, RecordError, decoded_line
from weft.data.reading.compression import display_name, inner_name
from weft.data.reading.records import CsvRecords, JsonRecords, Records, TsvRecords, csv_cells
from weft.data.reading.tables import Column, Selection, named
from weft.errors import DataError, nearest

Format = Literal["auto", "tsv", "csv", "jsonl", "parquet"]
SUFFIXES: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
SUFFIXES |= {".parquet": "parquet", ".pq": "parquet"}


def format_of(path: Path | str, format: Format) -> Format:
    """The format given, or the one that the name of a file tells; a name that tells nothing is TSV."""
    return SUFFIXES.get(Path(inner_name(path)).suffix.lower(), "tsv") if format == "auto" else format


def check_format(format: str, delimiter: str | None) -> None:
    """Refuse formats that there are none of, and delimiters that cannot be."""
    if format not in get_args(Format):
        raise DataError(f"format: {format!r} is unknown; {nearest(format, get_args(Format))}")
    if delimiter is not None and (not delimiter or any(mark in delimiter for mark in '\n\r"')):
        raise DataError(f"delimiter: {delimiter!r} cannot separate columns")


def parts(
    path: Path | str,
    format: Format,
    wanted: Selection | Column | None,
    header: bool | None,
    delimiter: str | None,
) -> Iterator[tuple[Records, Selection]]:
    """The parts of a table, and how to find the columns that are wanted in their records.

    Instead of a selection, a column (or none) that holds the turns of a dialogue.
    """
    kind = format_of(path, format)
    selection = wanted if isinstance(wanted, Selection) else Selection(())
    columns = selection.columns if isinstance(wanted, Selection) else () if wanted is None else (wanted,)
    if kind in ("jsonl", "parquet"):
        numbers = [column for column in columns if isinstance(column, int)]
        if numbers:
            raise DataError(f"{display_name(path)}: {named(numbers[0])}: columns of {kind} have names, not numbers")
        if header or delimiter is not None:
            raise DataError(f"{display_name(path)}: {kind} has neither a header nor a delimiter")
    if kind == "parquet":
        yield from _of_parquet(path, wanted, selection)
    elif kind == "jsonl":
        with LineSplitter(path) as cutter:
            for piece in cutter.pieces():
                yield JsonRecords(piece, lists=wanted is None), selection
    else:
        yield from _of_cells(path, kind, wanted, header, delimiter)


def _of_parquet(
    path: Path | str, wanted: Selection | Column | None, selection: Selection
) -> Iterator[tuple[Records, Selection]]:
    if isinstance(wanted, Selection):
        names = [str(column) for column in wanted.columns]
        optional = [str(column) for column in wanted.optional]
        for part in parquet_parts(path, names, optional=optional):
            yield part, selection
    else:
        for part in parquet_parts(path, ["turns" if wanted is None else str(wanted)], lists=True):
            yield part, selection


def _of_cells(
    path: Path | str, kind: Format, wanted: Selection | Column | None, header: bool | None, delimiter: str | None
) -> Iterator[tuple[Records, Selection]]:
    name = display_name(path)
    if isinstance(wanted, Selection):
        names = [column for column in wanted.columns if isinstance(column, str)]
        selection = wanted
    else:
        names, selection = [], Selection(())
        if isinstance(wanted, str):
            raise DataError(f"{name}: turns: {wanted!r}: in {kind} they are columns; give the number of the first")
    if names and header is False:
        raise DataError(f"{name}: {named(names[0])}: {kind} without a header has numbers, not names")
    separator = delimiter or ("," if kind == "csv" else "\t")
    if kind == "csv" and (len(separator) != 1 or not separator.isascii()):
        raise DataError(f"{name}: delimiter: {separator!r}; in csv it is one ASCII character")
    with LineSplitter(path) if kind == "tsv" else CsvSplitter(path, separator) as cutter:
        cells = _header(cutter, kind, separator) if header or (header is None and names) else None
        if isinstance(wanted, Selection):
            selection = wanted.in_cells(cells, f"{name}:1")
        for piece in cutter.pieces():
            part = TsvRecords(piece, separator) if kind == "tsv" else CsvRecords(piece, separator)
            yield part, selection


def _header(cutter: LineSplitter, kind: Format, delimiter: str) -> list[str]:
    """The names in the first line."""
    if not cutter.fill():
        raise DataError(f"{cutter.name}: is empty, expected a header with the names of the columns")
    raw = cutter.take(1).data
    if raw.endswith(b"\n"):
        raw = raw[:-1].removesuffix(b"\r")
    line = decoded_line(raw, cutter.name, 1)
    if isinstance(line, RowError):
        raise DataError(line.message)
    try:
        return csv_cells(line, delimiter) if kind == "csv" else line.split(delimiter)
    except RecordError as unfit:
        raise DataError(unfit.at(cutter.name, 1).message) from None
