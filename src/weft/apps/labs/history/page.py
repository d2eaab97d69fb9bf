"""The history as one page, for a lecture: without scripts and without references to other files.

The same seeds give the same page, except for the section on speed, which depends on the machine and its load.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from weft.apps.labs.history.models import BY_KEY, HistoricalModel
from weft.apps.labs.history.task import LENGTHS, MAX_WORDS, SENTENCE
from weft.apps.labs.page import footer, table_html
from weft.pictures.charts.html import chart_html
from weft.pictures.html.attention_map import attention_map
from weft.pictures.html.elements import Content, Html, data_text, element, join, table, terms
from weft.pictures.html.page import page

if TYPE_CHECKING:
    from weft.apps.labs.history.result import HistoryResult

TITLE = "Ten years of attention"
_PART = re.compile(r"(?P<shift>[_^])\{(?P<inside>[^}]*)\}|(?P<word>[A-Za-z]{2,})|(?P<letter>[A-Za-zα-ω])|(?P<sign>.)")


def history_page(result: HistoryResult) -> Html:
    """The whole document."""
    return page(f"{TITLE}: weft history", *history_content(result), footer(result.environment))


def history_content(result: HistoryResult) -> list[Content]:
    """Overview, the models one by one, one sentence in all of them, the verdicts, and the speed."""
    return [
        _header(result),
        *(_section(key, BY_KEY[key].name, *_model(result, key)) for key in result.results),
        _section("sentence", "One sentence in every model", *_maps(result)),
        _section("verdicts", "Verdicts", *_verdicts(result)),
        _section("speed", "Speed", *_speed(result)),
    ]


def equation(text: str) -> Html:
    """An equation: variables in italics, words upright, subscripts written ``_{…}`` and superscripts ``^{…}``."""
    parts: list[Content] = []
    for match in _PART.finditer(text):
        if match["shift"]:
            parts.append(element("sub" if match["shift"] == "_" else "sup", element("i", match["inside"])))
        else:
            parts.append(element("i", match["letter"]) if match["letter"] else match["word"] or match["sign"])
    return element("p", *parts, class_="equation")


def _section(key: str, title: str, *content: Content) -> Html:
    return join(["\n", element("section", element("h2", title, id=key), *content)])


def _header(result: HistoryResult) -> Html:
    links = [element("a", BY_KEY[key].name, href=f"#{key}") for key in result.results]
    links += [element("a", name, href=f"#{name.lower()}") for name in ("Sentence", "Verdicts", "Speed")]
    quick = " This was a quick run: the models have learned next to nothing." if result.quick else ""
    return element(
        "header",
        element("h1", TITLE),
        element(
            "p",
            f"From one vector to today's Transformers: {len(result.results)} models, one task, one budget. Each was "
            f"trained by weft for {result.steps:,} updates on English sentences of three to {MAX_WORDS} words and "
            "their French translations, from a grammar that knows which words belong together. Their sizes are such "
            "that two CPU cores train them in minutes. The test sentences are new, and some of them are longer than "
            f"any in training.{quick}",
        ),
        element("nav", *links, aria_label="sections"),
        table_html(result.table()),
        element(
            "p",
            f"Exact match: the translation is right in every word ({result.sentences} sentences of each length). "
            "Alignment error rate: disagreement of the attention with the word links of the grammar, on sentences of "
            f"up to {MAX_WORDS} words; lower is better. "
            f"Means over seeds {', '.join(map(str, result.seeds))} with 95 % intervals.",
            class_="faint small",
        ),
        element("div", *map(chart_html, result.charts()), class_="charts"),
    )


def _model(result: HistoryResult, key: str) -> list[Content]:
    """The section of a model: its innovation, equations and figures."""
    model: HistoricalModel = BY_KEY[key]
    error = result.error(key)
    figures: list[tuple[str, Content]] = [
        ("parameters", f"{result.results[key][0]['parameters']:,}"),
        (f"exact match, {LENGTHS[0]} words", result.exact(key, 0).text("%")),
        (f"exact match, {MAX_WORDS} words", result.exact(key, LENGTHS.index(MAX_WORDS)).text("%")),
        (f"exact match, {LENGTHS[-1]} words", result.exact(key, -1).text("%")),
        ("alignment error rate", "no attention" if error is None else error.text("%")),
    ]
    return [
        element("p", model.paper, class_="faint small"),
        element("p", model.news),
        element("div", *map(equation, model.equations), class_="equations"),
        terms(figures),
    ]


def _maps(result: HistoryResult) -> list[Content]:
    """The attention of each model to the same sentence, with the first seed."""
    cells = []
    for key, rows in result.results.items():
        shown = rows[0]["map"]
        weights = np.array(shown["weights"], dtype=float)
        drawing = attention_map(weights, shown["source"], shown["target"]) if weights.size else Html("")
        cells.append(
            element(
                "div",
                element("h3", BY_KEY[key].name),
                element("p", data_text(shown["text"])),
                drawing or element("p", "no attention to show", class_="faint small"),
            )
        )
    return [
        element(
            "p",
            f"“{SENTENCE}” is il m'a entarté: four English words become one French word, and the object moves before "
            f"the verb. Each row is a word that the model has written, each column a word it has read; the darker, the "
            f"larger the weight. Seed {result.seeds[0]}.",
        ),
        element("div", *cells, class_="beside maps"),
    ]


def _verdicts(result: HistoryResult) -> list[Content]:
    parts: list[Content] = []
    for claim, verdict in result.claims:
        checks = [
            (check.what, check.effect.text(), check.rule, element("b", check.outcome)) for check in verdict.checks
        ]
        parts += [
            element("h3", claim),
            element("p", element("b", verdict.outcome), f". {verdict.sentence}"),
            table(("effect", "measured", "predicted", "outcome"), checks),
        ]
    note = (
        "A verdict is about these small models, this task and this number of updates: the papers compared larger "
        "models that were trained for days. An effect counts only if its whole 95 % interval over seeds is on one side."
    )
    return [*parts, element("p", note, class_="faint small")]


def _speed(result: HistoryResult) -> list[Content]:
    note = (
        "Source and target tokens per second of CPU time in training, one thread. These figures depend on the machine "
        "and its load. Everything else on this page is the same whenever the same seeds are run with the same versions "
        "on the same kind of machine."
    )
    return [table_html(result.speed_table()), element("p", note, class_="faint small")]
