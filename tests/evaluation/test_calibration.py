"""Calibration, against its definition."""

from __future__ import annotations

import random

import pytest

from weft.errors import DataError
from weft.evaluation.calibration import calibrate


def literal_error(confidences: list[float], right: list[bool], bins: int) -> float:
    """ECE = Σ_m n_m / n · |accuracy(m) − confidence(m)|, bin m being ((m−1)/M, m/M]; 0 belongs to the first."""
    error = 0.0
    for m in range(1, bins + 1):
        chosen = [
            (c, a) for c, a in zip(confidences, right, strict=True) if (m - 1) < c * bins <= m or (m == 1 and c == 0)
        ]
        if chosen:
            accuracy = sum(a for _, a in chosen) / len(chosen)
            confidence = sum(c for c, _ in chosen) / len(chosen)
            error += len(chosen) / len(confidences) * abs(accuracy - confidence)
    return error


@pytest.mark.parametrize("bins", [1, 7, 10])
def test_the_definition(bins: int) -> None:
    generator = random.Random(3)
    confidences = [0.0, 1.0, 0.5, 0.1, *(generator.random() for _ in range(97))]
    right = [generator.random() < c for c in confidences]
    found = calibrate(confidences, right, bins=bins)
    assert found.error == pytest.approx(literal_error(confidences, right, bins))
    assert found.brier == pytest.approx(sum((c - a) ** 2 for c, a in zip(confidences, right, strict=True)) / 101)
    assert sum(item.size for item in found.bins) == found.count == 101 and len(found.bins) == bins
    assert found.accuracy == pytest.approx(sum(right) / 101)


def test_known_values() -> None:
    sure = calibrate([1.0, 1.0, 1.0, 1.0], [True, True, True, False])
    assert (sure.confidence, sure.accuracy, sure.error, sure.brier) == (1.0, 0.75, 0.25, 0.25)
    assert [(item.low, item.high, item.size) for item in sure.filled] == [(0.9, 1.0, 4)]
    assert calibrate([0.5, 0.5], [True, False]).error == 0.0
    assert sure.record()["bins"][0]["accuracy"] == 0.75


def test_refusals() -> None:
    with pytest.raises(DataError, match="calibration: 0 probabilities and 0 outcomes; expected as many of both"):
        calibrate([], [])
    with pytest.raises(DataError, match="1 probabilities and 2 outcomes"):
        calibrate([0.5], [True, False])
