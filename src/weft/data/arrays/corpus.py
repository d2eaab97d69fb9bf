"""A corpus whose sources name arrays: names that can be read from anywhere, in blocks that fit in memory.

The names in a table are relative to its folder and may not leave it, unless ``data.outside`` is set. A row whose source
cannot be read is a `RowError` like any other row that cannot: an error with its file and line, or skipped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.data.arrays.files import ArrayFiles
from weft.data.arrays.tokenizer import DATA_URL
from weft.data.pairs import Pair, Row, RowError
from weft.errors import DataError
from weft.recipe.choices import DRAWINGS

if TYPE_CHECKING:
    from weft.data.reading.corpora import Block, Corpus
    from weft.text.tokenizer import Tokenizer

BLOCK_ARRAYS = 128
"""Rows of a block: their arrays are in memory together."""
ARRAY_KIND = "array"
"""The kind of the row error of a source that cannot be read."""


@dataclass(frozen=True)
class ArrayBlock:
    """Rows of a table, whose sources are names that can be read from anywhere."""

    name: str
    located: tuple[Row, ...]

    def rows(self) -> Iterator[Row]:
        return iter(self.located)


@dataclass(frozen=True)
class ArrayCorpus:
    """A corpus of which each source names an array."""

    corpus: Corpus
    drawings: str | None = None
    """The built-in corpus whose drawings the sources name; None: they name files."""
    outside: bool = False
    """Whether the names may leave the folder of their table."""

    def blocks(self) -> Iterator[ArrayBlock]:
        for block, files in self._with_files():
            rows = block.rows()
            while part := tuple(islice(rows, BLOCK_ARRAYS)):
                yield ArrayBlock(
                    block.name, tuple((number, self._located(files, block.name, number, row)) for number, row in part)
                )

    def _with_files(self) -> Iterator[tuple[Block, ArrayFiles]]:
        """The blocks of each table with its files, whose archives are opened once for all of them."""
        for name, blocks in groupby(self.corpus.blocks(), key=lambda block: block.name):
            with ArrayFiles.of_table(name, outside=self.outside) as files:
                for block in blocks:
                    yield block, files

    def files(self) -> list[Path]:
        return self.corpus.files()

    def paths(self) -> tuple[str, ...]:
        return self.corpus.paths()

    def _located(self, files: ArrayFiles, table: str, number: int, row: Pair | RowError) -> Pair | RowError:
        if isinstance(row, RowError) or not row.source.strip() or row.source.startswith(DATA_URL):
            return row
        if self.drawings is not None:
            return row._replace(source=f"{self.drawings}:{row.source}")
        if row.source.partition(":")[0] in DRAWINGS:  # the source of an output of weft: translate --json, score
            return row
        try:
            return row._replace(source=files.locate(row.source))
        except DataError as error:
            return RowError(ARRAY_KIND, f"{table}:{number}: {error}")


def array_corpus(corpus: Corpus, name: str, *, outside: bool) -> ArrayCorpus:
    """``name``: that of the corpus in the recipe."""
    return ArrayCorpus(corpus, name if name in DRAWINGS else None, outside)


def read_source(tokenizer: Tokenizer, name: str, where: str) -> np.ndarray | RowError:
    """The bytes of an array, or why it cannot be read; ``where``: file and line that name it."""
    try:
        return tokenizer.encode_arrays([name])[0]
    except DataError as error:
        return RowError(ARRAY_KIND, f"{where}: {error}")


def check_source(tokenizer: Tokenizer, name: str, where: str) -> RowError | None:
    """Why an array cannot be read; None if it can."""
    row = read_source(tokenizer, name, where)
    return row if isinstance(row, RowError) else None
