"""The worst outputs for sources that are pictures: each picture with its reference and its output.

They have the most character errors per character of the reference; only their pictures are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.apps.reporting.section import Section, note, paragraph
from weft.evaluation.edit_alignment import align_units
from weft.pictures.html.elements import Content, Html, data_text, element, join, terms
from weft.pictures.html.latex import formula, has_latex
from weft.pictures.html.thumbnails import picture_element
from weft.pictures.labels import one_line
from weft.pictures.pixels import frames_picture
from weft.text.string_distance import edit_distance

if TYPE_CHECKING:
    from weft.apps.reporting.outputs import TestOutputs
    from weft.translation.translator import Translator

WORST = 12
"""Outputs that are shown."""
MAX_SHOWN = 1_000
"""Characters of a text that are compared and shown."""


class WorstPicture(NamedTuple):
    """An output that differs much from its reference."""

    name: str
    """The source: the name of the picture."""
    picture: np.ndarray
    reference: str
    output: str

    @property
    def errors(self) -> int:
        """The edit distance, in characters."""
        return edit_distance(self.output, self.reference)


@dataclass(frozen=True)
class WorstPicturesSection:
    """The worst outputs, as pictures."""

    cases: Sequence[WorstPicture]
    shown: Callable[[str], Html] = data_text
    """Shows a reference: as text, or as a formula."""
    key: str = "worst_pictures"
    title: str = "Worst outputs"

    def record(self) -> list[dict[str, Any]]:
        return [
            {"source": case.name, "reference": case.reference, "output": case.output, "errors": case.errors}
            for case in self.cases
        ]

    def html(self) -> Html:
        if not self.cases:
            return paragraph("Every output equals its reference.")
        intro = note("The most character errors per character of the reference. Wrong characters are underlined.")
        return join([intro, *map(self._case, self.cases)])

    def _case(self, case: WorstPicture) -> Html:
        rows: list[tuple[str, Content]] = [
            ("reference", self.shown(case.reference[:MAX_SHOWN])),
            ("output", marked(case.output[:MAX_SHOWN], case.reference[:MAX_SHOWN])),
            ("errors", f"{case.errors:,} of {len(case.reference):,} characters"),
            ("picture", data_text(case.name)),
        ]
        picture = element("div", picture_element(case.picture, case.reference))
        return element("div", picture, terms(rows), class_="example")


def worst_pictures(
    names: Sequence[str], outputs: Sequence[str], references: Sequence[str], read: Callable[[str], np.ndarray]
) -> WorstPicturesSection:
    """The section of the `WORST` outputs; ``read``: the picture of a name."""
    distances = [edit_distance(*texts) for texts in zip(outputs, references, strict=True)]
    rates = [distance / max(len(reference), 1) for distance, reference in zip(distances, references, strict=True)]
    wrong = sorted((row for row, distance in enumerate(distances) if distance), key=lambda row: (-rates[row], row))
    return WorstPicturesSection(
        [WorstPicture(names[row], read(names[row]), references[row], outputs[row]) for row in wrong[:WORST]]
    )


def picture_sections(run: Translator, outputs: TestOutputs) -> list[Section]:
    """The section of a report, if sources are pictures or frames; formulas are shown as such."""
    if not run.tokenizers.reads_arrays:
        return []

    def read(name: str) -> np.ndarray:
        array: np.ndarray = run.tokenizers.source.read(name)  # type: ignore[attr-defined]
        return frames_picture(array) if array.ndim == 2 else array

    texts = [translation.text for translation in outputs.translations]
    section = worst_pictures(outputs.sources, texts, [lines[0] for lines in outputs.references], read)
    target = run.tokenizers.target
    return [replace(section, shown=formula) if has_latex(target.tokens(range(target.size))) else section]


def marked(output: str, reference: str) -> Html:
    """The output with its wrong characters underlined, and a dot for each missing one."""
    if not output.strip():
        return data_text("")
    parts: list[Content] = []
    for left, right in align_units(output, reference):
        character = "·" if left is None else one_line(output[left])
        is_right = left is not None and right is not None and output[left] == reference[right]
        parts.append(character if is_right else element("span", character, class_="wrong"))
    return element("bdi", *parts, dir="auto")
