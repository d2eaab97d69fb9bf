"""The layout of a table of pairs, from its first rows: which columns are the source, the target and the features."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from weft.data.columns.columns import ColumnLayout, find_columns, named_columns
from weft.data.columns.rows import PairInput, RowStream, TableRow
from weft.data.reading.records import type_name
from weft.errors import DataError, quote

FIRST_ROWS = 2_000
"""Rows by which the roles of the columns are decided."""
_QUOTED_SHARE = 0.9


def find_layout(pair_input: PairInput) -> ColumnLayout:
    """The columns of an input, from its first rows."""
    stream = RowStream(pair_input)
    return layout_of(stream, list(islice(iter(stream), FIRST_ROWS)), None)


def layout_of(stream: RowStream, first: list[TableRow], columns: tuple[str, str] | None) -> ColumnLayout:
    """The columns of a stream whose first rows have been read."""
    name = stream.input.name
    names = stream.ordered_names
    texts = [row.texts(len(names or ())) for row in first if not row.is_blank]
    if not texts:
        reason = _fields(stream) or ("no pair with text on both sides" if first else "no pairs; the file is empty")
        raise DataError(stream.first_error or f"{name}: {reason}")
    if names is not None and len(names) < 2:
        raise DataError(f"{name}: one field of text, {quote(names[0])}; expected two{_fields(stream, '; ')}")
    _check_cells(stream.input, texts)
    if names is not None and stream.names is not None:
        order = [stream.names.index(column) for column in names]
        texts = [[cells[index] for index in order] for cells in texts]
    if columns is None or stream.input.targets is not None:
        layout = find_columns(texts, name, names)
    else:
        layout = named_columns(texts, name, names, *columns)
    if stream.input.format == "csv" and len(texts) == 1:
        raise DataError(f"{name}: one row, {quote(', '.join(texts[0]))}; expected pairs, below a header or without one")
    return replace(layout if names is None else layout.in_table(stream.names, name), delimiter=stream.delimiter)


def _fields(stream: RowStream, before: str = "") -> str:
    """The first field of JSON lines that is a list or an object, and what to do with it; empty if there is none."""
    for name, value in stream.other_fields.items():
        if isinstance(value, list | dict):
            item = value[0] if isinstance(value, list) and value else None
            advice = ""
            if isinstance(item, dict) and not {"text", "content", "value"}.isdisjoint(item):
                advice = f"; for dialogues write a recipe with train = {{dialogues = FILE, turns = {json.dumps(name)}}}"
            elif isinstance(item, dict):
                advice = f"; if the pairs are in it, `jq -c '.{name}[]'` converts the file"
            return f"{before}the field {quote(name)} is {type_name(value)}, expected text{advice}"
    return ""


def _check_cells(pair_input: PairInput, rows: Sequence[Sequence[str]]) -> None:
    """Refuse TSV and CSV with quotes that would be part of the text, and CSV of one column."""
    name, most = pair_input.name, _QUOTED_SHARE * len(rows)
    if pair_input.format == "tsv" and len(rows) > 1 and sum(all(map(_is_quoted, row)) for row in rows) > most:
        raise DataError(f"{name}: its cells are in quotes, which TSV does not have; name it .csv, tabs are found there")
    if pair_input.format != "csv":
        return
    spaced = sum(any(cell[:1] == " " and _is_quoted(cell.strip()) for cell in row) for row in rows)
    if spaced > most:
        raise DataError(f"{name}: a space before the quotes of its cells, which makes them text; remove the space")
    if all(len(row) == 1 for row in rows):
        raise DataError(f"{name}: 1 column; expected two, separated by a comma, a semicolon, a tab or |")


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"'
