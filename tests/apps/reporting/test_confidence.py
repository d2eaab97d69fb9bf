"""What a report says of confidence: nothing of a run that is not calibrated, else whether its promises are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from weft.apps.reporting.confidence import KeptTarget, _row
from weft.apps.reporting.report import report
from weft.evaluation.calibrate import calibrate
from weft.translation.load import load
from weft.translation.precision_target import Threshold
from weft.translation.translator import Translator

PAIRS = [(f"{a} {b} {c}", f"{a} {b} {c}") for a in "abcd" for b in "abcd" for c in "abcd"]


def test_a_calibrated_run_and_another(copier: Translator, tmp_path: Path) -> None:
    assert copier.folder is not None
    shutil.copytree(copier.folder, tmp_path / "run")
    run = load(tmp_path / "run")
    without = report(run, PAIRS)
    assert "confidence" not in without.record() and ">Confidence<" not in without.to_html()
    calibrate(run, PAIRS, right="chrf>=40")
    page = report(run, [*PAIRS, ("a", "a")])
    record = page.record()["confidence"]
    assert record["right"] == "chrF >= 40" and record["count"] == 65
    assert [item["target"] for item in record["precision_targets"]] == [0.8, 0.9, 0.95, 0.99]
    for item in record["precision_targets"]:
        assert 0 <= item["right"] <= item["accepted"] <= 65
    assert "are right (chrF &gt;= 40)" in page.to_html() or "are right (chrF >= 40)" in page.to_html()


@pytest.mark.parametrize(
    ("target", "row"),
    [
        (KeptTarget(0.9, None), ("90%", "not reached", "", "", "")),
        (KeptTarget(0.9, Threshold(0.9, 0.75, 0.5, 0.92), 40, 37), ("90%", "0.750", "50.0%", "40.0%", "92.5%")),
        (KeptTarget(0.9, Threshold(0.9, 0.75, 0.5, 0.92)), ("90%", "0.750", "50.0%", "0.0%", "")),
    ],
)
def test_the_rows_of_targets(target: KeptTarget, row: tuple[str, ...]) -> None:
    assert _row(target, 100) == row
