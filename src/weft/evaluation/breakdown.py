"""The score of parts of a test set: short and long inputs, rare and frequent words, seen and new sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from weft.evaluation.confusions import UnitPair
from weft.evaluation.line_statistics import LineStatistics
from weft.evaluation.significance import Resampling, bootstrap_scores, interval

MIN_FOR_INTERVAL = 10
"""The smallest number of items for which an interval is computed."""
FREQUENCIES = (("not in the training data", 0), ("1 to 9 times", 9), ("10 to 99 times", 99), ("100 to 999 times", 999))
MOST_FREQUENT = "1,000 times or more"


class SubsetScore(NamedTuple):
    """A subset of the test set, and its scores."""

    name: str
    items: int
    right: float
    """The fraction of outputs that are right."""
    score: float | None
    """The metric; None if it is not a sum over items."""
    interval: tuple[float, float] | None
    """95 %, by bootstrap; None for few items."""


class UnitRecall(NamedTuple):
    """Words or characters of the references, by how often they occur in the training data."""

    name: str
    units: int
    recall: float
    """The fraction that the outputs have as well."""


def score_parts(
    parts: Mapping[str, Sequence[int]],
    statistics: LineStatistics | None,
    right: Sequence[bool],
    resampling: Resampling,
) -> list[SubsetScore]:
    """The score of each part, given by the numbers of its items; empty parts are left out."""
    scored = []
    for name, items in parts.items():
        if not items:
            continue
        score = limits = None
        if statistics is not None:
            chosen = replace(statistics, lines=statistics.lines[list(items)])
            score = chosen.of_all()
            if len(items) >= MIN_FOR_INTERVAL:
                limits = interval(bootstrap_scores(chosen, resampling))
        scored.append(SubsetScore(name, len(items), sum(right[item] for item in items) / len(items), score, limits))
    return scored


def parts_by_length(lengths: Sequence[int], *, number: int = 6) -> dict[str, list[int]]:
    """Parts of about equal size, from the shortest to the longest; equal lengths are in one part."""
    ordered = np.sort(np.array(lengths))
    limits = sorted({int(ordered[-(-len(ordered) * part // number) - 1]) for part in range(1, number + 1)})
    parts: dict[str, list[int]] = {}
    low = int(ordered[0])
    for high in limits:
        name = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        parts[name] = [item for item, length in enumerate(lengths) if low <= length <= high]
        low = high + 1
    return parts


def parts_by_frequency(frequencies: Sequence[int]) -> dict[str, list[int]]:
    """Parts by a number of occurrences in the training data."""
    parts: dict[str, list[int]] = {name: [] for name in (*(name for name, _ in FREQUENCIES), MOST_FREQUENT)}
    for item, frequency in enumerate(frequencies):
        parts[frequency_class(frequency)].append(item)
    return parts


def frequency_class(frequency: int) -> str:
    """The name of the range that a number of occurrences is in."""
    return next((name for name, most in FREQUENCIES if frequency <= most), MOST_FREQUENT)


def recall_by_frequency(lines: Sequence[Sequence[UnitPair]], frequencies: Mapping[str, int]) -> list[UnitRecall]:
    """Recall of the units of the references, by the training frequency of the unit."""
    total: Counter[str] = Counter()
    produced: Counter[str] = Counter()
    for pair in (pair for line in lines for pair in line if pair.reference is not None):
        name = frequency_class(frequencies.get(pair.reference or "", 0))
        total[name] += 1
        produced[name] += pair.right
    names = [*(name for name, _ in FREQUENCIES), MOST_FREQUENT]
    return [UnitRecall(name, total[name], produced[name] / total[name]) for name in names if total[name]]
