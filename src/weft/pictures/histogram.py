"""A histogram of integers for a terminal: one bar per line, in eighths of a block.

    1– 5 │██████▍               1,204   8.1%
    6–10 │█████████████████████ 4,107  27.6%
     ≥61 │▏                         3   0.0%

Bins are 1, 2, 5, 10, 20, 50, … wide, so that 99 % of the values fit into the available lines; the largest 1 % share
the last line. A bin that is not empty never looks empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

EIGHTHS = " ▏▎▍▌▋▊▉█"
BULK = 0.99
"""Fraction of the values that the regular bins cover."""
MAX_ROWS = 12


class Bin(NamedTuple):
    """The values from `first` to `last` (None: no upper bound), and how many of them there are."""

    first: int
    last: int | None
    frequency: int


def bins(counts: Sequence[int] | np.ndarray, max_rows: int = MAX_ROWS) -> list[Bin]:
    """Bins for counts of the values 0, 1, 2, …; none if there is nothing to count."""
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
        if len(ends) < max_rows or (len(ends) == max_rows and ends[-1] >= last):
            break
        step += 1
    starts = [(first - 1) // width * width + 1 if first else 0, *(end + 1 for end in ends[:-1])]
    filled = [Bin(start, end, int(array[start : end + 1].sum())) for start, end in zip(starts, ends, strict=True)]
    beyond = int(array[ends[-1] + 1 :].sum())
    return [*filled, Bin(ends[-1] + 1, None, beyond)] if beyond else filled


def histogram(
    counts: Sequence[int] | np.ndarray, *, width: int = 72, max_rows: int = MAX_ROWS, ascii_only: bool = False
) -> str:
    """The lines of a histogram, no wider than `width` columns as long as that leaves space for a bar."""
    filled = bins(counts, max_rows)
    if not filled:
        return "(nothing to count)"
    total, largest = sum(bin.frequency for bin in filled), max(bin.frequency for bin in filled)
    labels = _labels(filled, ascii_only)
    numbers = [f"{bin.frequency:,}" for bin in filled]
    label_width, number_width = max(map(len, labels)), max(map(len, numbers))
    bar_width = max(width - label_width - number_width - len(" │ ") - len(" 100.0%"), 4)
    edge = "|" if ascii_only else "│"
    lines = []
    for label, number, bin in zip(labels, numbers, filled, strict=True):
        bar = _bar(bin.frequency / largest * bar_width, ascii_only) if bin.frequency else ""
        share = f"{bin.frequency / total:.1%}"
        lines.append(f"{label:>{label_width}} {edge}{bar:<{bar_width}} {number:>{number_width}} {share:>6}")
    return "\n".join(lines)


def can_show(encoding: str | None, text: str = EIGHTHS + "│–≥…") -> bool:
    """Whether an output of that encoding can show bars."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _ends(first: int, bulk: int, width: int) -> list[int]:
    """The last values of bins of that width, from the one with `first` to the one with `bulk`.

    Bins end at multiples of their width: 1–5, 6–10. Zero, blank lines, stands alone.
    """
    ends = [0] if first == 0 else []
    start = max(first, 1)
    ends += range((start + width - 1) // width * width, (bulk + width - 1) // width * width + 1, width)
    return ends or [first]


def _labels(filled: list[Bin], ascii_only: bool) -> list[str]:
    dash, beyond = ("-", ">=") if ascii_only else ("–", "≥")
    digits = max(len(str(bin.last)) for bin in filled if bin.last is not None)
    labels = []
    for bin in filled:
        if bin.last is None:
            labels.append(f"{beyond}{bin.first}")
        else:
            labels.append(str(bin.first) if bin.first == bin.last else f"{bin.first}{dash}{bin.last:>{digits}}")
    return labels


def _bar(cells: float, ascii_only: bool) -> str:
    """A bar of that many cells; at least the smallest."""
    if ascii_only:
        return "#" * max(round(cells), 1)
    eighths = max(round(cells * 8), 1)
    return EIGHTHS[-1] * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")
