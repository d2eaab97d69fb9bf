"""The profile of sources that are files of arrays: a bounded sample of pictures, frames or sound is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from weft.data.arrays.augmentation import paper_of
from weft.data.arrays.files import ArrayFiles, names_array
from weft.errors import DataError, plural
from weft.runtime.activity import activity

READ_ARRAYS = 400
"""Files that are read of a table."""
READ_VALUES = 1 << 27
"""Pixels, or values of frames, that are read; further files are not."""
NAMED_SHARE = 0.9
"""The share of sources that name a file of an array, above which a table is one of arrays."""
MESSAGES = 3
"""Files that cannot be read, of which the reason is shown."""
COLORED = 24
"""The difference between the channels of a pixel, from 0 to 255, from which on it has a color."""
LATEX_MARKS = ("\\", "^ {", "_ {", "^{", "_{")
SAME_WIDTH = 1.05
"""The factor between widths at one height, at the 10th and the 90th percentile, up to which they are the same."""


class NamedArray(NamedTuple):
    """A row of a table: the file that its source names, and its target."""

    table: str
    line: int
    name: str
    target: str


ReadArray = Callable[[NamedArray], np.ndarray]


@dataclass
class ArraySample:
    """Every k-th row whose source names an array; k doubles when there are too many."""

    max_rows: int = READ_ARRAYS
    rows: list[NamedArray] = field(default_factory=list)
    named: int = 0
    others: int = 0
    _stride: int = 1

    def add(self, table: str, line: int, name: str, target: str) -> None:
        """A row with a source and a target."""
        if not names_array(name):
            self.others += 1
            return
        if self.named % self._stride == 0:
            self.rows.append(NamedArray(table, line, name, target))
            if len(self.rows) > self.max_rows:
                self.rows = self.rows[::2]
                self._stride *= 2
        self.named += 1

    def profile(self) -> ArrayProfile | None:
        """The profile of the arrays; None if the sources are texts."""
        if self.named < NAMED_SHARE * (self.named + self.others) or not self.rows:
            return None
        return profile_arrays(self.rows)


@dataclass(frozen=True)
class ArrayProfile:
    """The arrays of a sample of rows."""

    kind: Literal["picture", "frames"]
    sampled: int
    """Files that were looked at."""
    errors: tuple[str, ...]
    """The first of those that cannot be read, each with its row and the reason."""
    unreadable: int
    heights: tuple[int, int, int]
    """The smallest, median and largest height of a picture, or number of frames."""
    widths: tuple[int, int, int]
    """Those of widths, or of the values of a frame."""
    values: float
    """Pixels of a picture, or frames of a sequence, on average."""
    ink: float
    """The share of pixels that differ from the paper, on average."""
    colored: float
    """The share of pictures with colors."""
    character_heights: float
    """Heights of a picture that its width has for each character of its target: the 5th percentile."""
    follows_width: float | None
    """The correlation of width / height with the number of characters; None if all are as wide, or as long."""
    frames_per_character: float
    """The 5th percentile; of pictures 0."""
    latex: float
    """The share of targets with marks of LaTeX."""

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def describe(self) -> str:
        """Sizes, ink and colors in a line."""
        if self.kind == "frames":
            low, middle, high = self.heights
            return f"{middle:,} frames of {plural(self.widths[1], 'value')}, {low:,} to {high:,}"
        sizes = f"{self.heights[1]:,} × {self.widths[1]:,} pixels"
        ranges = [
            f"{low:,} to {high:,} {name}"
            for name, (low, _, high) in (("high", self.heights), ("wide", self.widths))
            if low != high
        ]
        colors = "gray" if not self.colored else f"{self.colored:.0%} colored"
        return ", ".join([sizes, *ranges, f"{self.ink:.0%} ink", colors])


class _Measured(NamedTuple):
    """An array that was read."""

    height: int
    width: int
    ink: float
    is_colored: bool
    characters: int
    is_latex: bool


def profile_arrays(rows: Sequence[NamedArray], read: ReadArray | None = None) -> ArrayProfile:
    """The profile of the arrays that these rows name; refused if most of them cannot be read.

    ``read``: gives the array of a row; by default names are those of files beside the table.
    """
    with closing(_Files()) as files:
        return _measured_profile(rows, read or files.read)


class _Files:
    """Reads the files that the rows of some tables name."""

    def __init__(self) -> None:
        self._files: dict[str, ArrayFiles] = {}

    def read(self, row: NamedArray) -> np.ndarray:
        if row.table not in self._files:
            self._files[row.table] = ArrayFiles.of_table(row.table)
        return self._files[row.table].read(row.name)

    def close(self) -> None:
        for files in self._files.values():
            files.close()


def _measured_profile(rows: Sequence[NamedArray], read: ReadArray) -> ArrayProfile:
    measured: dict[str, list[_Measured]] = defaultdict(list)
    errors: list[str] = []
    values = 0
    with activity("looking at files", "files", total=len(rows)) as looking:
        for row in rows:
            if values > READ_VALUES:
                break
            looking.done += 1
            try:
                array = read(row)
            except DataError as error:
                errors.append(f"{row.table}:{row.line}: {error}")
                continue
            values += array.size
            measured["picture" if array.ndim == 3 else "frames"].append(_measure(array, row.target))
    count = sum(map(len, measured.values()))
    if errors and len(errors) > count:
        raise DataError(f"{errors[0]}; of {plural(len(errors) + count, 'file')} looked at, {count} can be read")
    kind: Literal["picture", "frames"] = "picture" if len(measured["picture"]) >= len(measured["frames"]) else "frames"
    return _profile(kind, measured[kind], errors, count + len(errors))


def _measure(array: np.ndarray, target: str) -> _Measured:
    height, width = array.shape[:2]
    characters = max(len(target), 1)
    is_latex = any(mark in target for mark in LATEX_MARKS)
    if array.ndim == 2:
        return _Measured(height, width, 0.0, False, characters, is_latex)
    values_HWC = array.astype(np.float32)
    ink_HW = np.abs(values_HWC - paper_of(values_HWC)).max(2)
    ink = float((ink_HW >= max(ink_HW.max() / 2, 1)).mean())
    is_colored = array.shape[2] == 3 and bool((np.ptp(array, axis=2) > COLORED).mean() > 0.01)
    return _Measured(height, width, ink, is_colored, characters, is_latex)


def _profile(
    kind: Literal["picture", "frames"], measured: Sequence[_Measured], errors: list[str], sampled: int
) -> ArrayProfile:
    heights, widths, inks, are_colored, characters, are_latex = map(np.array, zip(*measured, strict=True))
    ratios = widths / heights
    sizes = heights if kind == "frames" else heights * widths
    return ArrayProfile(
        kind=kind,
        sampled=sampled,
        errors=tuple(errors[:MESSAGES]),
        unreadable=len(errors),
        heights=_range(heights),
        widths=_range(widths),
        values=float(sizes.mean()),
        ink=float(inks.mean()),
        colored=float(are_colored.mean()),
        character_heights=float(np.quantile(ratios / characters, 0.05)),
        follows_width=_correlation(ratios, characters),
        frames_per_character=float(np.quantile(heights / characters, 0.05)) if kind == "frames" else 0.0,
        latex=float(are_latex.mean()),
    )


def _range(numbers: np.ndarray) -> tuple[int, int, int]:
    return int(numbers.min()), int(median(numbers)), int(numbers.max())


def _correlation(ratios: np.ndarray, characters: np.ndarray) -> float | None:
    """The correlation of the logarithms; None if pictures have been brought to one shape, or targets to one length."""
    low, high = np.quantile(ratios, (0.1, 0.9))
    if high <= SAME_WIDTH * low or len({*characters.tolist()}) < 2:
        return None
    return float(np.corrcoef(np.log(ratios), np.log(characters))[0, 1])
