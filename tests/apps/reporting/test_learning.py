"""How a run has learned, in a report."""

from __future__ import annotations

from weft.apps.reporting.learning import learning_section
from weft.runs.training_log import LoggedDiagnosis, LoggedStep, TrainingLog

STEPS = [LoggedStep(step, 2.0 - step / 10, 0.1, 50, 1.0, 0.0) for step in range(1, 6)]
OVERFITS = LoggedDiagnosis(5, "overfits", "overfits: from step 2 to 5 the validation loss has risen; <more> pairs help")


def test_what_was_wrong_with_a_run_is_said_before_its_curves() -> None:
    section = learning_section(TrainingLog(STEPS, [], diagnoses=(OVERFITS,)), "cross_entropy")
    html = str(section.html())
    said = "Overfits: from step 2 to 5 the validation loss has risen; &lt;more&gt; pairs help."
    assert html.index(said) < html.index("<svg")
    record = section.record()
    assert record is not None and record["diagnoses"] == [OVERFITS._asdict()]
    assert "verfits" not in str(learning_section(TrainingLog(STEPS, []), "cross_entropy").html())


def test_of_a_run_without_steps() -> None:
    page = str(learning_section(TrainingLog([], [], diagnoses=(OVERFITS,)), "cross_entropy").html())
    assert "Overfits: " in page and "The log of this run has no steps." in page
