"""Verdicts: an interval on the predicted side, on the other side, and on both."""

from __future__ import annotations

import math

import pytest

from weft.apps.labs.verdicts import HELD, INCONCLUSIVE, NOT_HELD, OUTCOMES, Check, above, always, below, judge, within
from weft.evaluation.statistics import Estimate

UNKNOWN = Estimate(50.0, -math.inf, math.inf)


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        (above("gain", Estimate(10, 6, 14), 5), HELD),
        (above("gain", Estimate(0, -2, 2), 5), NOT_HELD),
        (above("gain", Estimate(6, 4, 8), 5), INCONCLUSIVE),
        (above("gain", Estimate.exact(5), 5), NOT_HELD),
        (above("gain", UNKNOWN), INCONCLUSIVE),
        (below("loss", Estimate(1, 0, 2), 3), HELD),
        (below("loss", Estimate(4, 3, 5), 3), NOT_HELD),
        (below("loss", Estimate(3, 2, 4), 3), INCONCLUSIVE),
        (below("loss", UNKNOWN, 100), INCONCLUSIVE),
        (within("slope", Estimate(1.0, 0.95, 1.05), 0.95, 1.05), HELD),
        (within("slope", Estimate(0.5, 0.4, 0.94), 0.95, 1.05), NOT_HELD),
        (within("slope", Estimate(1.2, 1.1, 1.3), 0.95, 1.05), NOT_HELD),
        (within("slope", Estimate(1.0, 0.9, 1.05), 0.95, 1.05), INCONCLUSIVE),
        (always("worse outputs", 0, 10), HELD),
        (always("worse outputs", 1, 10), NOT_HELD),
        (always("worse outputs", 0, 0), INCONCLUSIVE),
    ],
)
def test_one_check(check: Check, outcome: str) -> None:
    assert check.outcome == outcome


def test_what_a_check_says() -> None:
    check = above("gain, in points", Estimate(10.0, 6.0, 14.0), 5)
    assert str(check) == "gain, in points: 10 [6, 14], predicted above 5: held"
    assert within("slope", Estimate.exact(1), -0.05, 1.05).rule == "between −0.05 and 1.05"
    assert always("worse outputs", 2, 1_000).rule == "0 of 1,000"


def test_all_checks_must_hold() -> None:
    checks = {
        HELD: above("a", Estimate.exact(2), 1),
        NOT_HELD: above("a", Estimate.exact(0), 1),
        INCONCLUSIVE: above("a", UNKNOWN, 1),
    }
    assert set(checks) == set(OUTCOMES)
    for outcomes, expected in {
        (HELD, HELD): HELD,
        (HELD, INCONCLUSIVE): INCONCLUSIVE,
        (INCONCLUSIVE, NOT_HELD): NOT_HELD,
        (HELD, NOT_HELD): NOT_HELD,
    }.items():
        verdict = judge([checks[outcome] for outcome in outcomes], "It was measured.")
        assert verdict.outcome == expected and verdict.effect == verdict.checks[0].effect
