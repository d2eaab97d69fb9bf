"""The most informative examples, with the candidates of the search and attention maps.

They are the most confident errors, the outputs farthest from their reference, the least confident right outputs and the
longest right output. Confidence is `token_probability`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.apps.reporting.outputs import TestOutputs
from weft.apps.reporting.section import note, paragraph, probability_text
from weft.evaluation.confusions import UnitPair
from weft.evaluation.output_differences import similarity
from weft.pictures.html.attention_map import attention_map
from weft.pictures.html.elements import Content, Html, data_text, element, join, table, terms
from weft.pictures.labels import one_line
from weft.translation.results import Translation
from weft.translation.translator import Translator
from weft.translation.word_alignment import attention_view

CANDIDATES = 3
MAX_COMPARED = 500
"""Characters of a text that are compared when the farthest outputs are looked for."""
MAX_SHOWN = 1_000
"""Characters of a text that are shown."""
KINDS = {
    "most confident errors": 3,
    "farthest from the reference": 3,
    "least confident right outputs": 2,
    "longest right output": 1,
}
"""The kinds of examples, and the number of each."""


class Example(NamedTuple):
    """An informative item of the test set."""

    kind: str
    item: int
    """Its number in the test set, from 1."""
    references: list[str]
    translation: Translation
    aligned: list[UnitPair]
    space: str
    """The separator between two units."""

    def record(self) -> dict[str, Any]:
        best = self.translation
        return {
            "kind": self.kind,
            "item": self.item,
            "source": best.source,
            "references": self.references,
            "output": best.text,
            "log_probability": best.log_probability,
            "candidates": [
                {"output": other.text, "log_probability": other.log_probability} for other in best.alternatives
            ],
        }


@dataclass(frozen=True)
class ExamplesSection:
    """Some outputs to look at."""

    examples: list[Example]
    key: str = "examples"
    title: str = "Examples"

    def record(self) -> list[dict[str, Any]]:
        return [example.record() for example in self.examples]

    def html(self) -> Html:
        parts: list[Content] = []
        for kind in KINDS:
            chosen = [example for example in self.examples if example.kind == kind]
            if chosen:
                parts.append(element("h3", kind[0].upper() + kind[1:]))
                parts += [_html(example) for example in chosen]
        if not parts:
            return paragraph("There are no outputs to show.")
        text = (
            "Words of an output that the reference does not have are underlined, a dot stands for one that is missing. "
        )
        return join(
            [
                note(
                    text, "p: the probability of the whole output; per token: its geometric mean, exp(log p / length)."
                ),
                *parts,
            ]
        )


def examples_section(run: Translator, outputs: TestOutputs, search: dict[str, Any]) -> ExamplesSection:
    """Choose the examples, and translate them again with candidates and attention."""
    chosen = list(choose_examples(outputs))
    settings = run.search_settings(search)
    n_best = min(CANDIDATES, settings.size) if settings.kind == "beam" else 1
    sources = [outputs.sources[item] for _, item in chosen]
    translations = run.translate(sources, n_best=n_best, return_attention=True, **search) if sources else []
    space = " " if outputs.target_units is not None and outputs.target_units.name == "word" else ""
    return ExamplesSection(
        [
            Example(kind, item + 1, outputs.references[item], translation, list(outputs.aligned[item]), space)
            for (kind, item), translation in zip(chosen, translations, strict=True)
        ]
    )


def choose_examples(outputs: TestOutputs) -> Iterator[tuple[str, int]]:
    """The kind and the item of each example; no source twice."""
    items = range(len(outputs.translations))
    sure = [token_probability(translation) for translation in outputs.translations]
    lengths = [len(source) for source in outputs.sources]
    wrong = [item for item in items if not outputs.right[item] and outputs.translations[item].text.strip()]
    right = [item for item in items if outputs.right[item]]
    distant = {
        item: similarity(
            outputs.translations[item].text[:MAX_COMPARED], [text[:MAX_COMPARED] for text in outputs.references[item]]
        )
        for item in items
        if not outputs.right[item]
    }
    ranked = [
        sorted(wrong, key=lambda item: (-sure[item], item)),
        sorted(distant, key=lambda item: (distant[item], item)),
        sorted(right, key=lambda item: (sure[item], item)),
        sorted(right, key=lambda item: (-lengths[item], item)),
    ]
    shown: set[str] = set()
    for (kind, number), candidates in zip(KINDS.items(), ranked, strict=True):
        for item in candidates:
            if number and outputs.sources[item] not in shown:
                shown.add(outputs.sources[item])
                number -= 1
                yield kind, item


def token_probability(translation: Translation) -> float:
    """The geometric mean of the probabilities of the tokens: exp(log p(y|x) / |y|), end token included."""
    return math.exp(translation.log_probability / (len(translation.ids) + 1))


def _html(example: Example) -> Html:
    best = example.translation
    rows: list[tuple[str, Content]] = [("source", _shown(best.source))]
    rows += [("reference", _shown(text)) for text in example.references[:3]]
    rows.append(("output", _marked(example)))
    probability = f"p = {probability_text(best.log_probability)}, {token_probability(best):.3f} per token"
    rows.append(("probability", f"{probability} (item {example.item:,})"))
    texts: list[Content] = [terms(rows)]
    if best.alternatives:
        candidates = [
            (_shown(item.text), f"{item.score:.3f}", probability_text(item.log_probability))
            for item in (best, *best.alternatives)
        ]
        texts.append(table(("candidates of the search", "score", "p"), candidates, numbers=[1, 2]))
    view = attention_view(best)
    drawing = Html("") if view is None else attention_map(*view.attention)
    return element("div", element("div", *texts), drawing, class_="example")


def _shown(text: str) -> Html:
    return data_text(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} …")


def _marked(example: Example) -> Html:
    """The output; units that the reference does not have are marked, a missing one is a dot."""
    if not example.translation.text.strip():
        return data_text("")
    parts: list[Content] = []
    length = 0
    for pair in example.aligned:
        if length > MAX_SHOWN:
            parts.append(" …")
            break
        if parts:
            parts.append(example.space)
        unit = "·" if pair.output is None else one_line(pair.output)
        parts.append(unit if pair.right else element("span", unit, class_="wrong"))
        length += len(unit) + 1
    return element("bdi", *parts, dir="auto")
