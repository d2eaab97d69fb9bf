"""Detectors: numbers of a translation that tell real sources from nonsense, and how well they do.

A source is reported if its number is below a threshold. Each threshold reports a share of the nonsense (true positive
rate) and of the real sources (false positive rate); both together are the ROC curve. The area under it (AUC) is the
probability that a real source has a higher number than a nonsensical one: 0.5 by chance, 1 if they can be told apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

import weft

RATES = tuple(index / 20 for index in range(21))
"""The false positive rates of a curve."""
MIN_COVERAGE = 1e-6


def mean_log_probability(translation: weft.Translation) -> float:
    """log p(y|x) / |y|, the end token counted."""
    return translation.log_probability / (len(translation.ids) + 1)


def coverage(translation: weft.Translation) -> float:
    """1/S Σ_j log min(Σ_t a_tj, 1): whether attention has read the whole source   (Wu et al. 2016, eq. 14)."""
    assert translation.attention is not None
    sums = translation.attention.sum(0).tolist()
    return fmean(math.log(min(max(total, MIN_COVERAGE), 1.0)) for total in sums)


DETECTORS: dict[str, Callable[[weft.Translation], float]] = {"log p": mean_log_probability, "coverage": coverage}


def area_under_curve(real: Sequence[float], nonsense: Sequence[float]) -> float:
    """The probability that a real source has the higher number; ties count half."""
    return fmean((high > low) + (high == low) / 2 for high in real for low in nonsense)


def roc_curve(real: Sequence[float], nonsense: Sequence[float]) -> list[float]:
    """The share of nonsense that is reported if at most this share of real sources is, for each of `RATES`."""
    ordered = [*sorted(real), math.inf]
    thresholds = [ordered[math.floor(rate * len(real) + 1e-9)] for rate in RATES]
    return [fmean(value < threshold for value in nonsense) for threshold in thresholds]
