"""Learning curves: loss, validation scores and learning rate over the steps of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.apps.reporting.section import note, paragraph
from weft.pictures.html.elements import Html, element, join
from weft.pictures.learning_curves import learning_curves
from weft.runs.training_log import TrainingLog


@dataclass(frozen=True)
class LearningSection:
    """The learning curves of a run."""

    log: TrainingLog | None
    """None: the run has no log."""
    unit: str
    """The unit of the loss."""
    key: str = "learning"
    title: str = "Learning curves"

    def record(self) -> dict[str, Any] | None:
        if self.log is None:
            return None
        curve = [{name: getattr(item, name) for name in ("step", "loss", "learning_rate")} for item in self.log.steps]
        validations = [item._asdict() for item in self.log.validations]
        diagnoses = [item._asdict() for item in self.log.diagnoses]
        return {"steps": curve, "validations": validations, "diagnoses": diagnoses, "finished": self.log.finished}

    def html(self) -> Html:
        if self.log is None:
            return paragraph("This run has no log.jsonl, so there are no learning curves.")
        findings = [paragraph(f"{item.message[:1].upper()}{item.message[1:]}.") for item in self.log.diagnoses]
        charts = list(learning_curves(self.log))
        if not charts:
            return join([*findings, paragraph("The log of this run has no steps.")])
        text = f"Loss: {self.unit}; in training that of single batches, with dropout."
        if (best := self.log.best_step) is not None:
            text += f" Dashed line: step {best:,}, the best by validation."
        if self.log.finished is None:
            text += " Training has not ended."
        return join([*findings, element("div", *charts, class_="charts"), note(text)])


def learning_section(log: TrainingLog | None, loss: str) -> LearningSection:
    """The learning curves of a run; ``loss``: the setting training.loss."""
    unit = (
        "mean 1.5-entmax loss of a target token"
        if loss == "entmax15"
        else ("mean negative log-likelihood of a target token (nats)")
    )
    return LearningSection(log, unit)
