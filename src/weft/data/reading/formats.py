"""Finding the format of a table. The formats are in the table `weft.recipe.choices.FORMATS`, one file each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from weft.data.reading.compression import inner_name
from weft.data.reading.records import Records
from weft.data.reading.tables import Selection, Turns
from weft.recipe.choices import FORMATS, resolve
from weft.recipe.data import TableSettings

DEFAULT = "tsv"
"""The format of a file whose suffix is unknown."""


class TableFormat(Protocol):
    """The reader of one table format."""

    suffixes: tuple[str, ...]
    """Ends of the names of such files."""

    def read(
        self, path: Path | str, columns: Selection | Turns, settings: TableSettings
    ) -> Iterator[tuple[Records, Selection]]:
        """The table in parts, each with the selection that finds the columns in its records.

        A file that cannot be read or lacks a column raises a `DataError`; a record that cannot be read is a row error.
        """


def read_table(
    path: Path | str, columns: Selection | Turns, settings: TableSettings
) -> Iterator[tuple[Records, Selection]]:
    """The parts of a table in the format of the settings, or of the file's name."""
    name = format_of(path) or DEFAULT if settings.format == "auto" else settings.format
    table_format: TableFormat = resolve(FORMATS, name)()
    return table_format.read(path, columns, settings)


def format_of(path: Path | str) -> str | None:
    """The format of a file, compressed or not, by its name; None if the suffix is unknown."""
    suffix = Path(inner_name(path)).suffix.lower()
    return next((name for name in FORMATS if suffix in resolve(FORMATS, name).suffixes), None)
