"""Sources that are arrays, as attention sees them: the states that a stem makes of a picture or of frames.

A text has a state for each token. A picture has one for each column, or for each place of a grid; frames have one for
some consecutive frames. `ArrayStates` says how many there are, what to call them, and which part of the array each is
at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from weft.packed import HEADER, PackedShape, shape_of
from weft.recipe.stem import StemSettings


class Box(NamedTuple):
    """A part of an array, in pixels; of frames, ``top`` is 0 and ``left`` counts frames."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True)
class ArrayStates:
    """The states of one source."""

    array: PackedShape
    rows: int
    columns: int

    @classmethod
    def of(cls, stem: StemSettings, ids: Sequence[int]) -> ArrayStates:
        """The states of a source, from its bytes (`weft.packed`)."""
        array = shape_of(np.asarray(ids[:HEADER]))
        return cls(array, *stem.output_shape(array.height, array.width))

    @property
    def count(self) -> int:
        return self.rows * self.columns

    @property
    def names(self) -> list[str]:
        """Column numbers from 1, or row and column: ``2,7``."""
        if self.rows == 1:
            return [str(column + 1) for column in range(self.columns)]
        return [f"{row + 1},{column + 1}" for row in range(self.rows) for column in range(self.columns)]

    @property
    def boxes(self) -> list[Box]:
        """The part of the array that each state is at; the whole height where states are columns."""
        height, width = (self.array.height, self.array.width) if self.array.channels else (1, self.array.height)
        tops, lefts = _edges(height, self.rows), _edges(width, self.columns)
        return [
            Box(top, left, bottom - top, right - left)
            for top, bottom in pairwise(tops)
            for left, right in pairwise(lefts)
        ]


def _edges(size: int, parts: int) -> list[int]:
    """Where each of some equal parts begins, and where the last one ends."""
    return [size * part // parts for part in range(parts + 1)]
