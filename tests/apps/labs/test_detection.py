"""ROC curves and what they are made of, against literal counts."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from weft.apps.labs.detection import RATES, area_under_curve, coverage, mean_log_probability, roc_curve

REAL, NONSENSE = [0.1, 0.4, 0.6, 0.9, 1.0], [0.0, 0.2, 0.4, 0.5]


def test_the_area_is_a_share_of_pairs() -> None:
    higher = sum(real > other for real in REAL for other in NONSENSE)
    equal = sum(real == other for real in REAL for other in NONSENSE)
    assert area_under_curve(REAL, NONSENSE) == pytest.approx((higher + equal / 2) / 20)
    assert area_under_curve(REAL, REAL) == pytest.approx(0.5)
    assert area_under_curve([2, 3], [0, 1]) == 1 and area_under_curve([0, 1], [2, 3]) == 0


def test_the_curve() -> None:
    curve = dict(zip(RATES, roc_curve(REAL, NONSENSE), strict=True))
    assert curve[0.0] == 0.25  # only 0.0 is below all real ones
    assert curve[0.2] == 0.5 and curve[0.4] == 1.0 and curve[1.0] == 1.0
    assert list(curve.values()) == sorted(curve.values())


def test_the_area_is_that_under_the_curve() -> None:
    generator = np.random.default_rng(1)
    real, nonsense = generator.normal(1, 1, 400), generator.normal(0, 1, 400)
    curve = roc_curve(real.tolist(), nonsense.tolist())
    under = sum((first + second) / 2 / 20 for first, second in pairwise(curve))
    assert under == pytest.approx(area_under_curve(real.tolist(), nonsense.tolist()), abs=0.01)


def test_the_numbers_of_a_translation() -> None:
    translation = SimpleNamespace(
        log_probability=-6.0, ids=[3, 4], attention=np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    )
    assert mean_log_probability(translation) == -2.0
    expected = (0.0 + np.log(0.5) + np.log(1e-6)) / 3
    assert coverage(translation) == pytest.approx(expected)
