"""Fitting a confidence: against literal equations, on outcomes drawn from known probabilities, and at the limits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import confidence as oracle
from weft.errors import DataError
from weft.evaluation.calibration import calibrate
from weft.evaluation.confidence_fitting import (
    PRIOR,
    RIDGE,
    auroc,
    fit_confidence,
    fit_curve,
    fit_logistic,
    isotonic,
    mean_ranks,
    sigmoid,
)


def drawn(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, outcomes drawn with known probabilities, and these probabilities."""
    generator = np.random.default_rng(seed)
    features_NF = generator.normal(size=(count, 3)) * [1.0, 5.0, 0.3] + [0.0, 20.0, -2.0]
    probabilities_N = sigmoid(1.0 + 2.0 * features_NF[:, 0] - 0.2 * (features_NF[:, 1] - 20.0))
    return features_NF, generator.random(count) < probabilities_N, probabilities_N


class TestLogisticRegression:
    def test_no_weight_can_be_changed_to_lower_the_literal_loss(self) -> None:
        features_NF, right_N, _ = drawn(97)
        model = fit_logistic(features_NF, right_N)
        standardized = ((features_NF - features_NF.mean(0)) / features_NF.std(0)).tolist()
        weights, right = model.weights_F.tolist(), right_N.tolist()
        best = oracle.logistic_loss(weights, model.bias, standardized, right, RIDGE)
        for index in range(len(weights) + 1):
            for step in (-1e-3, 1e-3):
                changed = [*weights, model.bias]
                changed[index] += step
                assert oracle.logistic_loss(changed[:-1], changed[-1], standardized, right, RIDGE) > best

    @pytest.mark.parametrize("outcome", [True, False])
    def test_outcomes_that_are_all_the_same_give_finite_weights(self, outcome: bool) -> None:
        features_NF, _, _ = drawn(50)
        scores_N = fit_logistic(features_NF, np.full(50, outcome)).scores(features_NF)
        assert sigmoid(scores_N) == pytest.approx(np.full(50, 51 / 52 if outcome else 1 / 52), abs=0.02)

    def test_outcomes_that_a_feature_separates_and_a_constant_feature(self) -> None:
        values = np.arange(100, dtype=float)
        model = fit_logistic(np.column_stack([values, np.full(100, 7.0)]), values >= 50)
        assert np.isfinite(model.weights_F).all() and model.weights_F[0] > 1 and model.weights_F[1] == 0
        assert ((model.scores(np.column_stack([values, np.full(100, 7.0)])) > 0) == (values >= 50)).all()

    def test_a_feature_whose_deviation_would_be_rounded_to_zero_is_constant(self) -> None:
        values = np.arange(100, dtype=float)
        model = fit_logistic(np.column_stack([values, 7.0 + 3e-9 * values]), values >= 50)
        assert model.deviations_F[1] == 1.0


class TestIsotonicRegression:
    @given(
        st.lists(
            st.tuples(st.floats(0, 1, allow_subnormal=False), st.integers(1, 9)),
            min_size=1,
            max_size=11,
        )
    )
    def test_the_min_max_formula(self, items: list[tuple[float, int]]) -> None:
        values, weights = [value for value, _ in items], [weight for _, weight in items]
        fitted = isotonic(values, weights)
        assert fitted == pytest.approx(oracle.isotonic(values, weights), abs=1e-9)
        assert all(earlier <= later + 1e-12 for earlier, later in pairwise(fitted))

    def test_a_curve_increases_and_is_never_sure(self) -> None:
        scores_N = np.linspace(-3, 3, 200)
        curve = fit_curve(scores_N, scores_N > 0)
        scores, probabilities = zip(*curve, strict=True)
        assert list(scores) == sorted(set(scores)) and list(probabilities) == sorted(probabilities)
        assert 0 < probabilities[0] < 0.05 and 0.95 < probabilities[-1] < 1

    def test_equal_scores_give_one_point(self) -> None:
        [(score, probability)] = fit_curve(np.full(100, -1.0), np.arange(100) % 4 == 0)
        assert score == -1 and probability == pytest.approx(0.25, abs=0.05)

    def test_a_group_counts_more_outputs_that_are_right_as_its_scores_say(self) -> None:
        [(_, probability)] = fit_curve(np.full(12, 2.0), np.ones(12, dtype=bool))
        assert probability == pytest.approx((12 + PRIOR / (1 + np.exp(-2.0))) / (12 + PRIOR))


class TestFit:
    def test_known_probabilities_are_recovered(self) -> None:
        features_NF, right_N, _ = drawn(2_000)
        fitted = fit_confidence(features_NF, right_N)
        new_NF, new_right_N, probabilities_N = drawn(4_000, seed=2)
        scores_N = fitted.logistic.scores(new_NF)
        confidences_N = np.interp(scores_N, *zip(*fitted.curve, strict=True))
        assert np.abs(confidences_N - probabilities_N).mean() < 0.04
        assert calibrate(confidences_N.tolist(), new_right_N.tolist()).error < 0.04
        best = auroc(probabilities_N, new_right_N)
        assert best is not None and (auroc(confidences_N, new_right_N) or 0) > best - 0.01

    def test_scores_are_of_weights_that_were_fitted_to_others(self) -> None:
        features_NF, right_N, _ = drawn(60)
        fitted = fit_confidence(features_NF, right_N)
        held_out = np.arange(60) % 5 == 2
        others = fit_logistic(features_NF[~held_out], right_N[~held_out])
        assert fitted.scores_N[held_out] == pytest.approx(others.scores(features_NF[held_out]))

    def test_too_few(self) -> None:
        with pytest.raises(DataError, match=r"^confidence: 39 outputs and 39 outcomes; expected as many of both, at l"):
            fit_confidence(np.zeros((39, 2)), np.ones(39))
        with pytest.raises(DataError, match=r"^confidence: 50 outputs and 49 outcomes"):
            fit_confidence(np.zeros((50, 2)), np.ones(49))


class TestRanks:
    @given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=23))
    def test_auroc_compares_all_pairs(self, items: list[tuple[int, bool]]) -> None:
        confidences, right = np.array([float(c) for c, _ in items]), np.array([r for _, r in items])
        value = auroc(confidences, right)
        if right.all() or not right.any():
            assert value is None
        else:
            assert value == pytest.approx(oracle.auroc(confidences.tolist(), right.tolist()))

    def test_ranks(self) -> None:
        assert mean_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]
