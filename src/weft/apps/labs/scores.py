"""Scores: six ways to compare a query with a key, on one task.

Attention weights are a softmax over scores e_j = score(q, k_j), and the score is a choice. A dot product q·k_j has no
parameters; divided by √d it is that of the Transformer. The general score qᵀ W k_j learns which dimensions belong
together, and additive and concat have a hidden layer, vᵀ tanh(W₁ k_j + W₂ q). Does the choice matter?

The lab trains the same small LSTM with each of the six scores, on short English sentences and their French
translations, and measures two things: how many unseen sentences are translated without any error, and how well the
attention agrees with the known word links (alignment error rate, lower is better). Each score has the learning rate
that was best for it on other seeds. Six scores are fifteen pairs, so some pair differs by chance: an order is stated
only where the difference exceeds Tukey's honestly significant difference over the seeds. And one score that has learned
too little would make the largest difference alone: without the worst score, there must still be one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs import short_sentences
from weft.apps.labs.comparisons import honest_difference, largest_difference, order_text
from weft.apps.labs.intervals import bounded, percent
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.statistics import Estimate, number
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="scores",
    claim="The score matters: six scores, and five without the worst, differ in accuracy and in alignment",
    paper="Luong et al. 2015, tables 4 and 6: dot works well with global attention and general with local attention, "
    "concat did worse; the attention of their best models has an alignment error rate of 34 %, against 32 % of the "
    "Berkeley Aligner. Vaswani et al. 2017, section 3.2.1: dot and additive are similar for small d.",
    trains="LSTMs of 64 units with each of six scores, for 350 steps on English sentences of three to six words.",
    seconds=100,
    next=(
        "Two more scores: weft.labs.scores(scores=('dot', 'cosine', 'additive')).",
        "Is scaled_dot worse, or only slower? Run it with steps=1000.",
        "weft lab scaling: what 1/√d is for, and why it does not apply to the bounded states of an LSTM.",
    ),
)
SCORES = {
    "dot": "q·k",
    "scaled_dot": "q·k / √d",
    "general": "qᵀWk",
    "scaled_general": "qᵀWk / √d",
    "concat": "vᵀ tanh(W[q; k])",
    "additive": "vᵀ tanh(W₁k + W₂q)",
}
RATES = dict.fromkeys(SCORES, 0.04)
"""Learning rates, each the best of 0.01, 0.02, 0.04 and 0.08 in exact match on seeds 11 and 12."""
EXACT, ERROR = "exact match", "alignment error rate"


class Condition(NamedTuple):
    """A model with one score."""

    score: str
    steps: int
    sentences: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Exact match and alignment error rate on unseen sentences, in percent."""
    layer = {"kind": "lstm", "hidden": 64}
    model = {"encoder": layer, "decoder": layer, "attention": {"score": condition.score}}
    rate = RATES.get(condition.score, 0.04)
    run = train_model(short_sentences.settings(model, steps=condition.steps, learning_rate=rate), seed=seed)
    test = short_sentences.pairs("test", condition.sentences, seed=seed)
    return {
        EXACT: short_sentences.exact_match(run, test),
        ERROR: short_sentences.attention_error(run, test),
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
    }


def scores(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    scores: Sequence[str] = tuple(SCORES),
    steps: int = 350,
    sentences: int = 300,
) -> LabResult:
    """Run the lab. ``scores``: values of model.attention.score to compare; ``sentences``: size of the test set."""
    conditions = [
        Condition(score, min(steps, 15) if quick else steps, min(sentences, 30) if quick else sentences)
        for score in scores
    ]
    trials = run_trials(trial, conditions, seeds)
    exact = {condition.score: trials.values(condition, EXACT) for condition in conditions}
    error = {condition.score: trials.values(condition, ERROR) for condition in conditions}
    rows: list[Row] = [
        (
            name,
            SCORES.get(name, ""),
            trials.values(condition, "parameters")[0],
            percent(exact[name]),
            percent(error[name]),
        )
        for name, condition in zip(scores, conditions, strict=True)
    ]
    table = Table(("score", "formula", "parameters", f"{EXACT} (%)", f"{ERROR} (%)"), rows)
    verdict, charts, notes = judge_scores(exact, error), (_chart(exact, error),), _orders(exact, error)
    return LabResult(LAB, verdict, (table,), charts, notes, trials.seeds, trials.records(), quick)


def judge_scores(exact: Mapping[str, Sequence[float]], error: Mapping[str, Sequence[float]]) -> Verdict:
    """Whether some scores differ beyond noise, by more than five points of either measure, also without the worst."""
    measures = ((EXACT, exact, min), (ERROR, error, max))
    checks, findings = [], []
    for name, values, worst in measures:
        means = {score: fmean(row) for score, row in values.items()}
        left_out = worst(means, key=means.__getitem__)
        others = {score: row for score, row in values.items() if score != left_out}
        for which, rows in (("", values), (" without the worst", others)):
            checks.append(above(f"largest difference of two scores in {name}{which}, in points", spread(rows), 5.0))
        findings.append(
            f"{spread(values).text('points')} of {name} (without {left_out}, {spread(others).text('points')})"
        )
    return judge(checks, f"The best and the worst score differ by {' and by '.join(findings)}.")


def spread(values: Mapping[str, Sequence[float]]) -> Estimate:
    """The largest mean less the smallest, with its simultaneous interval; unknown of fewer than two scores."""
    if len(values) < 2:
        return Estimate(0.0, -math.inf, math.inf)
    return bounded(largest_difference(values), -100.0, 100.0)


def _orders(exact: Mapping[str, Sequence[float]], error: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """The orders that are beyond noise."""
    return tuple(
        f"Order in {name} beyond noise (differences above {number(honest_difference(values))} points): "
        f"{order_text(values)}."
        for name, values in ((EXACT, exact), (ERROR, error))
    )


def _chart(exact: Mapping[str, Sequence[float]], error: Mapping[str, Sequence[float]]) -> Chart:
    series = tuple(
        Series(name, tuple((index, percent(row)) for index, row in enumerate(values.values())))
        for name, values in ((EXACT, exact), (ERROR, error))
    )
    title = f"Scores on one task: exact match differs by up to {spread(exact).mean:.0f} points"
    return Chart("accuracy", title, "score", "percent", series, categories=tuple(exact))
