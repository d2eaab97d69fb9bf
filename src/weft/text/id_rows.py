"""The token ids of many texts in one array, which is also a sequence of lists.

Tokenizers produce such arrays (`Tokenizer.encode_arrays`) and models read them (`weft.ragged`), so that nothing on the
way needs a Python object for each text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from weft.text.word_cache import to_arrays, to_lists


@dataclass(frozen=True, eq=False)
class IdRows(Sequence[list[int]]):
    """The ids of all texts end to end, and how many each has."""

    ids_N: NDArray[np.int32]
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
        ids = np.concatenate([np.zeros(0, np.int32), *(part.ids_N for part in parts)])
        return cls(ids, np.concatenate([np.zeros(0, np.int64), *(part.lengths_B for part in parts)]))

    @cached_property
    def starts_B(self) -> NDArray[np.int64]:
        """Where each row begins."""
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


def _positions(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices of all ids of rows that begin there."""
    shifts = starts - (np.cumsum(lengths) - lengths)
    return np.repeat(shifts, lengths) + np.arange(int(lengths.sum()))
