"""Learning curves as charts."""

from __future__ import annotations

from weft.pictures.learning_curves import learning_curves
from weft.runs.training_log import LoggedStep, LoggedValidation, TrainingLog

NAN = float("nan")


def test_one_chart_for_losses_each_metric_and_the_rate() -> None:
    steps = [LoggedStep(step, 5.0 / step, 0.1, 10, 0.1, 0.0) for step in range(1, 50)]
    validations = [LoggedValidation(step, 1.0, {"bleu": step / 2, "bad": NAN}) for step in (10, 20)]
    charts = list(learning_curves(TrainingLog(steps, validations, None, {"best_step": 20})))
    assert [chart.count("<figcaption>") for chart in charts] == [1, 1, 1]
    assert "Loss" in charts[0] and ">training</text>" in charts[0] and "dashed" in charts[0]
    assert "Validation bleu" in charts[1] and "Learning rate" in charts[2]


def test_nothing_to_draw() -> None:
    assert list(learning_curves(TrainingLog([], []))) == []
    diverged = TrainingLog([LoggedStep(1, NAN, NAN, 1, 1, 0)], [])
    assert list(learning_curves(diverged)) == []
