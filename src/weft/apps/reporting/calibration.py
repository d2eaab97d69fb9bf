"""Calibration: how well the probabilities of outputs agree with how often they are right."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from weft.apps.reporting.outputs import TestOutputs
from weft.apps.reporting.section import note, paragraph
from weft.evaluation.calibration import Calibration, calibrate
from weft.evaluation.edit_alignment import align_units, closest_reference
from weft.pictures.html.charts import reliability_diagram
from weft.pictures.html.elements import Html, element, join, table
from weft.translation.translator import Translator

HONEST = 1.0
"""Points by which mean confidence and accuracy may differ."""
EQUATION = "ECE = Σ_m n_m / n · |accuracy(m) − confidence(m)|"


@dataclass(frozen=True)
class CalibrationSection:
    """The probabilities of whole outputs, and of their tokens, beside how often these are right."""

    outputs: Calibration
    tokens: Calibration | None
    """Calibration of tokens; None if no output has a token."""
    key: str = "calibration"
    title: str = "Calibration"

    def record(self) -> dict[str, Any]:
        return {
            "outputs": self.outputs.record(),
            "tokens": None if self.tokens is None else self.tokens.record(),
        }

    def html(self) -> Html:
        rows = []
        for name, item in (("whole outputs", self.outputs), ("tokens", self.tokens)):
            if item is not None:
                numbers = (item.confidence, item.accuracy, item.error, item.brier)
                rows.append((name, f"{item.count:,}", *(f"{number:.3f}" for number in numbers)))
        header = ("", "number", "mean confidence", "right", "ECE", "Brier score")
        charts = [_diagram("Whole outputs", self.outputs)]
        if self.tokens is not None:
            charts.append(_diagram("Tokens", self.tokens))
        return join(
            [
                paragraph(
                    _verdict(self.outputs, "whole outputs"),
                    " ",
                    "" if self.tokens is None else _verdict(self.tokens, "tokens"),
                ),
                table(header, rows, numbers=range(1, 6)),
                element("div", *charts, class_="charts"),
                element("pre", EQUATION),
                note(
                    "The confidence of an output is its probability p(y|x), the product over its tokens and its end "
                    "token; that of a token is p(y_t|y_<t, x). An output is right if it equals a reference, a token if "
                    "it is aligned with the same token of the reference by the fewest edits. Bin m of ten has those "
                    "with a confidence above (m−1)/10 and up to m/10, n_m in number: confidence(m) is their mean "
                    "confidence, accuracy(m) the share that is right. An honest model is on the diagonal; below it, it "
                    "is overconfident. The area of a point is its share of all."
                ),
            ]
        )


def calibration_section(run: Translator, outputs: TestOutputs) -> CalibrationSection:
    """Score the tokens of all outputs again in one pass: a search need not keep their probabilities."""
    whole = [min(math.exp(translation.log_probability), 1.0) for translation in outputs.translations]
    confidences: list[float] = []
    right: list[bool] = []
    items = [index for index, translation in enumerate(outputs.translations) if translation.text.strip()]
    pairs = [(outputs.sources[item], outputs.translations[item].text) for item in items]
    for (source, text), item, score in zip(pairs, items, run.score(pairs), strict=True):
        ids = run.encode_target(text, source)
        references = [run.encode_target(reference, source) for reference in outputs.references[item]]
        closest = references[closest_reference(ids, references)]
        equal = {row: column for row, column in align_units(ids, closest) if row is not None and column is not None}
        confidences += [min(math.exp(value), 1.0) for value in score.token_scores[: len(ids)]]
        right += [row in equal and ids[row] == closest[equal[row]] for row in range(len(ids))]
    return CalibrationSection(calibrate(whole, outputs.right), calibrate(confidences, right) if confidences else None)


def _diagram(title: str, item: Calibration) -> Html:
    points = [(part.confidence, part.accuracy, part.size / item.count) for part in item.filled]
    return reliability_diagram(title, points, names=("confidence", "share that is right"))


def _verdict(item: Calibration, what: str) -> str:
    """One sentence: over- or underconfident, and by how much."""
    difference = 100 * (item.confidence - item.accuracy)
    kind = "overconfident" if difference > 0 else "underconfident"
    judgment = kind if abs(difference) >= HONEST else "neither over- nor underconfident"
    given, right = (f"{100 * share:.1f}\N{NO-BREAK SPACE}%" for share in (item.confidence, item.accuracy))
    return f"For {what} the model is {judgment}: it gives them {given} on average, and {right} are right."
