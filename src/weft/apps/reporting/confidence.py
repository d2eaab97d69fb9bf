"""Confidence: whether what was fitted on validation pairs holds on the test set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.apps.reporting.outputs import TestOutputs
from weft.apps.reporting.section import note, paragraph
from weft.evaluation.calibrate import criterion_named
from weft.evaluation.calibration import Calibration, calibrate
from weft.evaluation.confidence_fitting import auroc
from weft.pictures.html.charts import reliability_diagram
from weft.pictures.html.elements import Html, element, join, table
from weft.translation.confidence import ConfidenceModel
from weft.translation.precision_target import Threshold
from weft.translation.translator import Translator

TARGETS = (0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class KeptTarget:
    """A precision target, and what became of it on the test set."""

    target: float
    threshold: Threshold | None
    accepted: int = 0
    right: int = 0

    def record(self) -> dict[str, Any]:
        promised = None if self.threshold is None else self.threshold._asdict()
        return {"target": self.target, "promised": promised, "accepted": self.accepted, "right": self.right}


@dataclass(frozen=True)
class ConfidenceSection:
    """The confidence of the test outputs beside how often they are right, and the precision targets."""

    name: str
    """When an output is right."""
    calibration: Calibration
    auroc: float | None
    targets: list[KeptTarget]
    key: str = "confidence"
    title: str = "Confidence"

    def record(self) -> dict[str, Any]:
        return {
            "right": self.name,
            **self.calibration.record(),
            "auroc": self.auroc,
            "precision_targets": [target.record() for target in self.targets],
        }

    def html(self) -> Html:
        item = self.calibration
        ranking = (
            "" if self.auroc is None else f" A right output has more confidence than a wrong one in {self.auroc:.1%}."
        )
        rows = [_row(target, item.count) for target in self.targets]
        points = [(part.confidence, part.accuracy, part.size / item.count) for part in item.filled]
        return join(
            [
                paragraph(
                    f"On average, outputs have a confidence of {item.confidence:.1%}, and {item.accuracy:.1%} of the "
                    f"{item.count:,} are right ({self.name}); expected calibration error {item.error:.3f}.{ranking}"
                ),
                table(
                    ("precision target", "least confidence", "expected", "accepted", "right"), rows, numbers=range(1, 5)
                ),
                element(
                    "div",
                    reliability_diagram("Test outputs", points, names=("confidence", "share that is right")),
                    class_="charts",
                ),
                note(
                    "The confidence of an output is the probability that it is right, fitted on validation pairs from "
                    "its probability, its weakest token and its length (confidence.json). Expected: the share of "
                    "accepted outputs among the validation pairs; accepted and right: the shares on the test set."
                ),
            ]
        )


def _row(target: KeptTarget, count: int) -> tuple[str, ...]:
    if target.threshold is None:
        return f"{target.target:.0%}", "not reached", "", "", ""
    right = f"{target.right / target.accepted:.1%}" if target.accepted else ""
    threshold = target.threshold
    expected, accepted = f"{threshold.coverage:.1%}", f"{target.accepted / count:.1%}"
    return f"{target.target:.0%}", f"{threshold.confidence:.3f}", expected, accepted, right


def confidence_section(run: Translator, outputs: TestOutputs) -> ConfidenceSection | None:
    """The confidence of the test outputs; None if the run is not calibrated."""
    model = run.confidence
    if model is None:
        return None
    items = [row for row, translation in enumerate(outputs.translations) if translation.confidence is not None]
    if not items:
        return None
    criterion = criterion_named(run.recipe, model.right)
    right = criterion.right([translation.text for translation in outputs.translations], outputs.given.items)[items]
    confidences = np.array([outputs.translations[row].confidence for row in items], dtype=float)
    return ConfidenceSection(
        model.right,
        calibrate(confidences.tolist(), right.tolist()),
        auroc(confidences, right),
        [_kept(model, target, confidences, right) for target in TARGETS],
    )


def _kept(model: ConfidenceModel, target: float, confidences: np.ndarray, right: np.ndarray) -> KeptTarget:
    threshold = model.threshold(target)
    if threshold is None:
        return KeptTarget(target, None)
    accepted = confidences >= threshold.confidence
    return KeptTarget(target, threshold, int(accepted.sum()), int(right[accepted].sum()))
