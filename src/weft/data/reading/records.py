"""Records of tables and the values in them: cells by position, or values by name.

A name may be dotted (``translation.en``) where objects are nested.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Protocol

from weft.data.pairs import RowError
from weft.data.reading.text_files import RecordError, decode_line
from weft.errors import nearest, quote

Record = list[Any] | dict[str, Any]
"""Cells in their order, or values by name."""
NumberedRecords = Iterator[tuple[int, Record | RowError]]
"""Each record with the number of the line it starts in, or the error in its place."""


class Records(Protocol):
    """Some records of a table, not yet decoded; it can be pickled."""

    def records(self, name: str) -> NumberedRecords:
        """The records in order; `name` is the file's, for error messages."""


def look_up(record: dict[str, Any], name: str) -> Any:
    """The value of a name, plain or dotted; a `RecordError` if there is none."""
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise RecordError("columns", no_column(name, record))
        value = value[part]
    return value


def no_column(name: str, names: Iterable[str]) -> str:
    """The message for a missing column."""
    printable = [known for known in names if known.isprintable() and len(known) <= 40][:20]
    return f"no column {quote(name)}" + (f"; {nearest(name, printable)}" if printable else "")


def as_text(value: Any, column: str) -> str:
    """A value as text; numbers and booleans as JSON writes them."""
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise RecordError("encoding", f"{column} has a lone surrogate, which is not valid text") from None
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise RecordError("columns", f"{column} is null, expected text")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, bytes):
        text = decode_line(value, "", 0)
        if isinstance(text, str):
            return text
        raise RecordError("encoding", f"{column} is not valid UTF-8")
    raise RecordError("type", f"{column} is {type_name(value)}, expected text")


def type_name(value: Any) -> str:
    """The name of a JSON or Arrow value's type, for messages."""
    names: dict[type, str] = {
        list: "a list",
        dict: "an object",
        str: "text or a number",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), f"of type {type(value).__name__}")
