"""Drift: inputs that differ from the validation data, and inputs that do not."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from weft.translation.confidence import ConfidenceModel, FeatureModel
from weft.translation.drift import MAX_INPUTS, DriftMonitor, largest_difference
from weft.translation.precision_target import accepted_counts
from weft.translation.results import empty_translation


def confidence_model() -> ConfidenceModel:
    """Of a thousand outputs with confidences from 0 to 1 and sources of 1 to 20 tokens."""
    accepted = accepted_counts([number / 1000 for number in range(1000)], [True] * 1000)
    model = FeatureModel((), (), (), 0.0, ((0.0, 0.5),), tuple(accepted))
    lengths = tuple(float(number) for number in range(21))
    return ConfidenceModel("exact match", 1000, 1.0, None, "", "", {"tokens": model}, lengths)


def inputs(count: int, *, least: float = 0.0, longest: int = 20) -> list[Any]:
    generator = random.Random(1)
    return [
        replace(
            empty_translation("x"),
            confidence=generator.uniform(least, 1.0),
            source_tokens=["x"] * generator.randint(1, longest),
        )
        for _ in range(count)
    ]


def test_the_largest_difference_of_cumulative_shares() -> None:
    found = largest_difference([1, 2, 3, 9], [(1, 0.5), (3, 0.6), (9, 1.0)])
    assert found == (1, 0.25, 0.5) and found is not None and found.distance == pytest.approx(0.25)
    assert largest_difference([], [(1, 1.0)]) is None and largest_difference([1], []) is None


@pytest.mark.parametrize("count", [10, 40, 3000])
def test_the_same_distribution(count: int) -> None:
    monitor = DriftMonitor(confidence_model())
    monitor.add(inputs(count))
    assert monitor.warning() is None


def test_other_confidences_and_other_lengths() -> None:
    monitor = DriftMonitor(confidence_model())
    monitor.add([replace(one, confidence=one.confidence * 0.2) for one in inputs(100, longest=4)])
    warning = monitor.warning()
    assert warning is not None and warning.startswith(
        "the inputs differ from the validation data (0% have a confidence"
    )
    assert "100% have 4 source tokens or fewer, 24% there" in warning and warning.endswith("may be wrong on them")


def test_few_inputs_and_empty_lines_say_nothing() -> None:
    monitor = DriftMonitor(confidence_model())
    monitor.add([*inputs(29, least=0.9, longest=1), *[empty_translation("")] * 50])
    assert monitor.warning() is None and len(monitor.lengths) == 29


def test_only_the_first_inputs_are_kept() -> None:
    monitor = DriftMonitor(confidence_model())
    for _ in range(3):
        monitor.add(inputs(MAX_INPUTS - 1))
    assert len(monitor.confidences) == MAX_INPUTS
