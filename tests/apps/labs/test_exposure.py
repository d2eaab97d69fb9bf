"""The exposure lab: its verdict on made-up numbers, and a world without sampling."""

from __future__ import annotations

import pytest

from weft.apps.labs import exposure
from weft.apps.labs.exposure import FREE, LONGEST, SCHEDULED, TEACHER, judge_gaps


def rising(*levels: float) -> list[list[float]]:
    """For each seed, a gap that starts at 0 and whose mean over the second half is the level."""
    steps = range(LONGEST)
    scale = sum(steps[LONGEST // 2 :]) / (LONGEST // 2)
    return [[level * step / scale for step in steps] for level in levels]


ERRORS = {TEACHER: rising(60, 61, 62), SCHEDULED: rising(50, 51, 52)}


@pytest.mark.parametrize(
    ("teacher", "scheduled", "outcome"),
    [
        (rising(30, 33, 31), rising(15, 17, 18), "held"),
        (rising(0, 1, 0), rising(0, 1, 0), "did not hold"),
        ([[30.0 + seed] * LONGEST for seed in range(3)], rising(15, 17, 18), "did not hold"),  # it does not grow
        (rising(30, 33, 31), rising(40, 45, 41), "did not hold"),
        (rising(30, 33, 31), rising(15, 40, 18), "inconclusive"),
    ],
)
def test_the_verdict(teacher: list[list[float]], scheduled: list[list[float]], outcome: str) -> None:
    verdict = judge_gaps({TEACHER: teacher, SCHEDULED: scheduled, FREE: rising(0, 0, 0)}, ERRORS)
    assert verdict.outcome == outcome


def test_a_smaller_gap_with_more_errors_is_no_support() -> None:
    errors = ERRORS | {SCHEDULED: rising(70, 71, 72)}
    verdict = judge_gaps({TEACHER: rising(30, 33, 31), SCHEDULED: rising(15, 17, 18)}, errors)
    assert [check.outcome for check in verdict.checks] == ["held", "held", "did not hold"]


def test_the_effects() -> None:
    gaps = {TEACHER: rising(30, 34), SCHEDULED: rising(10, 12)}
    verdict = judge_gaps(gaps, {TEACHER: rising(60, 62), SCHEDULED: rising(50, 51)})
    halves = sum(range(LONGEST // 2)) / sum(range(LONGEST // 2, LONGEST))
    assert [check.effect.mean for check in verdict.checks] == pytest.approx([32 - 32 * halves, 21, 10.5])


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_sampling_never_is_teacher_forcing() -> None:
    result = exposure(2, quick=True, sampling=0.0, steps=12)
    assert result.verdict.outcome == "did not hold" and result.verdict.checks[1].effect.mean == 0
