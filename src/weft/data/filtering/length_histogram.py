"""Histograms of lengths, counted from a stream of any size."""

from __future__ import annotations

import numpy as np

CAP = 1 << 16
"""Lengths from here on are counted together; their sum and maximum are still exact."""
PERCENTILES = (50, 90, 99)


class LengthHistogram:
    """Counts of non-negative integers. Mean and maximum are exact, percentiles too below `CAP`."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, np.int64)
        self.number = 0
        self.total = 0
        self.max = 0

    def add(self, lengths: np.ndarray) -> None:
        """Count some more."""
        if not len(lengths):
            return
        counts = np.bincount(np.minimum(lengths, CAP))
        if len(counts) > len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros(len(counts) - len(self.counts), np.int64)])
        self.counts[: len(counts)] += counts
        self.number += len(lengths)
        self.total += int(lengths.sum())
        self.max = max(self.max, int(lengths.max()))

    @property
    def mean(self) -> float:
        """The mean; 0 if nothing was counted."""
        return self.total / self.number if self.number else 0.0

    def percentile(self, percent: float) -> int:
        """The smallest length that `percent` of all do not exceed (nearest rank); 0 if nothing was counted."""
        if not self.number:
            return 0
        rank = max(1, int(np.ceil(self.number * percent / 100)))
        return int(np.searchsorted(np.cumsum(self.counts), rank))

    def record(self) -> dict[str, float]:
        """Mean, percentiles and maximum, for JSON."""
        return {
            "mean": round(self.mean, 3),
            **{f"p{percent}": self.percentile(percent) for percent in PERCENTILES},
            "max": self.max,
        }
