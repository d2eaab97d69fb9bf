"""A histogram of whole numbers for a terminal: one bar a line, in eighths of a block.

    1– 5 │██████▍               1,204   8.1%
    6–10 │█████████████████████ 4,107  27.6%
     ≥61 │▏                         3   0.0%

Bins are 1, 2, 5, 10, 20, 50, … numbers wide, so that the bulk fits into the lines there are; what is beyond the bulk,
the longest one in a hundred, is gathered in the last line. A bin that is not empty never looks empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

EIGHTHS = " ▏▎▍▌▋▊▉█"
BULK = 0.99
ROWS = 12


class Bin(NamedTuple):
    """The numbers from `first` to `last`, and how many of them there are; `last` is None if there is no end."""

    first: int
    last: int | None
    amount: int


def bins(counts: Sequence[int] | np.ndarray, rows: int = ROWS) -> list[Bin]:
    """Bins for counts of the numbers 0, 1, 2, …; none if there is nothing to count."""
    array = np.asarray(counts, dtype=np.int64)
    total = int(array.sum())
    if not total:
        return []
    used = np.flatnonzero(array)
    first, last = int(used[0]), int(used[-1])
    bulk = int(np.searchsorted(np.cumsum(array), np.ceil(total * BULK)))
    step = 0
    while True:
        width = (1, 2, 5)[step % 3] * 10 ** (step // 3)
        ends = _ends(first, bulk, width)
        if len(ends) < rows or (len(ends) == rows and ends[-1] >= last):
            break
        step += 1
    starts = [(first - 1) // width * width + 1 if first else 0, *(end + 1 for end in ends[:-1])]
    counted = [Bin(start, end, int(array[start : end + 1].sum())) for start, end in zip(starts, ends, strict=True)]
    beyond = int(array[ends[-1] + 1 :].sum())
    return [*counted, Bin(ends[-1] + 1, None, beyond)] if beyond else counted


def histogram(
    counts: Sequence[int] | np.ndarray, *, width: int = 72, rows: int = ROWS, indent: int = 0, ascii_only: bool = False
) -> str:
    """The lines of a histogram, no wider than `width` columns as long as that leaves room for a bar."""
    found = bins(counts, rows)
    if not found:
        return " " * indent + "(nothing to count)"
    total = sum(one.amount for one in found)
    labels = _labels(found, ascii_only)
    numbers = [f"{one.amount:,}" for one in found]
    label_width, number_width = max(map(len, labels)), max(map(len, numbers))
    room = max(width - indent - label_width - number_width - len(" │ ") - len(" 100.0%"), 4)
    most = max(one.amount for one in found)
    edge = "|" if ascii_only else "│"
    lines = []
    for label, number, one in zip(labels, numbers, found, strict=True):
        bar = _bar(one.amount / most * room, ascii_only) if one.amount else ""
        share = f"{one.amount / total:.1%}"
        lines.append(f"{'':{indent}}{label:>{label_width}} {edge}{bar:<{room}} {number:>{number_width}} {share:>6}")
    return "\n".join(lines)


def can_show(encoding: str | None, text: str = EIGHTHS + "│–≥…") -> bool:
    """Whether an output of that encoding can show bars."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _ends(first: int, bulk: int, width: int) -> list[int]:
    """The last numbers of bins of that width, from the one with `first` to the one with `bulk`.

    Bins end at multiples of their width: 1–5, 6–10. Zero, blank lines, stands alone.
    """
    ends = [0] if first == 0 else []
    start = max(first, 1)
    ends += range((start + width - 1) // width * width, (bulk + width - 1) // width * width + 1, width)
    return ends or [first]


def _labels(found: list[Bin], ascii_only: bool) -> list[str]:
    dash, beyond = ("-", ">=") if ascii_only else ("–", "≥")
    digits = max(len(str(one.last)) for one in found if one.last is not None)
    labels = []
    for one in found:
        if one.last is None:
            labels.append(f"{beyond}{one.first}")
        else:
            labels.append(str(one.first) if one.first == one.last else f"{one.first}{dash}{one.last:>{digits}}")
    return labels


def _bar(cells: float, ascii_only: bool) -> str:
    """A bar of so many cells; never nothing."""
    if ascii_only:
        return "#" * max(round(cells), 1)
    eighths = max(round(cells * 8), 1)
    return EIGHTHS[-1] * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")
