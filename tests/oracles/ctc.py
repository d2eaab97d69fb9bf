"""CTC by enumeration: every path of labels and blanks, one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, product


def labels_of(path: Sequence[int], blank: int) -> tuple[int, ...]:
    """B(π): merge neighbors that are equal, then remove blanks."""
    return tuple(label for label, _ in groupby(path) if label != blank)


def distribution(probabilities: Sequence[Sequence[float]], blank: int) -> dict[tuple[int, ...], float]:
    """p(y | x) = Σ_{π: B(π) = y} Π_t p_t(π_t) of all labels that have a path."""
    totals: dict[tuple[int, ...], float] = {}
    tokens = len(probabilities[0]) if probabilities else 0
    for path in product(range(tokens), repeat=len(probabilities)):
        likelihood = math.prod(frame[token] for frame, token in zip(probabilities, path, strict=True))
        labels = labels_of(path, blank)
        totals[labels] = totals.get(labels, 0.0) + likelihood
    return totals


def next_label(totals: dict[tuple[int, ...], float], prefix: tuple[int, ...], tokens: int) -> tuple[list[float], float]:
    """p(c | prefix) of every label c, and p(end | prefix), from the probabilities of all outputs."""
    count = len(prefix)
    begins = sum(p for labels, p in totals.items() if labels[:count] == prefix)
    longer = [sum(p for labels, p in totals.items() if labels[: count + 1] == (*prefix, c)) for c in range(tokens)]
    return [p / begins for p in longer], totals.get(prefix, 0.0) / begins


def positions(probabilities: Sequence[Sequence[float]], labels: Sequence[int], blank: int) -> list[list[float]]:
    """Σ_{π: B(π) = y, π shows label i at frame t} Π_t p_t(π_t) of every label i and frame t."""
    totals = [[0.0] * len(probabilities) for _ in labels]
    for path in product(range(len(probabilities[0])), repeat=len(probabilities)):
        if labels_of(path, blank) != tuple(labels):
            continue
        likelihood = math.prod(frame[token] for frame, token in zip(probabilities, path, strict=True))
        label = -1
        for time, token in enumerate(path):
            label += token != blank and (time == 0 or path[time - 1] != token)
            if token != blank:
                totals[label][time] += likelihood
    return totals
