"""The most confused words or characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.apps.reporting.outputs import TestOutputs
from weft.apps.reporting.section import note, paragraph
from weft.evaluation.confusions import Confusion, Confusions, count_confusions
from weft.pictures.corpus_report import percent
from weft.pictures.html.elements import Html, data_text, element, join, table
from weft.pictures.labels import shorten, visible

SHOWN = 15
LONGEST = 40
"""Columns of a word; the end of a longer one is not shown."""


@dataclass(frozen=True)
class ConfusionsSection:
    """Units of the references that the outputs confuse, drop or add."""

    confusions: Confusions
    key: str = "confusions"
    title: str = "Confusions"

    def record(self) -> dict[str, Any]:
        return self.confusions.record(SHOWN)

    def html(self) -> Html:
        counts, unit = self.confusions, self.confusions.units
        parts = [
            paragraph(
                f"{counts.right:,} of {counts.total:,} {unit}s of the references are in the outputs "
                f"({percent(counts.right, counts.total)})."
            )
        ]
        substituted, missing, added = counts.substituted[:SHOWN], counts.missing[:SHOWN], counts.added[:SHOWN]
        tables = [
            _table("Substituted", ("reference", "output"), substituted),
            _table("Missing in the output", ("reference",), missing),
            _table("Only in the output", ("output",), added),
        ]
        words = "Words are what white space separates. " if unit == "word" else ""
        parts.append(
            note(
                f"{words}Each output is aligned with its closest reference by the fewest insertions, deletions and "
                f"substitutions; at most {SHOWN} of each kind are shown. Share: of all occurrences of the {unit} in "
                "the references or, where only the output has it, in the outputs."
            )
        )
        return join([parts[0], element("div", *tables, class_="columns"), *parts[1:]])


def confusions_section(outputs: TestOutputs) -> ConfusionsSection:
    assert outputs.target_units is not None
    return ConfusionsSection(count_confusions(outputs.aligned, outputs.target_units))


def unit_text(unit: str | None) -> Html:
    """A word or a character, with a symbol for each that is invisible."""
    return data_text(shorten(visible(unit or ""), LONGEST))


def _table(caption: str, sides: Sequence[str], confusions: Sequence[Confusion]) -> Html:
    if not confusions:
        return Html("")
    rows = [
        [
            *(unit_text(getattr(item, side)) for side in sides),
            f"{item.times:,}",
            percent(item.times, item.occurrences),
        ]
        for item in confusions
    ]
    numbers = range(len(sides), len(sides) + 2)
    return table([*sides, "times", "share"], rows, numbers=numbers, caption=caption)
