"""The learning curves of a run as charts: loss, validation metrics and learning rate over the steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

from weft.pictures.html.charts import Line, line_chart
from weft.pictures.html.elements import Html
from weft.runs.training_log import TrainingLog


def learning_curves(log: TrainingLog) -> Iterator[Html]:
    """A chart of the losses, one of each validation metric, and one of the learning rate; the best step is marked."""
    losses = [
        Line("training", [(item.step, item.loss) for item in log.steps]),
        Line("validation", [(item.step, item.loss) for item in log.validations]),
    ]
    if drawable := [line for line in losses if _has_points(line)]:
        yield line_chart("Loss", drawable, x_name="step", mark=log.best_step)
    for name in log.metric_names:
        points = [(float(item.step), item.metrics[name]) for item in log.validations if name in item.metrics]
        if _has_points(line := Line(name, points)):
            yield line_chart(f"Validation {name}", [line], x_name="step", mark=log.best_step)
    rates = Line("learning rate", [(item.step, item.learning_rate) for item in log.steps])
    if _has_points(rates):
        yield line_chart("Learning rate", [rates], x_name="step")


def _has_points(line: Line) -> bool:
    return any(math.isfinite(y) for _, y in line.points)
