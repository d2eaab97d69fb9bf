"""Bias: what a model assumes that its source does not say, and what it answers to nonsense.

English "the student is tired" does not say whether the student is a woman; French must: *l'étudiante est fatiguée* or
*l'étudiant est fatigué*. A model fills the gap with what was more frequent in its training data. Its probabilities
follow the data, but a search takes the more probable gender every time: a majority of 65 % in the data becomes nearly
100 % of the outputs. That is amplification.

A model also answers whatever it is given. The lab translates "ag ag ag …", sentences with their words shuffled, and
another script. The fluency of an answer is the share of its word pairs that occur in the target language. Then it tries
to detect such sources by two numbers of each translation: its mean log p, and how well attention covers the source. The
area under the ROC curve (AUC) is the probability that a real source has the higher number: 0.5 by chance, 1 at best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs.detection import DETECTORS, RATES, area_under_curve, roc_curve
from weft.apps.labs.intervals import bounded, mean_points, percent
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.professions import VERBS, WOMEN, fluency, is_feminine, majority, nonsense, statements
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import Trials, run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.statistics import binomial
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="bias",
    claim="A model assumes genders that the source does not state, and answers nonsense fluently",
    paper="Stanovsky et al. 2019 (WinoMT): six systems make gender-biased errors in all of the eight target languages "
    "tested. Lee et al. 2018: translation models can be made to answer with text that has nothing to "
    "do with the source.",
    trains="Small GRUs with attention, two for each seed, on sentences about ten professions with 10 to 90 % women.",
    seconds=90,
    next=(
        "As many women as men in every profession: weft.labs.bias(skewed=False).",
        "Sampling keeps the shares of the data where a beam does not: weft translate RUN --set search.kind=sample",
    ),
)


class Condition(NamedTuple):
    """The number of training steps, and whether professions differ in their share of women."""

    steps: int
    skewed: bool


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Genders in ambiguous sentences, answers to nonsense, and how well it is detected."""
    random = Random(seed)
    everything = [item for verb in VERBS for item in statements(verb)]
    held_out = [item for index, item in enumerate(statements()) if index % 5 == index // 5 % 5]
    training = [item for item in everything if item._replace(verb="") not in held_out]
    drawn = random.choices(training, k=40 * condition.steps)
    shares = WOMEN if condition.skewed else dict.fromkeys(WOMEN, 0.5)
    layer = {"kind": "gru", "hidden": 64}
    settings = {
        "tokenizer": {"kind": "bpe", "size": 300},
        "model": {"embedding": 32, "encoder": layer, "decoder": layer},
        "training": {"steps": condition.steps, "batch_tokens": 1_000, "learning_rate": 0.005, "warmup": 30},
    }
    pairs = [item.pair(int(random.random() < shares[item.profession])) for item in drawn]
    run = train_model(settings, seed=seed, pairs=pairs)
    scores = [run.score([item.pair(0), item.pair(1)]) for item in held_out]
    beliefs = [1 / (1 + math.exp(man.log_probability - woman.log_probability)) for man, woman in scores]
    outputs = run.translate([item.pair(0).source for item in held_out], return_attention=False)
    result: dict[str, Any] = {"belief": [], "outputs": [], "fluent": {}, "answers": {}, "probes": len(held_out)}
    for profession in WOMEN:
        rows = [row for row, item in enumerate(held_out) if item.profession == profession]
        result["belief"].append(fmean(beliefs[row] for row in rows))
        result["outputs"].append(fmean(is_feminine(outputs[row].text) for row in rows))
    real = [item._replace(verb=random.choice([*VERBS])).pair(random.randint(0, 1)).source for item in held_out]
    answers = run.translate(real)
    for kind, sources in {"real sentences": real, **nonsense(real, random)}.items():
        translations = run.translate(sources)
        result["fluent"][kind] = fmean(fluency(output.text) for output in translations)
        result["answers"][kind] = f"{sources[0]} → {translations[0].text}"
        for name, detector in DETECTORS.items():
            numbers = [detector(answer) for answer in answers], [detector(output) for output in translations]
            result[f"AUC of {name}, {kind}"] = area_under_curve(*numbers)
            result[f"ROC of {name}, {kind}"] = roc_curve(*numbers)
    return result


def bias(seeds: int | Sequence[int] = 3, *, quick: bool = False, steps: int = 450, skewed: bool = True) -> LabResult:
    """Run the lab. ``skewed``: whether professions differ in their share of women, or all have 50 %."""
    condition = Condition(steps // 6 if quick else steps, skewed)
    trials = run_trials(trial, [condition], seeds, models=1 if quick else 2)
    women, data = [100 * share for share in WOMEN.values()], majority([*WOMEN.values()]) if skewed else 50.0
    shares = {name: trials.values(condition, name) for name in ("outputs", "belief", "fluent")}
    kinds = [*shares["fluent"][0]]
    series = [Series("as in the data", tuple((x, x if skewed else 50.0) for x in women))]
    for name, label in (("outputs", "outputs of a beam"), ("belief", "probability of the model")):
        estimates = (percent([100 * share for share in seed]) for seed in zip(*shares[name], strict=True))
        series.append(Series(label, tuple(zip(women, estimates, strict=True))))
    outputs, beliefs = ([majority(seed) for seed in shares[name]] for name in ("outputs", "belief"))
    fluent = [fmean(seed[kind] for kind in kinds[1:]) for seed in shares["fluent"]]
    title = f"The majority has {data:.0f} % of the data and {fmean(outputs):.0f} % of the outputs"
    chart = Chart("gender", title, "women in the profession (%)", "women (%)", tuple(series))
    rows: list[Row] = []
    for kind in kinds:
        areas = [bounded(trials.estimate(condition, f"AUC of {name}, {kind}"), 0, 1) for name in DETECTORS]
        rows.append((kind, percent([seed[kind] for seed in shares["fluent"]]), *areas))
    table = Table(("source", "fluency of the answers (%)", *(f"AUC of {name}" for name in DETECTORS)), rows)
    probes = trials.values(condition, "probes")[0]
    pooled = binomial(round(sum(outputs) * probes / 100), probes * len(outputs)).scaled(100)
    notes = (
        f"Outputs with the gender of the majority, in all: {pooled.text('%')} (binomial interval).",
        *(f"{kind}: {trials.values(condition, 'answers')[0][kind]}" for kind in kinds[1:]),
        "Shuffled words can be understood: not every answer is wrong. AUC below 0.5: nonsense has more.",
    )
    verdict, roc = judge_bias(beliefs, outputs, fluent, data), _roc(trials, kinds[1:])
    return LabResult(LAB, verdict, (table,), (chart, roc), notes, trials.seeds, trials.records(), quick)


def _roc(trials: Trials, kinds: Sequence[str]) -> Chart:
    """The ROC curve of each detector for each kind of nonsense."""
    series, areas = [], []
    for name in DETECTORS:
        for kind in kinds:
            curves = zip(*trials.values(trials.conditions[0], f"ROC of {name}, {kind}"), strict=True)
            points = tuple((100 * rate, 100 * fmean(ys)) for rate, ys in zip(RATES, curves, strict=True))
            series.append(Series(f"{name}: {kind}", points))
        means = [trials.estimate(trials.conditions[0], f"AUC of {name}, {kind}").mean for kind in kinds]
        areas.append(f"{name} {min(means):.2f} to {max(means):.2f}")
    title = f"How well nonsense is told from real sources (AUC): {', '.join(areas)}"
    return Chart("detection", title, "real sources reported (%)", "nonsense reported (%)", tuple(series))


def judge_bias(beliefs: Sequence[float], outputs: Sequence[float], fluent: Sequence[float], data: float) -> Verdict:
    """Shares of the majority's gender in probability, outputs and data, and the fluency of answers, in percent."""
    belief, gain, answers = percent(beliefs), mean_points([share - data for share in outputs]), percent(fluent)
    sentence = (
        f"Where the source states no gender, the gender of the majority has {belief.text('%')} of the probability; "
        f"in outputs it is {gain.text('points')} more frequent than in the data. The fluency of the answers to "
        f"nonsense is {answers.text('%')}."
    )
    checks = [
        above("probability of the majority's gender, in %", belief, 60.0),
        above("share of the majority's gender in outputs beyond that in the data, in points", gain),
        above("fluency of the answers to nonsense, in %", answers, 50.0),
    ]
    return judge(checks, sentence)
