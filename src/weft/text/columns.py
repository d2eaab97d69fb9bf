"""Sources of several columns, tokenized separately: ``gehen TAB <V><PST>`` → ``g e h e n </s> <V> <PST>``.

The columns of a text are separated by tabs. Their ids are joined by the end token, which no text ever becomes, so that
one sequence of ids holds all of them with any tokenizer; the end token that closes every source closes the last column.
An empty column is its end token alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import cast

import numpy as np

from weft.errors import ColumnCountError, plural
from weft.text.bpe import BPE
from weft.text.copying import HasSymbols
from weft.text.features import features_as_tags
from weft.text.id_rows import TokenArrays, to_lists
from weft.text.specials import END, SPECIALS
from weft.text.tokenizer import Tokenizer

SEPARATOR = "\t"
NO_SYMBOL = "\t\t"
"""Neither a character nor a word."""


def split_columns(text: str, count: int) -> list[str]:
    """The columns of a source; a blank text has ``count`` empty ones."""
    columns = text.split(SEPARATOR)
    if len(columns) == count:
        return columns
    if not text.strip():
        return [""] * count
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    raise ColumnCountError(f"source {shown!r}: {plural(len(columns), 'column')}, expected {count}, separated by tabs")


def columns_of_texts(texts: Iterable[str]) -> Iterable[str]:
    """The columns of all texts, to learn a tokenizer from."""
    return (column for text in texts for column in text.split(SEPARATOR))


class ColumnTokenizer:
    """A tokenizer for each column of a source in turn."""

    def __init__(
        self, tokenizer: Tokenizer, count: int, *, given: int | None = None, features: Collection[int] = ()
    ) -> None:
        """``given``: columns that every text has, where the others may be missing; ``features``: columns, from 0, that
        are lists of features; they may be given as such or as tags."""
        self.column_tokenizer = tokenizer
        self.count = count
        self.given = count if given is None else given
        self.features = frozenset(features)
        self.kind = tokenizer.kind
        self.supports_dropout = tokenizer.supports_dropout

    @property
    def size(self) -> int:
        return self.column_tokenizer.size

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return to_lists(self.encode_arrays(texts))

    def encode_arrays(self, texts: Sequence[str]) -> TokenArrays:
        columns = [column for text in texts for column in self._columns(text)]
        ids, lengths = self.column_tokenizer.encode_arrays(columns)
        lengths_RC = lengths.reshape(len(texts), self.count)
        ends_RC = np.ones_like(lengths_RC)
        ends_RC[:, -1] = 0  # the end of the source is not part of a text
        ends_RC[lengths_RC.sum(1) == 0] = 0
        ends = ends_RC.reshape(-1)
        joined = np.full(len(ids) + ends.sum(), END, dtype=np.int32)
        joined[np.arange(len(ids)) + np.repeat(np.cumsum(ends) - ends, lengths)] = ids
        return joined, (lengths_RC + ends_RC).sum(1)

    def encode_with_dropout(self, text: str, probability: float, random: Random) -> list[int]:
        """`BPE.encode_with_dropout` of every column."""
        tokenizer = cast(BPE, self.column_tokenizer)
        ids = [tokenizer.encode_with_dropout(column, probability, random) for column in self._columns(text)]
        return [id for number, part in enumerate(ids) for id in ([END] * (number > 0) + part)] if any(ids) else []

    def _columns(self, text: str) -> list[str]:
        columns = self.split(text)
        for index in self.features:
            columns[index] = features_as_tags(columns[index]) or columns[index]
        return columns

    def split(self, text: str) -> list[str]:
        """The columns of a source; those that it lacks are empty."""
        columns = text.split(SEPARATOR)
        if self.given <= len(columns) < self.count:
            return [*columns, *[""] * (self.count - len(columns))]
        return split_columns(text, self.count)

    def decode(self, ids: Sequence[int]) -> str:
        return SEPARATOR.join(map(self.column_tokenizer.decode, split_ids(ids)))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        tokens = [token for part in split_ids(ids) for token in (*self.column_tokenizer.tokens(part), SPECIALS[END])]
        return tokens[: len(ids)]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        offset = 0
        for part in split_ids(ids):
            spans += [(offset + start, offset + end) for start, end in self.column_tokenizer.spans(part)]
            offset += len(self.column_tokenizer.decode(part))
            spans.append((offset, offset))
            offset += len(SEPARATOR)
        return spans[: len(ids)]

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> ColumnTokenizer:
        extended = self.column_tokenizer.extended(columns_of_texts(texts), minimum_count=minimum_count)
        return type(self)(extended, self.count, given=self.given, features=self.features)

    def save(self, path: Path) -> None:
        self.column_tokenizer.save(path)

    def description(self) -> list[str]:
        return self.column_tokenizer.description()


class SymbolColumnTokenizer(ColumnTokenizer):
    """A column tokenizer over a tokenizer of whole symbols: see `weft.text.copying.HasSymbols`."""

    def symbols(self, text: str) -> list[str]:
        """The symbols of all columns, with one between them that is in no text."""
        tokenizer = cast(HasSymbols, self.column_tokenizer)
        columns = [tokenizer.symbols(column) for column in self._columns(text)]
        if not any(columns):
            return []
        return [symbol for column in columns for symbol in (*column, NO_SYMBOL)][:-1]

    def symbol_ids(self, symbols: Sequence[str]) -> list[int]:
        return cast(HasSymbols, self.column_tokenizer).symbol_ids(symbols)

    def id_symbols(self, ids: Sequence[int]) -> list[str]:
        return cast(HasSymbols, self.column_tokenizer).id_symbols(ids)

    def with_symbols(self, symbols: Sequence[str]) -> SymbolColumnTokenizer:
        tokenizer = cast(Tokenizer, cast(HasSymbols, self.column_tokenizer).with_symbols(symbols))
        return SymbolColumnTokenizer(tokenizer, self.count, given=self.given, features=self.features)


def make_column_tokenizer(
    tokenizer: Tokenizer, count: int, *, given: int | None = None, features: Collection[int] = ()
) -> ColumnTokenizer:
    """A tokenizer for sources of ``count`` columns."""
    column_type = SymbolColumnTokenizer if isinstance(tokenizer, HasSymbols) else ColumnTokenizer
    return column_type(tokenizer, count, given=given, features=features)


def split_ids(ids: Sequence[int]) -> list[list[int]]:
    """The ids of every column, without the end tokens between and after them."""
    parts: list[list[int]] = [[]]
    for id in ids:
        if id == END:
            parts.append([])
        else:
            parts[-1].append(id)
    return parts[:-1] if ids and ids[-1] == END else parts
