"""Quality by length, by how rare the words are, and by whether the source was seen in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.apps.reporting.data import Frequencies
from weft.apps.reporting.outputs import TestOutputs
from weft.apps.reporting.section import interval_text, note, score_text
from weft.evaluation.breakdown import (
    SubsetScore,
    UnitRecall,
    parts_by_frequency,
    parts_by_length,
    recall_by_frequency,
    score_parts,
)
from weft.pictures.html.charts import interval_bar
from weft.pictures.html.elements import Content, Html, join, table


@dataclass(frozen=True)
class PartsSection:
    """Scores by subset of the test set: length, frequency, overlap with the training data."""

    metric: str
    """The metric of the parts, and whether higher or lower is better; empty if none is a sum over items."""
    units: tuple[str, str]
    by_length: list[SubsetScore]
    by_frequency: list[SubsetScore]
    """Scores by the rarest word of the source; empty if the training data could not be read."""
    by_word: list[UnitRecall]
    by_seen: list[SubsetScore]
    """Empty if the run does not know what it was trained on."""
    reads_texts: bool = True
    """Whether the sources are texts: the length and the letters of the name of a picture say nothing."""
    key: str = "parts"
    title: str = "Quality by kind of input"

    def record(self) -> dict[str, Any]:
        return {
            "metric": self.metric or None,
            "source_units": self.units[0],
            "target_units": self.units[1],
            "by_source_length": [part._asdict() for part in self.by_length],
            "by_rarest_source_unit": [part._asdict() for part in self.by_frequency],
            "by_reference_unit": [part._asdict() for part in self.by_word],
            "by_source_in_training": [part._asdict() for part in self.by_seen],
        }

    def html(self) -> Html:
        source, target = self.units
        parts = []
        if self.reads_texts:
            parts += [
                self._table(f"By length of the source, in {source}s", self.by_length),
                self._table(f"By training frequency of the rarest source {source}", self.by_frequency),
            ]
        if self.by_word:
            rows = [
                (item.name, f"{item.units:,}", f"{100 * item.recall:.2f} %", interval_bar(item.recall, None, (0, 1)))
                for item in self.by_word
            ]
            header = (f"{target} of the reference", "number", "in the output", "")
            parts.append(table(header, rows, numbers=[1, 2], caption=f"By training frequency of a target {target}"))
            parts.append(note(f"In the output: aligned with the same {target} of the output by the fewest edits."))
        else:
            parts.append(note("The training data could not be read, so nothing is known of frequencies."))
        if self.by_seen:
            parts.append(self._table("By whether the source is in the training data", self.by_seen))
        else:
            parts.append(
                note("The run has no fingerprints of its training data, so it is not known which sources are new.")
            )
        return join(parts)

    def _table(self, caption: str, parts: Sequence[SubsetScore]) -> Html:
        if not parts:
            return Html("")
        scores = [score for part in parts for score in (part.score, *(part.interval or ())) if score is not None]
        limits = (min([0.0, *scores]), max([100.0, *scores]))
        header = ["", "items", *([self.metric, "95 % interval", ""] if self.metric else []), "right"]
        rows: list[list[Content]] = []
        for part in parts:
            row: list[Content] = [part.name, f"{part.items:,}"]
            if self.metric:
                assert part.score is not None
                bar = interval_bar(part.score, part.interval, limits)
                row += [score_text(part.score), interval_text(part.interval), bar]
            rows.append([*row, f"{100 * part.right:.1f} %"])
        numbers = [1, 2, 3, 5] if self.metric else [1, 2]
        return table(header, rows, numbers=numbers, caption=caption)


def parts_section(outputs: TestOutputs, frequencies: Frequencies | None, *, reads_texts: bool = True) -> PartsSection:
    """Sort the items of the test set into parts, and score each by the first metric that allows it."""
    assert outputs.source_units is not None and outputs.target_units is not None
    metric = next((metric for metric in outputs.metrics if metric.statistics is not None), None)
    statistics = None if metric is None else metric.statistics
    sources = [outputs.source_units.split(source) for source in outputs.sources]

    def score(parts: dict[str, list[int]]) -> list[SubsetScore]:
        return score_parts(parts, statistics, outputs.right, outputs.resampling)

    rarest = (
        []
        if frequencies is None or not reads_texts
        else [min((frequencies.source[unit] for unit in units), default=0) for units in sources]
    )
    seen = {
        "in the training data": [item for item, known in enumerate(outputs.seen) if known],
        "new": [item for item, known in enumerate(outputs.seen) if known is False],
    }
    return PartsSection(
        "" if metric is None else metric.score.name,
        (outputs.source_units.name, outputs.target_units.name),
        by_length=score(parts_by_length([len(units) for units in sources])) if reads_texts else [],
        by_frequency=score(parts_by_frequency(rarest)) if rarest else [],
        by_word=[] if frequencies is None else recall_by_frequency(outputs.aligned, frequencies.target),
        by_seen=score(seen),
        reads_texts=reads_texts,
    )
