"""States: number, gender, tense and negation of a clause, told by linear probes from the states of a model.

The sentences are English clauses of the built-in grammar, whose subjects are nouns. A probe for each property and layer
is fitted to the states after the last word of one half of the sentences and tested on the other half, so whatever it
tells has been kept since the word that states it. Two controls stand beside it: the share of the most frequent class,
and a probe for labels that are drawn at random for each subject, which it can only learn by heart; the difference to
that one is called selectivity (Hewitt & Liang 2019). Texts of one's own are lines of text, label and, if the property
is stated before the last word, the number of the word that states it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.apps.probes.layer_states import control_labels, fit_probe, layer_states, linear_probe, word_ends
from weft.apps.probes.result import ProbeResult
from weft.errors import DataError, SearchError
from weft.evaluation.statistics import Estimate, binomial
from weft.pictures.charts import Chart, Row, Series, Table
from weft.tasks import grammar
from weft.tasks.grammar.clauses import human_clause
from weft.tasks.grammar.lexicon import PEOPLE
from weft.tasks.grammar.phrases import noun_phrase, pick
from weft.tasks.grammar.realization import noun_phrase as realize_noun_phrase

if TYPE_CHECKING:
    from torch import Tensor

    from weft.translation.translator import Translator

MIN_TEXTS = 20
MAX_CLASSES = 20
FARTHEST = 6
"""Words after the one that states a property; those further on are counted together."""


class LabeledText(NamedTuple):
    """A text whose property is known."""

    text: str
    labels: dict[str, str]
    """By property."""
    stated: int
    """The number of the word, from 0, that states the properties, or with which they begin to be stated."""
    subject: str
    """The word of the control: for each one, its labels are drawn at random."""


def labeled_sentences(count: int, seed: int = 1) -> list[LabeledText]:
    """Clauses of the built-in grammar, all of them different; no *his* or *her* in them states a gender again."""
    random = Random(f"states {seed}")
    texts: dict[str, LabeledText] = {}
    while len(texts) < count:
        subject = noun_phrase(random, pick(random, PEOPLE), 0.5, without="complements")
        clause = human_clause(random, subject, random.random() < 0.5, 1.0)
        text = grammar.pair(clause).source
        words: list[str] = []
        realize_noun_phrase(words, subject)
        labels = {
            "number": "plural" if subject.plural else "singular",
            "gender": "feminine" if subject.noun.gender == "f" else "masculine",
            "tense": "past" if clause.tense in ("past", "wanted to") else "present or future",
            "negation": "negated" if clause.negation else "affirmed",
        }
        name = subject.noun.plural if subject.plural else subject.noun.english
        if len(text.split()) > len(words) + 1 and not {"his", "her"} & {*text.split()}:
            texts.setdefault(text, LabeledText(text, labels, len(words) - 1, name))
    return list(texts.values())


def read_labeled(path: Path) -> list[LabeledText]:
    """A file of lines: text, tab, label and, after another tab, the number (from 1) of the word that states it."""
    from weft.data.reading.lines import read_lines

    texts = []
    for number, line in enumerate(read_lines(path), 1):
        text, *cells = line.split("\t")
        words = text.split()
        if not words or len(cells) not in (1, 2) or not cells[0].strip():
            raise DataError(f"{path}:{number}: expected a text, a tab and a label; perhaps a tab and a word number")
        word = cells[1].strip() if len(cells) == 2 else str(len(words))
        if not (word.isascii() and word.isdecimal() and 1 <= int(word[:9]) <= len(words)):
            raise DataError(f"{path}:{number}: word {word[:20]!r}; expected a number from 1 to {len(words)}")
        texts.append(LabeledText(text, {path.stem: cells[0].strip()}, int(word) - 1, words[int(word) - 1]))
    return texts


def states(
    run: Translator | Path | str,
    texts: Sequence[LabeledText] | Path | str | None = None,
    *,
    limit: int = 2_000,
    seed: int = 1,
) -> ProbeResult:
    """How well linear probes tell properties of a text from the states of each layer, after its last word.

        weft.probes.states("runs/try").data["properties"]["gender"]

    ``run``: a run of `weft.load`, or its folder; a model with an encoder of one source column, or a language model.
    ``texts``: labeled texts, or a file of them; by default clauses of the built-in grammar, for models that read its
    English. ``limit``: number of texts. ``seed``: of these clauses, and of the labels of the control.
    """
    if limit < MIN_TEXTS:
        raise DataError(f"limit: {limit}; expected at least {MIN_TEXTS} texts, half of them to fit a probe")
    if texts is None:
        given = labeled_sentences(limit, seed)
    else:
        given = read_labeled(Path(texts)) if isinstance(texts, str | Path) else list(texts)
        Random(seed).shuffle(given)
        given = given[:limit]
    _check_labels(given)
    from weft.evaluation.evaluate import loaded_run

    run = loaded_run(run)
    read = layer_states(run, [item.text for item in given])
    ends = [word_ends(tokens, item.text) for tokens, item in zip(read.tokens, given, strict=True)]
    kept = [index for index, positions in enumerate(ends) if positions is not None]
    if len(kept) < MIN_TEXTS:
        raise SearchError(
            f"{run.recipe.name}: its tokens spell {len(kept)} of {len(given)} texts ({given[0].text!r}); expected at "
            f"least {MIN_TEXTS}: probe it with texts that it can read"
        )
    used = [given[index] for index in kept]
    by_layer = {
        name: [rows[index][ends[index]] for index in kept]  # a state after each word
        for name, rows in read.layers.items()
    }
    measured = {name: _measure(used, name, by_layer, seed) for name in used[0].labels}
    return _result(measured, used, len(given))


def _check_labels(texts: Sequence[LabeledText]) -> None:
    """Fail if there is too little to fit a probe to, and to test it."""
    if len(texts) < MIN_TEXTS:
        raise DataError(f"{len(texts)} texts; expected at least {MIN_TEXTS}, half of them to fit a probe")
    for name in texts[0].labels:
        classes = {text.labels[name] for text in texts}
        if not 2 <= len(classes) <= MAX_CLASSES:
            raise DataError(f"{name}: {len(classes)} different labels; expected 2 to {MAX_CLASSES}")


def _measure(texts: Sequence[LabeledText], name: str, by_layer: dict[str, list[Tensor]], seed: int) -> dict[str, Any]:
    """One property: by layer, and at the top layer by the words since it was stated."""
    classes = sorted({text.labels[name] for text in texts})
    labels = [classes.index(text.labels[name]) for text in texts]
    control = control_labels([text.subject for text in texts], len(classes), seed)
    tested = labels[len(labels) // 2 :]
    layers = {}
    for layer, rows in by_layer.items():
        last = [row[-1] for row in rows]
        told = linear_probe(last, labels)
        share = binomial(round(told * len(tested) / 100), len(tested)).scaled(100)
        layers[layer] = {"told": told, "interval": [share.low, share.high], "control": linear_probe(last, control)}
    most = 100 * Counter(tested).most_common(1)[0][1] / len(tested)
    distances = _by_distance(texts, labels, [*by_layer.values()][-1])
    return {"classes": classes, "most_frequent": most, "layers": layers, "words_since": distances}


def _by_distance(texts: Sequence[LabeledText], labels: Sequence[int], rows: Sequence[Tensor]) -> dict[int, float]:
    """The percentage told after 0, 1, … words more than the one that states it, by one probe for all of them."""
    half = len(texts) // 2
    states: list[Tensor] = []
    targets: list[int] = []
    distances: list[int] = []
    fitted = 0
    for index, (text, label, row) in enumerate(zip(texts, labels, rows, strict=True)):
        fitted = len(states) if index == half else fitted
        since = row[text.stated :]
        states += since.unbind(0)
        targets += [label] * len(since)
        distances += [min(distance, FARTHEST) for distance in range(len(since))]
    right = fit_probe(states[:fitted], targets[:fitted]).right(states[fitted:], targets[fitted:])
    by_distance: dict[int, list[bool]] = {}
    for distance, is_right in zip(distances[fitted:], right, strict=True):
        by_distance.setdefault(distance, []).append(is_right)
    return {distance: 100 * sum(by_distance[distance]) / len(by_distance[distance]) for distance in sorted(by_distance)}


def _result(measured: dict[str, dict[str, Any]], texts: Sequence[LabeledText], given: int) -> ProbeResult:
    data = {"texts": len(texts), "properties": measured, "example": texts[0]._asdict()}
    layers = [*next(iter(measured.values()))["layers"]]
    rows: list[Row] = []
    for name, values in measured.items():
        for layer, numbers in values["layers"].items():
            by_heart = numbers["control"]
            rows.append(
                (f"{name}, {layer}", _estimate(numbers), values["most_frequent"], by_heart, numbers["told"] - by_heart)
            )
    tables = [Table(("after the last word", "told (%)", "most frequent (%)", "control (%)", "selectivity"), rows)]
    distances = sorted({distance for values in measured.values() for distance in values["words_since"]})
    if len(distances) > 1:
        later: list[Row] = [
            (f"{distance} or more" if distance == FARTHEST else str(distance),
             *(values["words_since"].get(distance) for values in measured.values()))
            for distance in distances
        ]  # fmt: skip
        header = ("words since it was stated", *(f"{name} (%)" for name in measured))
        tables.append(Table(header, later, f"Told from {layers[-1]}, by one probe for all places"))
    chart = _chart(measured, layers, distances)
    half = len(texts) // 2
    notes = [f"Fitted to {half} texts, tested on {len(texts) - half}; intervals of 95 % over texts."]
    if len(texts) < given:
        notes.append(f"{given - len(texts)} texts were left out: the model's tokens do not spell them.")
    notes.append("Control: labels drawn at random for each subject, learned by heart. Selectivity: told less control.")
    return ProbeResult("states", data, tuple(tables), chart, tuple(notes))


def _chart(measured: dict[str, dict[str, Any]], layers: list[str], distances: list[int]) -> Chart:
    """Told from the top layer by the words since it was stated; if these are 0 in all texts, told by layer."""
    top = layers[-1]
    told = ", ".join(f"{name} {values['layers'][top]['told']:.0f} %" for name, values in measured.items())
    title = f"Told from {top} after the last word: {told}"
    if len(distances) > 1:
        lines = tuple(Series(name, tuple(values["words_since"].items())) for name, values in measured.items())
        return Chart("states", title, "words since it was stated (the last point: or more)", "told (%)", lines)
    series = tuple(
        Series(name, tuple((row, _estimate(values["layers"][layer])) for row, layer in enumerate(layers)))
        for name, values in measured.items()
    )
    return Chart("states", title, "state", "told (%)", series, categories=tuple(layers))


def _estimate(numbers: dict[str, Any]) -> Estimate:
    return Estimate(numbers["told"], *numbers["interval"])
