"""Token ids of texts: of one (`Sentence`), and of many in one array, which is also a sequence of lists (`IdRows`).

Tokenizers produce such arrays (`Tokenizer.encode_arrays`) and models read them (`weft.ragged`), so that nothing on the
way needs a Python object for each text.

Where words are encoded independently of each other (no context beyond a space matters), the ids of a text are those of
its words, concatenated. Each distinct word is encoded once, in batches, by the library; everything else is array
indexing. The cache of words is cleared when they exceed `MAX_CACHED_CHARACTERS`; only those of one call may pass that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from weft.text.specials import END
from weft.text.vocabulary import check_ids, check_lengths, check_text

if TYPE_CHECKING:
    from weft.text.frames import Frame


@dataclass(frozen=True, eq=False)
class IdRows(Sequence[list[int]]):
    """The ids of all texts end to end, and how many each has."""

    ids_N: NDArray[np.int32]
    """Bytes (uint8) where the sources are packed arrays (`weft.packed`)."""
    lengths_B: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> IdRows:
        """Lists of ids, or what is one already."""
        return rows if isinstance(rows, IdRows) else cls(*to_arrays(rows))

    @classmethod
    def concatenate(cls, parts: Sequence[IdRows]) -> IdRows:
        """The rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        ids = np.concatenate([part.ids_N for part in parts] or [np.zeros(0, np.int32)])
        return cls(ids, np.concatenate([np.zeros(0, np.int64), *(part.lengths_B for part in parts)]))

    @property
    def are_arrays(self) -> bool:
        """Whether the rows are the bytes of packed arrays (`weft.packed`)."""
        return self.ids_N.dtype == np.uint8

    @cached_property
    def starts_B(self) -> NDArray[np.int64]:
        """The start of each row."""
        return np.cumsum(self.lengths_B) - self.lengths_B

    def __len__(self) -> int:
        return len(self.lengths_B)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(to_lists((self.ids_N, self.lengths_B)))

    @overload
    def __getitem__(self, row: int) -> list[int]: ...

    @overload
    def __getitem__(self, row: slice) -> list[list[int]]: ...

    def __getitem__(self, row: int | slice) -> list[int] | list[list[int]]:
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self)))]
        start = self.starts_B[row]
        ids: list[int] = self.ids_N[start : start + self.lengths_B[row]].tolist()
        return ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def select(self, rows: Sequence[int] | NDArray[np.int64]) -> IdRows:
        """Some of the rows, in the given order."""
        indices = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths_B[indices]
        return IdRows(self.ids_N[_positions(self.starts_B[indices], lengths)], lengths)

    def framed(self, before: Sequence[int], after: Sequence[int]) -> IdRows:
        """Every row with these ids before and after its own; a row without ids stays empty."""
        width, is_text = len(before) + len(after), self.lengths_B > 0
        if not width:
            return self
        framed = IdRows(
            np.empty(len(self.ids_N) + width * int(is_text.sum()), np.int32), self.lengths_B + width * is_text
        )
        starts = framed.starts_B[is_text]
        ends = starts + framed.lengths_B[is_text]
        framed.ids_N[_positions(starts + len(before), self.lengths_B[is_text])] = self.ids_N
        for index, id in enumerate(before):
            framed.ids_N[starts + index] = id
        for index, id in enumerate(after):
            framed.ids_N[ends - len(after) + index] = id
        return framed


class Sentence(NamedTuple):
    """A text and its token ids."""

    text: str
    ids: Sequence[int]
    before: int = 0
    """Number of special ids before the text: those of its frame (`weft.text.frames`)."""
    after: int = 1
    """Number of special ids after the text."""


class Sentences(Sequence[Sentence]):
    """Sources with their ids as the model reads them, in arrays; a `Sentence` is made when it is accessed."""

    def __init__(self, texts: Sequence[str], ids: IdRows, frame: Frame, rows: NDArray[np.int64] | None = None) -> None:
        """``rows``: the selected rows of texts and ids; None: all of them."""
        self.texts = texts
        self.ids = ids
        self.frame = frame
        self._rows = np.arange(len(texts)) if rows is None else rows

    def select(self, rows: NDArray[np.int64]) -> Sentences:
        """Some of them, in the given order."""
        return Sentences(self.texts, self.ids, self.frame, self._rows[rows])

    def text(self, index: int) -> str:
        """The text of one of them."""
        return self.texts[self._rows[index]]

    @property
    def id_rows(self) -> IdRows:
        """The ids of all of them."""
        return self.ids.select(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...

    @overload
    def __getitem__(self, index: slice) -> list[Sentence]: ...

    def __getitem__(self, index: int | slice) -> Sentence | list[Sentence]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        row = int(self._rows[index])
        return framed_sentence(self.texts[row], self.ids[row], self.frame)


def framed_sentence(text: str, ids: Sequence[int], frame: Frame) -> Sentence:
    """A source with its ids as the model reads them."""
    return Sentence(text, ids, len(frame.source_before), len(frame.source_after))


def _positions(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices of all ids of rows that begin there."""
    shifts = starts - (np.cumsum(lengths) - lengths)
    return np.repeat(shifts, lengths) + np.arange(int(lengths.sum()))


TokenArrays = tuple[NDArray[np.int32], NDArray[np.int64]]
Encode = Callable[[list[str]], list[list[int]]]
MAX_CACHED_CHARACTERS = 1 << 23


def to_arrays(rows: Sequence[Sequence[int]]) -> TokenArrays:
    """Lists of ids as one array, and their lengths."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths


def to_lists(arrays: TokenArrays) -> list[list[int]]:
    """The inverse of `to_arrays`."""
    ids, lengths = arrays
    flat, ends = ids.tolist(), np.cumsum(lengths).tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def decode_arrays(tokenizer: Any, arrays: TokenArrays) -> list[str]:
    """The texts of arrays of ids, in one call if the tokenizer has a `decode_arrays`, else one by one."""
    decode = getattr(tokenizer, "decode_arrays", None)
    texts: list[str] = [tokenizer.decode(ids) for ids in to_lists(arrays)] if decode is None else decode(arrays)
    return texts


def join_lines(arrays: TokenArrays, pieces: Sequence[str] | None) -> str | None:
    """The texts of arrays of ids as lines, each token as its piece; the piece of `END` is a line end.

    None if there are no pieces or no texts, or if a text contains `END`.
    """
    ids, lengths = arrays
    if pieces is None or not len(lengths) or bool((ids == END).any()):
        return None
    check_ids([int(ids.min()), int(ids.max())] if len(ids) else [], len(pieces))
    return "".join(map(pieces.__getitem__, np.insert(ids, np.cumsum(lengths), END).tolist()))


class _Indices(dict[str, int]):
    """Assigns the next index to every new word."""

    def __missing__(self, word: str) -> int:
        index = self[word] = len(self)
        return index


class WordCache:
    """Words and their ids. The empty word, between two spaces, has the ids of a word boundary alone."""

    def __init__(self, encode: Encode, empty: list[int], symbols: re.Pattern[str] | None = None) -> None:
        self._encode, self._empty, self._symbols = encode, empty, symbols
        self._lock = Lock()
        self._clear()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._encode, self._empty, self._symbols)

    def _clear(self) -> None:
        self._indices = _Indices({"": 0})
        self._ids = np.array(self._empty, np.int32)
        self._starts, self._sizes = np.zeros(1, np.int64), np.full(1, len(self._empty), np.int64)
        self._characters = 0

    def arrays(self, texts: Sequence[str]) -> TokenArrays:
        """The ids of all texts concatenated, and the number of ids of each."""
        check_lengths(texts)
        if self._symbols is None:
            words = [text.split(" ") if text else [] for text in texts]
        else:
            words = [self._split_at_symbols(text) for text in texts]
        counts = np.fromiter(map(len, words), np.int64, len(words))
        with self._lock:
            if self._characters > MAX_CACHED_CHARACTERS:
                self._clear()
            cached = len(self._indices)
            indices = np.fromiter(
                map(self._indices.__getitem__, chain.from_iterable(words)), np.int64, int(counts.sum())
            )
            if len(self._indices) > cached:
                self._add_words(cached, texts)
            sizes, starts, ids = self._sizes[indices], self._starts[indices], self._ids
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        positions = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
        ends = np.cumsum(counts)
        return ids[positions], offsets[ends] - offsets[ends - counts]

    def _split_at_symbols(self, text: str) -> list[str]:
        assert self._symbols is not None
        parts = self._symbols.split(text)
        if len(parts) == 1:
            return text.split(" ") if text else []
        words: list[str] = []
        for index, part in enumerate(parts):
            if index % 2:
                words.append(part)
            elif part:
                words += part.split(" ")
        return words

    def _add_words(self, cached: int, texts: Sequence[str]) -> None:
        new = list(islice(reversed(self._indices), len(self._indices) - cached))[::-1]
        try:
            "".join(new).encode("utf-8")
            ids, sizes = to_arrays(self._encode(new))
        except Exception as error:
            for word in new:
                del self._indices[word]
            if isinstance(error, UnicodeEncodeError):
                for text in texts:
                    check_text(text)
            raise
        self._starts = np.concatenate((self._starts, len(self._ids) + np.cumsum(sizes) - sizes))
        self._sizes = np.concatenate((self._sizes, sizes))
        self._ids = np.concatenate((self._ids, ids))
        self._characters += sum(map(len, new))
