"""What a report says of calibration."""

from __future__ import annotations

import pytest

from weft.apps.reporting.calibration import CalibrationSection
from weft.evaluation.calibration import calibrate


@pytest.mark.parametrize(
    ("confidence", "judgment"),
    [
        (0.9, "overconfident: it gives them 90.0 % on average, and 50.0 % are right."),
        (0.2, "underconfident: it gives them 20.0 % on average, and 50.0 % are right."),
        (0.505, "neither over- nor underconfident: it gives them 50.5 % on average, and 50.0 % are right."),
    ],
)
def test_the_verdict(confidence: float, judgment: str) -> None:
    section = CalibrationSection(calibrate([confidence] * 2, [True, False]), None)
    shown = section.html().replace("\N{NO-BREAK SPACE}", " ")
    assert f"For whole outputs the model is {judgment}" in shown and "tokens the model" not in shown
    assert section.record()["tokens"] is None and section.html().count("<figure>") == 1
