"""Precision targets: thresholds that keep them on new data, against the literal binomial tail."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import confidence as oracle
from weft.translation.precision_target import (
    AcceptedOutputs,
    accepted_counts,
    binomial_tail,
    design_effect,
    find_threshold,
)


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.001, 0.999))
def test_the_binomial_tail(errors: int, more: int, rate: float) -> None:
    assert binomial_tail(errors, errors + more, rate) == pytest.approx(
        oracle.binomial_tail(errors, errors + more, rate), abs=1e-9
    )


def test_the_limits_of_the_tail() -> None:
    assert binomial_tail(0, 10, 0.0) == 1.0 and binomial_tail(3, 10, 1.0) == 0.0 and binomial_tail(10, 10, 1.0) == 1.0
    assert 0 < binomial_tail(0, 100_000, 0.0001) < 1e-4  # no overflow


class TestCounts:
    def test_outputs_of_the_same_confidence_are_accepted_together(self) -> None:
        counts = accepted_counts([0.9, 0.5, 0.9, 0.7, 0.5], [True, False, True, False, True])
        assert counts == [(0.9, 2, 2), (0.7, 3, 2), (0.5, 5, 3)]

    def test_a_table_of_at_most_a_hundred_values_ends_with_all(self) -> None:
        counts = accepted_counts([number / 1000 for number in range(1000)], [True] * 1000)
        assert len(counts) <= 101 and counts[-1] == AcceptedOutputs(0.0, 1000, 1000)


def outcomes(generator: random.Random, count: int) -> tuple[list[float], list[bool]]:
    """Confidences from 0.8 to 1 that are true probabilities."""
    confidences = [0.8 + 0.2 * generator.random() for _ in range(count)]
    return confidences, [generator.random() < confidence for confidence in confidences]


class TestThreshold:
    def test_the_target_is_kept_in_nine_of_ten_cases(self) -> None:
        """Over 100 validation sets; the true precision of accepting all from t on is (1 + t) / 2, the coverage 5 − 5 t:
        at best 0.5."""
        generator = random.Random(5)
        found = [find_threshold(accepted_counts(*outcomes(generator, 1000)), 0.95) for _ in range(100)]
        thresholds = [threshold for threshold in found if threshold is not None]
        assert sum((1 + threshold.confidence) / 2 < 0.95 for threshold in thresholds) <= 15
        assert sum(abs(5 - 5 * one.confidence - one.coverage) < 0.05 for one in thresholds) >= 0.9 * len(thresholds)
        assert sum(threshold.coverage for threshold in thresholds) > 10  # of 50 at best

    def test_all_are_accepted_where_all_are_right_enough(self) -> None:
        threshold = find_threshold(accepted_counts([0.5 + number / 2000 for number in range(1000)], [True] * 1000), 0.9)
        assert threshold is not None and threshold[:] == (0.9, 0.0, 1.0, 1.0)

    def test_none_is_safe(self) -> None:
        assert find_threshold(accepted_counts([0.5] * 100, [False] * 100), 0.5) is None
        assert find_threshold(accepted_counts([0.9] * 20, [True] * 20), 0.95) is None  # twenty prove nothing
        assert find_threshold([], 0.5) is None

    def test_wrong_outputs_at_the_top_do_not_hide_the_rest(self) -> None:
        """Three of the hundred most confident are wrong, too many for 0.95; all others are right."""
        confidences = [1 - number / 1000 for number in range(1000)]
        right = [number not in (5, 50, 95) for number in range(1000)]
        threshold = find_threshold(accepted_counts(confidences, right), 0.95)
        assert threshold is not None and threshold.coverage == 1.0

    def test_its_description(self) -> None:
        threshold = find_threshold([AcceptedOutputs(0.75, 500, 499), AcceptedOutputs(0.25, 1000, 800)], 0.95)
        assert threshold is not None
        assert threshold.describe() == (
            "precision target 0.95: outputs with a confidence of at least 0.750 are accepted; expect 50% of them "
            "(99.8% of these are right on validation data)"
        )


class TestGroups:
    def test_the_definition(self) -> None:
        """Three groups with 2, 1 and 0 errors among 2, 3 and 1 outputs."""
        right = np.array([False, False, True, False, True, True])
        squares = (2 - 0.5 * 2) ** 2 + (1 - 0.5 * 3) ** 2 + (0 - 0.5 * 1) ** 2
        assert design_effect(right, np.array([7, 7, 3, 3, 3, 5])) == pytest.approx(max(1, 1.5 * squares / (6 * 0.25)))

    def test_groups_that_are_right_or_wrong_as_a_whole_count_as_one_output_each(self) -> None:
        generator = np.random.default_rng(1)
        groups = np.repeat(np.arange(2000), 5)
        assert design_effect((generator.random(2000) < 0.8)[groups], groups) == pytest.approx(5, rel=0.1)
        assert design_effect(generator.random(10_000) < 0.8, groups) == pytest.approx(1, abs=0.1)

    def test_outputs_that_are_all_right_one_group_and_groups_of_one(self) -> None:
        right = np.array([True, False, True, True])
        assert design_effect(np.ones(4, bool), np.array([0, 0, 1, 1])) == 1
        assert design_effect(right, np.zeros(4)) == 1 and design_effect(right, np.arange(4)) == 1

    def test_the_target_is_kept_in_nine_of_ten_cases(self) -> None:
        """Groups of ten outputs, each wrong as a whole with the probability that its confidence says; true precision
        and coverage as above."""
        kept: dict[str, list[bool]] = {"independent": [], "in groups": []}
        for seed in range(60):
            groups = np.repeat(np.arange(200), 10)
            confidences, right = (np.array(values)[groups] for values in outcomes(random.Random(seed), 200))
            counts = accepted_counts(confidences.tolist(), right.tolist())
            effects = {"independent": 1.0, "in groups": design_effect(right, groups)}
            for name, effect in effects.items():
                threshold = find_threshold(counts, 0.92, effect=effect)
                if threshold is not None:
                    kept[name].append((1 + threshold.confidence) / 2 >= 0.92)
        assert len(kept["in groups"]) >= 10 and np.mean(kept["in groups"]) >= 0.85 > np.mean(kept["independent"])
