"""Calibration: is a probability of 0.8 right in 80 % of the cases?

Let c_i be the confidence of output i (a probability of the model) and a_i = 1 if it is right, else 0. The n outputs are
sorted into M bins of equal width by their confidence, bin m being ((m−1)/M, m/M]:

    accuracy(m)     mean of a_i in bin m
    confidence(m)   mean of c_i in bin m
    ECE = Σ_m n_m / n · |accuracy(m) − confidence(m)|           expected calibration error, Guo et al. 2017
    Brier score = 1/n · Σ_i (c_i − a_i)²                        Brier 1950

A model is called overconfident if its mean confidence is above its accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.errors import DataError

BINS = 10


class CalibrationBin(NamedTuple):
    """The outputs whose confidence is above ``low`` and at most ``high``."""

    low: float
    high: float
    size: int
    confidence: float
    """The mean; 0 if the bin is empty."""
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """The agreement of a model's probabilities with its accuracy."""

    count: int
    confidence: float
    accuracy: float
    error: float
    """ECE, from 0 to 1."""
    brier: float
    bins: list[CalibrationBin]

    @property
    def filled(self) -> list[CalibrationBin]:
        """The bins that are not empty."""
        return [item for item in self.bins if item.size]

    def record(self) -> dict[str, Any]:
        """The calibration as JSON values."""
        numbers = {name: getattr(self, name) for name in ("count", "confidence", "accuracy", "error", "brier")}
        return {**numbers, "bins": [item._asdict() for item in self.filled]}


def calibrate(confidences: Sequence[float], right: Sequence[bool], *, bins: int = BINS) -> Calibration:
    """The calibration of some probabilities; at least one."""
    if len(confidences) != len(right) or not confidences:
        counts = f"{len(confidences)} probabilities and {len(right)} outcomes"
        raise DataError(f"calibration: {counts}; expected as many of both, at least one")
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for confidence, is_right in zip(confidences, right, strict=True):
        groups[max(math.ceil(min(confidence, 1.0) * bins) - 1, 0)].append((confidence, is_right))
    number = len(confidences)
    filled = [
        CalibrationBin(
            index / bins, (index + 1) / bins, len(group), _mean([c for c, _ in group]), _mean([a for _, a in group])
        )
        for index, group in enumerate(groups)
    ]
    return Calibration(
        count=number,
        confidence=_mean(confidences),
        accuracy=_mean(right),
        error=sum(item.size / number * abs(item.accuracy - item.confidence) for item in filled),
        brier=_mean([(c - a) ** 2 for c, a in zip(confidences, right, strict=True)]),
        bins=filled,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
