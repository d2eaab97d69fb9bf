"""Drift: are these inputs like the validation data that a confidence was fitted to?

Two distributions are compared with those of the validation outputs: of the confidence, and of the number of source
tokens. Their distance is Kolmogorov and Smirnov's, the largest difference between two cumulative shares:

    D = max_x |share of the inputs up to x − share of the validation outputs up to x|

With n inputs and m validation outputs of the same source, D exceeds 1.63 √((n + m) / (n m)) in 1 of 100 cases
(Smirnov 1948). Drift is reported if D exceeds that and `MIN_DISTANCE`: of many inputs, the smallest difference is
significant. x is taken from the tables of confidence.json, about a hundred values.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weft.translation.confidence import ConfidenceModel
    from weft.translation.results import Translation

MIN_INPUTS = 30
MAX_INPUTS = 10_000
"""The first inputs, which decide."""
MIN_DISTANCE = 0.2
CRITICAL = 1.63


class Difference(NamedTuple):
    """Where two cumulative distributions differ most."""

    value: float
    share: float
    """The share of the inputs that has at most this value."""
    expected: float
    """The share of the validation outputs."""

    @property
    def distance(self) -> float:
        return abs(self.share - self.expected)


class DriftMonitor:
    """Collects what is known of the inputs of a command, and compares it at the end."""

    def __init__(self, model: ConfidenceModel) -> None:
        self.model = model
        self.confidences: list[float] = []
        self.lengths: list[int] = []

    def add(self, translations: Iterable[Translation]) -> None:
        """Count translations; those of empty lines have no confidence."""
        for translation in translations:
            if len(self.confidences) >= MAX_INPUTS:
                return
            if translation.confidence is not None:
                self.confidences.append(translation.confidence)
                self.lengths.append(len(translation.source_tokens))

    def warning(self) -> str | None:
        """One line about inputs that differ from the validation data; None if they do not."""
        count = len(self.confidences)
        if count < MIN_INPUTS:
            return None
        total = self.model.outputs
        limit = max(MIN_DISTANCE, CRITICAL * math.sqrt((count + total) / (count * max(total, 1))))
        accepted = self.model.models["tokens"].accepted
        below = [(-item.confidence, item.outputs / accepted[-1].outputs) for item in accepted]
        confidence = largest_difference([-value for value in self.confidences], below)
        quantiles = self.model.source_lengths
        shares = [(value, bisect_right(quantiles, value) / len(quantiles)) for value in sorted(set(quantiles))]
        length = largest_difference(self.lengths, shares)
        reasons = []
        if confidence is not None and confidence.distance > limit:
            share, expected, value = confidence.share, confidence.expected, -confidence.value
            reasons.append(f"{share:.0%} have a confidence of {value:.2f} or more, {expected:.0%} there")
        if length is not None and length.distance > limit:
            tokens = f"{length.value:.0f} source tokens or fewer"
            reasons.append(f"{length.share:.0%} have {tokens}, {length.expected:.0%} there")
        if not reasons:
            return None
        return f"the inputs differ from the validation data ({'; '.join(reasons)}): confidence may be wrong on them"


def largest_difference(values: Sequence[float], expected: Sequence[tuple[float, float]]) -> Difference | None:
    """Where the cumulative shares of values differ most from the expected ones; None if there is nothing to compare."""
    if not values or not expected:
        return None
    ranked = sorted(values)
    differences = (Difference(value, bisect_right(ranked, value) / len(ranked), share) for value, share in expected)
    return max(differences, key=lambda difference: difference.distance)
