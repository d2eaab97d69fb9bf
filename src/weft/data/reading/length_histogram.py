"""How long things are: a histogram of whole numbers that a stream of any length can be counted into."""

from __future__ import annotations

import numpy as np

CAP = 1 << 16
"""Lengths from here on are counted together; their sum and the largest are still exact."""
PERCENTILES = (50, 90, 99)


class Lengths:
    """Counts of whole numbers from 0. Mean and largest are exact, percentiles too below `CAP`."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, np.int64)
        self.number = 0
        self.total = 0
        self.largest = 0

    def add(self, values: np.ndarray) -> None:
        """Count some more."""
        if not len(values):
            return
        found = np.bincount(np.minimum(values, CAP))
        if len(found) > len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros(len(found) - len(self.counts), np.int64)])
        self.counts[: len(found)] += found
        self.number += len(values)
        self.total += int(values.sum())
        self.largest = max(self.largest, int(values.max()))

    @property
    def mean(self) -> float:
        """The mean; 0 of nothing."""
        return self.total / self.number if self.number else 0.0

    def percentile(self, percent: float) -> int:
        """The least length such that so many percent of all are not longer (nearest rank); 0 of nothing."""
        if not self.number:
            return 0
        rank = max(1, int(np.ceil(self.number * percent / 100)))
        return int(np.searchsorted(np.cumsum(self.counts), rank))

    def record(self) -> dict[str, float]:
        """Mean, percentiles and the largest."""
        return {
            "mean": round(self.mean, 3),
            **{f"p{percent}": self.percentile(percent) for percent in PERCENTILES},
            "max": self.largest,
        }
