"""Finding the columns of a table that are the source, the target and features."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.data.columns.headers import (
    INSTRUCTION_NAMES,
    NAMED_SIDES,
    SOURCE_NAMES,
    TARGET_NAMES,
    has_few_values,
    header_of,
    is_header_alone,
)
from weft.data.columns.rows import PairInput
from weft.data.reading.delimited import column_names
from weft.data.reading.links import is_links
from weft.data.reading.records import no_column
from weft.errors import DataError, option, plural

_TAGS = re.compile(r"[^\s;|]+(?:;[^\s;|]+)+")
_TAG_SHARE = 0.8
_NUMBER = re.compile(r"\s*-?\d+(\.\d+)?\s*")
_LETTER = re.compile(r"[^\W\d_]")
_TEXT_SHARE = 0.9


@dataclass(frozen=True)
class ColumnLayout:
    """The columns of each side, counted from 0."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    features: tuple[int, ...] = ()
    """Source columns that have few values or list features."""
    tags: tuple[int, ...] = ()
    """Feature columns that are lists, ``V;PRS;SG``."""
    links: int | None = None
    ignored: tuple[int, ...] = ()
    """Columns that are of no use: constant, numbered or further references."""
    header: tuple[str, ...] | None = None
    """The cells of the first row, if it names the columns."""
    names: tuple[str, ...] | None = None
    """The names of all columns where the format has them."""
    delimiter: str | None = None
    """The delimiter of CSV, if it is not a comma."""
    instructions: bool = False
    """Whether the source columns are an instruction and its input."""

    def label(self, column: int) -> int | str:
        """A column as a recipe names it: its name or, without one, its number from 1."""
        names = self.names or self.header
        return names[column] if names is not None and names.count(names[column]) == 1 else column + 1

    def in_table(self, names: Sequence[str] | None, where: str) -> ColumnLayout:
        """These columns in another table: by number, or by name among the names of its columns."""

        def index(column: int) -> int:
            label = self.label(column)
            if isinstance(label, int):
                return column
            if names is None or label not in names:
                raise DataError(f"{where}: {no_column(label, names or ())}")
            return [*names].index(label)

        def indices(columns: Sequence[int]) -> tuple[int, ...]:
            return tuple(map(index, columns))

        def known(column: int) -> bool:
            return names is not None and self.label(column) in names

        source = [column for column in self.source if known(column) or not self.is_optional(column)]
        return replace(
            self,
            source=indices(source),
            target=indices(self.target),
            features=indices(self.features),
            tags=indices(self.tags),
            links=None if self.links is None else index(self.links),
            ignored=indices([column for column in self.ignored if known(column)]) if names else self.ignored,
            names=None if self.names is None else tuple(names or ()),
        )

    def is_optional(self, column: int) -> bool:
        """Whether a column may have no value: the input of an instruction."""
        return self.instructions and self.label(column) == "input"

    @property
    def is_plain(self) -> bool:
        """Whether there is a source, a target and nothing else."""
        return self.is_source_and_target and self.links is None

    @property
    def is_source_and_target(self) -> bool:
        """Whether the columns are a source, a target and at most their word links."""
        sides = (self.source, self.target, self.header, self.names) == ((0,), (1,), None, None)
        return sides and not self.ignored and self.links in (None, 2)

    def describe(self) -> tuple[str, str]:
        """The columns of each side and those that are not used, and how they are named."""
        texts = [index for index in self.source if index not in self.features]
        sides = {"source": texts, "features": self.features, "target": self.target}
        sides |= {"word links": () if self.links is None else (self.links,), "not used": self.ignored}
        described = (
            f"{side} {', '.join(str(self.label(index)) for index in indices)}"
            for side, indices in sides.items()
            if indices
        )
        reason = "by number" if self.names is None else "the names of the fields"
        return "; ".join(described), reason if self.header is None else "the first row is a header"

    def corpus(self, pair_input: PairInput) -> Any:
        """The corpus as ``data.train`` names it."""
        if pair_input.targets is not None:
            return {"source": pair_input.file, "target": pair_input.targets}
        if self.is_plain and pair_input.format == "tsv":
            return pair_input.file
        if self.instructions:
            return {"instructions": pair_input.file}
        tree: dict[str, Any] = {"file": pair_input.file, "source": [self.label(column) for column in self.source]}
        tree["target"] = [self.label(column) for column in self.target]
        if self.delimiter is not None:
            tree["delimiter"] = self.delimiter
        if self.tags:
            tree["tags"] = [self.label(column) for column in self.tags]
        if self.links is not None:
            tree["links"] = self.label(self.links)
        if self.header is not None and all(isinstance(label, int) for label in [*tree["source"], *tree["target"]]):
            tree["header"] = True
        return tree


def find_columns(rows: Sequence[list[str]], where: str, names: tuple[str, ...] | None = None) -> ColumnLayout:
    """The layout of a table from some of its first rows; ``names``: column names, if the format has them."""
    header = None if names is not None else header_of(rows)
    body = rows[1:] if header is not None else rows
    if names is None and is_header_alone(rows):
        raise DataError(f"{where}: no pairs; its only row is a header: {', '.join(rows[0])}")
    width = max(set(map(len, body)), key=[len(row) for row in body].count) if header is None else len(header)
    if width < 2:
        raise DataError(
            f"{where}: {plural(width, 'column')}; expected a source, a tab and a target in each line{_separator(body)}"
        )
    widths = sorted(map(len, body))
    if header is None and len(body) >= 20 and sum(map(width.__eq__, widths)) < len(body) / 2:
        raise DataError(
            f"{where}: rows of {widths[0]} to {widths[-1]} columns; expected two, or the same number in each; "
            "for dialogues write a recipe with train = {dialogues = FILE}"
        )
    columns = [[row[index] for row in body if len(row) == width] for index in range(width)]
    labels = [name.strip().lower().rsplit(".", 1)[-1] for name in (names or header or ())]
    labels += [""] * (width - len(labels))
    if names is not None and {*INSTRUCTION_NAMES} <= {*names}:
        used = [names.index(name) for name in INSTRUCTION_NAMES]
        ignored = tuple(index for index in range(len(names)) if index not in used)
        return ColumnLayout((used[0], used[1]), (used[2],), ignored=ignored, names=names, instructions=True)
    if width == 2:
        source, target = (1, 0) if labels[0] in TARGET_NAMES and labels[1] in SOURCE_NAMES else (0, 1)
        return ColumnLayout((source,), (target,), header=header, names=names)
    return _wide_layout(columns, labels, ColumnLayout((), (), header=header, names=names), where)


def columns_option() -> str:
    """The option that selects columns, for messages."""
    return option("columns", flag="source and --target")


def two_files_option() -> str:
    """The option for two parallel files, for messages."""
    return "two files with --source and --target" if option("x") == "--x" else "a tuple of two files"


def _separator(rows: Sequence[list[str]]) -> str:
    """A hint if something other than a tab separates the sides."""
    lines = [row[0] for row in rows if row]
    for separator, remedy in ((" ||| ", "replace it by a tab"), (";", "name it .csv"), (",", "name it .csv")):
        if lines and sum(separator in line for line in lines) > 0.9 * len(lines):
            return f"; if {separator.strip()!r} separates them, {remedy}"
    return f"; or give {two_files_option()}"


def named_columns(
    rows: Sequence[list[str]], where: str, names: tuple[str, ...] | None, source: str, target: str
) -> ColumnLayout:
    """The layout of a table whose columns are given: by number from 1, or by name (then a text table has a header)."""
    given = (source, target)
    header = None if names is not None else header_of(rows)
    if names is None and header is None and not all(map(str.isdecimal, given)):
        header = tuple(column_names(rows[0]))
    labels = names or header or ()
    width = len(labels) or max(map(len, rows))
    indices = []
    for column in given:
        if column in labels:
            indices.append(labels.index(column))
        elif column.isdecimal() and names is None and 1 <= int(column) <= width:
            indices.append(int(column) - 1)
        else:
            shown = ", ".join(labels[:8]) or f"{plural(width, 'column')}, by number from 1"
            raise DataError(f"{where}: no column {column!r}; it has {shown}")
    ignored = tuple(index for index in range(width) if index not in indices)
    return ColumnLayout((indices[0],), (indices[1],), ignored=ignored, header=header, names=names)


def _wide_layout(columns: list[list[str]], labels: list[str], layout: ColumnLayout, where: str) -> ColumnLayout:
    """The layout of a table of three or more columns."""
    indices = range(len(columns))
    links = next((index for index in indices if index >= 2 and _are_links(columns[index])), None)
    tags = tuple(index for index in indices if _share(columns[index], _TAGS.fullmatch) >= _TAG_SHARE)
    useless = [index for index in indices if index not in tags and _is_useless(columns[index])]
    if sum(_share(columns[index], _LETTER.search) > _TEXT_SHARE for index in indices if index not in tags) >= 2:
        useless += [index for index in indices if labels[index] not in NAMED_SIDES and _is_id(columns[index])]
    few = [index for index in indices if index not in (*tags, *useless, links) and has_few_values(columns[index])]
    texts = [index for index in indices if index not in (*tags, *few, *useless, links)]
    while len(texts) < 2 and few:  # a side may have few values: a class, an answer
        texts = sorted([*texts, few.pop()])
    source = next((index for index in texts if labels[index] in SOURCE_NAMES), None)
    target = next((index for index in texts if labels[index] in TARGET_NAMES), None)
    if source is None or target is None:
        if layout.names is not None and len(texts) > 2:
            shown = ", ".join(layout.names[index] for index in texts[:6])
            raise DataError(f"{where}: several columns of text: {shown}; name two with {columns_option()}")
        rest = [index for index in texts if index not in (source, target)]
        source = rest.pop(0) if source is None and rest else source
        target = rest.pop(0) if target is None and rest else target
    if source is None or target is None:
        raise DataError(f"{where}: no two columns of text; name them with {columns_option()}")
    features = tuple(sorted([*tags, *few]))
    used = (source, target, *features, links)
    return ColumnLayout(
        source=tuple(sorted((source, *features))),
        target=(target,),
        features=features,
        tags=tags,
        links=links,
        ignored=tuple(index for index in indices if index not in used),
        header=layout.header,
        names=layout.names,
    )


def _share(cells: list[str], predicate: Any) -> float:
    return sum(1 for cell in cells if predicate(cell)) / max(1, len(cells))


def _are_links(cells: list[str]) -> bool:
    return any(cells) and all(map(is_links, cells))


def _is_useless(cells: list[str]) -> bool:
    """Whether a column is constant, mostly empty or a running number."""
    if len(set(cells)) == 1 and len(cells) > 1:
        return True
    if _share(cells, str.strip) < 0.5:
        return True
    numbers = [int(cell) for cell in cells if cell.isdecimal() and len(cell) < 19]
    return len(numbers) == len(cells) > 2 and all(b - a == 1 for a, b in itertools.pairwise(numbers))


def _is_id(cells: list[str]) -> bool:
    """Whether a column has a number for each row, such as the id of a sentence or a score; not one of few classes."""
    return all(map(_NUMBER.fullmatch, cells)) and not has_few_values(cells)
