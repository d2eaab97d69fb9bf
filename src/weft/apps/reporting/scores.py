"""Scores of the test set, each with its signature and a bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.apps.reporting.outputs import ScoredMetric, TestOutputs
from weft.apps.reporting.section import interval_text, note, paragraph, score_text
from weft.errors import plural
from weft.pictures.html.elements import Html, element, join, table


@dataclass(frozen=True)
class ScoresSection:
    """The scores of the outputs."""

    outputs: TestOutputs | None
    """None: there are no pairs to test on."""
    key: str = "scores"
    title: str = "Scores"

    def record(self) -> dict[str, Any] | None:
        outputs = self.outputs
        if outputs is None:
            return None
        given, resampling = outputs.given, outputs.resampling
        alignment = outputs.alignment
        return {
            "test_set": outputs.name,
            "pairs": len(given.pairs),
            "items": len(given.items.sources),
            "left_out": given.left_out,
            "search": outputs.search,
            "metrics": {metric.score.name: _record(metric) for metric in outputs.metrics},
            "perplexity": {"value": outputs.perplexity.value, "signature": outputs.perplexity.signature},
            "alignment": None if alignment is None else alignment._asdict(),
            "right": sum(outputs.right),
            "ended_by_length": sum(translation.ended_by_length for translation in outputs.translations),
            "bootstrap": {"samples": resampling.samples, "seed": resampling.seed},
        }

    def html(self) -> Html:
        outputs = self.outputs
        if outputs is None:
            return paragraph(
                "The recipe names neither a test set nor a validation set: give a file of pairs, ",
                element("code", "weft report RUN pairs.tsv"),
                ".",
            )
        given = outputs.given
        counts = plural(len(given.pairs), "pair")
        if len(given.items.sources) < len(given.pairs):
            counts = f"{plural(len(given.items.sources), 'source')} with {plural(len(given.pairs), 'reference')}"
        parts = [paragraph(f"On the {outputs.name}, {counts}. " + outputs.note)]
        parts.append(table(("metric", "score", "95 % interval", "better", "signature"), self._rows(), numbers=[1, 2]))
        if outputs.has_outputs:
            resampling = outputs.resampling
            parts.append(
                note(
                    f"Intervals by bootstrap over the items ({resampling.samples:,} samples, seed {resampling.seed}); "
                    "exact where all are right or all wrong. ",
                    element("span", outputs.search, class_="signature"),
                )
            )
        if cut_off := sum(translation.ended_by_length for translation in outputs.translations):
            parts.append(note(f"{plural(cut_off, 'output')} reached the length limit and may be cut off."))
        return join(parts)

    def _rows(self) -> list[list[str]]:
        assert self.outputs is not None
        rows: list[list[str]] = []
        for metric in self.outputs.metrics:
            score = metric.score
            rows.append([score.name, score_text(score.value), interval_text(metric.interval), score.better])
            rows[-1].append(_signature(score.signature))
        alignment, likelihood = self.outputs.alignment, self.outputs.perplexity
        if alignment is not None:
            row = ["alignment error rate", score_text(alignment.error_rate), "", "lower"]
            rows.append([*row, _signature(alignment.signature)])
        rows.append(["perplexity of the references", f"{likelihood.value:.3f}", "", "lower"])
        rows[-1].append(_signature(likelihood.signature))
        return rows


def _signature(text: str) -> Html:
    return element("span", text, class_="signature")


def _record(metric: ScoredMetric) -> dict[str, Any]:
    score = metric.score
    return {
        "value": score.value,
        "interval": metric.interval,
        "better": score.better,
        "signature": score.signature,
    }
