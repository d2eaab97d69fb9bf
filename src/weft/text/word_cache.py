"""The ids of many texts as arrays, through a table of words.

Where words are encoded one by one (nothing that decides about a word lies beyond a space), a text's ids are those of
its words, end to end. Each different word is encoded once, in bulk, by the library; the rest is looking up numbers.
The table is emptied when its words are longer than `MOST` characters together; only a call's own words may pass that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain, islice
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from weft.text.vocabulary import check_text

Arrays = tuple[NDArray[np.int32], NDArray[np.int64]]
Encode = Callable[[list[str]], list[list[int]]]
MOST = 1 << 23


def end_to_end(rows: Sequence[Sequence[int]]) -> Arrays:
    """Rows of ids as one array, and their lengths."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths


def rows(arrays: Arrays) -> list[list[int]]:
    """The other way round."""
    ids, lengths = arrays
    flat, ends = ids.tolist(), np.cumsum(lengths).tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class _Numbers(dict[str, int]):
    """Numbers words as they come."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class WordCache:
    """Words and their ids. The empty word, between two spaces, has the ids of a mark alone."""

    def __init__(self, encode: Encode, empty: list[int], symbols: re.Pattern[str] | None = None) -> None:
        self._encode, self._empty, self._symbols = encode, empty, symbols
        self._lock = Lock()
        self._clear()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._encode, self._empty, self._symbols)

    def _clear(self) -> None:
        self._numbers = _Numbers({"": 0})
        self._ids = np.array(self._empty, np.int32)
        self._starts, self._sizes = np.zeros(1, np.int64), np.full(1, len(self._empty), np.int64)
        self._held = 0

    def arrays(self, texts: Sequence[str]) -> Arrays:
        """All ids end to end, and the number of each text's."""
        if self._symbols is None:
            words = [text.split(" ") if text else [] for text in texts]
        else:
            words = [self._around_symbols(text) for text in texts]
        counts = np.fromiter(map(len, words), np.int64, len(words))
        with self._lock:
            if self._held > MOST:
                self._clear()
            known = len(self._numbers)
            numbers = np.fromiter(
                map(self._numbers.__getitem__, chain.from_iterable(words)), np.int64, int(counts.sum())
            )
            if len(self._numbers) > known:
                self._learn(known, texts)
            sizes, starts, ids = self._sizes[numbers], self._starts[numbers], self._ids
        before = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        places = np.repeat(starts - before[:-1], sizes) + np.arange(before[-1])
        ends = np.cumsum(counts)
        return ids[places], before[ends] - before[ends - counts]

    def _around_symbols(self, text: str) -> list[str]:
        assert self._symbols is not None
        parts = self._symbols.split(text)
        if len(parts) == 1:
            return text.split(" ") if text else []
        found: list[str] = []
        for place, part in enumerate(parts):
            if place % 2:
                found.append(part)
            elif part:
                found += part.split(" ")
        return found

    def _learn(self, known: int, texts: Sequence[str]) -> None:
        new = list(islice(reversed(self._numbers), len(self._numbers) - known))[::-1]
        try:
            "".join(new).encode("utf-8")
            ids, sizes = end_to_end(self._encode(new))
        except Exception as error:
            for word in new:
                del self._numbers[word]
            if isinstance(error, UnicodeEncodeError):
                for text in texts:
                    check_text(text)
            raise
        self._starts = np.concatenate((self._starts, len(self._ids) + np.cumsum(sizes) - sizes))
        self._sizes = np.concatenate((self._sizes, sizes))
        self._ids = np.concatenate((self._ids, ids))
        self._held += sum(map(len, new))
