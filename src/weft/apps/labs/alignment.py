"""Alignment: does attention find out which words translate each other?

Nobody tells a model which English word a French word comes from; it only sees sentence pairs. Yet an attention that
helps to translate has to look at the right word, so its weights should be a word alignment, for free. The grammar of
this task knows the true links, and the alignment error rate counts disagreements with them (0 % is perfect). The
baseline is the diagonal: the same place in both sentences.

Three things can be chosen. The encoder reads forward only, or in both directions, so that the state of a word knows
what follows. The query is the decoder's state before its step, which has not read the last word yet (Bahdanau), or
after it (Luong). The score is a dot product or additive. All eight combinations are trained. IBM Model 1, fitted to the
same pairs, does nothing but align; it is shown beside them, for the claim is not that attention is the better aligner.

Then comes a doubt: weights that look right need not be what the output depends on. So the weights are permuted while
the model translates. If the output stayed the same, the weights would explain nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs import short_sentences
from weft.apps.labs.intervals import factor, percent, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.ibm1 import diagonal_links, fit_ibm1
from weft.evaluation.statistics import Estimate
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="alignment",
    claim="Attention beats the diagonal; reading both ways and a query after the step align better",
    paper="Bahdanau et al. 2015, section 5.2.1: the weights agree with our intuition about alignment. Luong et al. "
    "2015, table 6: attention aligns nearly as well as the Berkeley Aligner. Jain and Wallace 2019: in text "
    "classification, very different weights often give the same prediction; they did not test translation.",
    trains="LSTMs with attention on sentences of up to six words: two encoders × two queries × two scores, two for "
    "each seed; IBM Model 1 on the same pairs.",
    seconds=120,
    next=(
        "Attention that has learned nothing: weft.labs.alignment(steps=10).",
        "weft lab heads: some heads of a Transformer align better than the mean of all.",
        "Align your own pairs: weft translate RUN --help, see --align.",
    ),
)
DIRECTIONS, QUERIES, SCORES = ("both ways", "forward"), ("after", "before"), ("dot", "additive")
BASELINES = ("the diagonal", "IBM Model 1")


class Condition(NamedTuple):
    """A model; or, without a score, the baselines."""

    direction: str
    query: str
    score: str
    steps: int
    sentences: int

    @property
    def name(self) -> str:
        return f"{self.score}, {self.direction}, {self.query}"


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Alignment error rates and, of a model, exact match and outputs changed by permuted weights, in percent."""
    test = short_sentences.pairs("test", condition.sentences, seed=seed)
    if not condition.score:
        model = fit_ibm1(short_sentences.pairs("train", short_sentences.training_pairs(condition.steps), seed=seed))
        links = zip(BASELINES, (diagonal_links, model.links), strict=True)
        return {name: short_sentences.links_error([align(pair) for pair in test], test) for name, align in links}
    layer = {"kind": "lstm", "hidden": 64}
    encoder = layer | {"bidirectional": condition.direction == "both ways"}
    attention = {"score": condition.score, "placement": condition.query}
    settings = {"bridge": "project", "encoder": encoder, "decoder": layer, "attention": attention}
    run = train_model(short_sentences.settings(settings, steps=condition.steps), seed=seed)
    return {
        "error": short_sentences.attention_error(run, test),
        "exact": short_sentences.exact_match(run, test),
        "permuted": short_sentences.changed(run, test[: condition.sentences // 10], seed),
    }


def alignment(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    scores: Sequence[str] = SCORES,
    steps: int = 300,
    sentences: int = 300,
) -> LabResult:
    """Run the lab. ``scores``: values of model.attention.score; ``sentences``: size of the test set."""
    size = (min(steps, 12), min(sentences, 30)) if quick else (steps, sentences)
    models = [
        Condition(direction, query, score, *size) for score, query, direction in product(scores, QUERIES, DIRECTIONS)
    ]
    baselines = Condition("", "", "", *size)
    trials = run_trials(trial, [*models, baselines], seeds, models=1 if quick else 2)
    errors = {model: trials.values(model, "error") for model in models}
    known = {name: trials.values(baselines, name) for name in BASELINES}
    keys = ("error", "exact", "permuted")
    rows: list[Row] = [(model.name, *(trials.percent(model, key) for key in keys)) for model in models]
    rows += [(name, percent(values), None, None) for name, values in known.items()]
    header = ("score, encoder, query", "alignment error rate (%)", "exact match (%)", "changed by permuted weights (%)")
    names = {**{model.name: values for model, values in errors.items()}, **known}
    best = min(names, key=lambda name: fmean(names[name]))
    title = f"Lowest alignment error rate: {best}, {fmean(names[best]):.1f} %"
    series = (Series("", tuple((index, percent(values)) for index, values in enumerate(names.values()))),)
    chart = Chart("error", title, "model", "alignment error rate (%)", series, categories=tuple(names))
    verdict = judge_alignment(errors, known["the diagonal"], {m: trials.values(m, "permuted") for m in models})
    return LabResult(LAB, verdict, (Table(header, rows),), (chart,), (), trials.seeds, trials.records(), quick)


def judge_alignment(
    errors: Mapping[Any, Sequence[float]], diagonal: Sequence[float], changes: Mapping[Any, Sequence[float]]
) -> Verdict:
    """By condition and model: error rates and outputs changed by permuted weights, in percent."""
    both_ways = [model for model in errors if model.direction == "both ways"]
    effects = {
        "forward / both ways": effect(errors, "direction", DIRECTIONS),
        "query before / after": effect(errors, "query", QUERIES),
    }
    checks = [above(f"ratio of alignment error rates, {name}", value, 1.1) for name, value in effects.items()]
    means = [fmean(rates) for rates in zip(*(errors[model] for model in both_ways), strict=True)]
    gain = points(means, diagonal)
    checks.append(above("alignment error rate of the diagonal less that of attention both ways, in points", gain))
    for model in both_ways:
        share = percent(changes[model])
        checks.append(above(f"outputs changed by permuted weights, {model.name}, in percent", share, 50.0))
    listed = "; ".join(f"{name} {value.text()}" for name, value in effects.items())
    rates = ", ".join(f"{fmean(errors[model]):.1f} ({model.score}, {model.query})" for model in both_ways)
    sentence = f"Ratios of alignment error rates: {listed}. Both ways, the rate is {fmean(means):.1f} %: {rates}; "
    return judge(checks, f"{sentence}that of the diagonal is {fmean(diagonal):.1f} %.")


def effect(errors: Mapping[Any, Sequence[float]], choice: str, levels: tuple[str, str]) -> Estimate:
    """How many times as large the error rate is with the second level of a choice: a geometric mean over the others."""
    logs = {model: [math.log(max(rate, 0.1)) for rate in rates] for model, rates in errors.items()}
    chosen = ([logs[c] for c in errors if getattr(c, choice) == level] for level in levels)
    first, second = ([fmean(seed) for seed in zip(*rows, strict=True)] for rows in chosen)
    return factor([math.exp(after - before) for before, after in zip(first, second, strict=True)])
