"""Search: greedy, beam and exact search look for the output that a model scores highest.

Decoding is a search for the y with the highest log p(y|x) / |y|^α. Greedy search takes the best token at each step,
beam search keeps k hypotheses, and exact search (branch and bound) finds the best output there is and proves it.
Lectures write greedy ≤ beam ≤ exhaustive. Only half of that chain is a theorem: nothing scores above a proven best. A
beam may score below greedy search in a sentence, where it drops the greedy hypothesis for others that look better for a
while; it wins on average. And a better search is not a better output: with α = 0 every token lowers log p(y|x), so the
output with the highest score is often too short, or empty; normalization by length (α = 1) mends that.

A model that sorts letters is trained briefly, so that it is unsure, and decoded in five ways under both scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import weft
from weft.apps.labs.intervals import nonnegative, percent
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, always, judge
from weft.evaluation.statistics import difference, number, t_interval
from weft.pictures.charts import Chart, Series, Table
from weft.tasks import generate

LAB = Lab(
    name="search",
    claim="Nothing beats exact search in any sentence; a beam beats greedy search only on average",
    paper="Stahlberg & Byrne 2019, a Transformer for WMT15 English–German: even a beam of 100 misses the best score in "
    "most sentences, and for more than half of the sentences the best output is the empty one.",
    trains="A small GRU with attention that sorts up to 16 letters, stopped early so that it is unsure.",
    seconds=40,
    next=("Compare outputs by a score other than that of their search: weft.labs.search(compared_by=1).",),
)
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"kind": "greedy"},
    "beam of 2": {"kind": "beam", "size": 2},
    "beam of 5": {"kind": "beam", "size": 5},
    "beam of 20": {"kind": "beam", "size": 20},
    "exact": {"kind": "exact", "max_nodes": 5_000},
}
MEASURES = ("score above greedy", "% below greedy", "length, % of reference", "empty, %", "exact match, %")
GAIN, WORSE, LENGTH, EMPTY, EXACT = MEASURES
INTERVALS = {GAIN: t_interval, LENGTH: nonnegative}
TASK: dict[str, Any] = {"length": 16, "symbols": 8}
LIMITS: dict[str, Any] = {"max_ratio": 1, "max_extra": 4, "no_loops": False}  # short: proofs take time
TOLERANCE = 1e-4  # scores that differ by less are equal


class Condition(NamedTuple):
    """Training steps, test sentences, and the α of comparisons; None: that of the search."""

    steps: int
    sentences: int
    compared_by: float | None


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """The outputs of every search under both values of α."""
    layer = {"kind": "gru", "hidden": 48}
    settings = {
        "data": {"train": "sort", "train_size": 32 * condition.steps, "options": TASK},
        "tokenizer": {"kind": "word"},
        "model": {"embedding": 48, "encoder": layer, "decoder": layer},
        "training": {"steps": condition.steps, "batch_tokens": 1_000, "learning_rate": 0.004, "warmup": 50},
    }
    run = train_model(settings, seed=seed)
    pairs = list(generate("sort", "test", condition.sentences, seed=seed, options=TASK))
    sources, words = [pair.source for pair in pairs], sum(len(pair.target.split()) for pair in pairs)
    result: dict[str, Any] = {"violations": 0, "cases": 0, "example": ""}
    for alpha in (0, 1):
        outputs = {
            name: run.translate(sources, length_penalty=alpha, return_attention=False, **LIMITS, **search)
            for name, search in SEARCHES.items()
        }
        for name, texts in outputs.items():
            compared_by = alpha if condition.compared_by is None else condition.compared_by
            result[f"{name}, α = {alpha}"] = _compare(name, outputs, compared_by, result) | {
                LENGTH: 100 * sum(len(output.ids) for output in texts) / words,
                EMPTY: 100 * fmean(not output.ids for output in texts),
                EXACT: 100 * fmean(output.text == pair.target for output, pair in zip(texts, pairs, strict=True)),
            }
    return result


def _compare(
    name: str, outputs: dict[str, list[weft.Translation]], alpha: float, result: dict[str, Any]
) -> dict[str, float]:
    """Scores relative to greedy search; counts what scores above a proven best. What was cut off is left out."""
    gains = []
    for output, greedy, best in zip(outputs[name], outputs["greedy"], outputs["exact"], strict=True):
        score, bar, top = (one.log_probability / (len(one.ids) + 1) ** alpha for one in (output, greedy, best))
        if output.ended == "end" and best.proven and name != "exact":
            result["cases"] += 1
            result["violations"] += score > top + TOLERANCE
        if output.ended == greedy.ended == "end":
            gains.append(score - bar)
            if score < bar - TOLERANCE and not result["example"]:
                texts = f"{greedy.source} → {output.text} ({number(score)}); greedy {greedy.text} ({number(bar)})"
                result["example"] = f"{name}, α = {alpha:g}, {texts}"
    worse = sum(gain < -TOLERANCE for gain in gains)
    return {GAIN: sum(gains) / max(len(gains), 1), WORSE: 100 * worse / max(len(gains), 1)}


def search(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, steps: int = 120, sentences: int = 150,
    compared_by: float | None = None,
) -> LabResult:  # fmt: skip
    """Run the lab. ``compared_by``: the α that scores are compared by; None: that of the search."""
    condition = Condition(steps, sentences // 5 if quick else sentences, compared_by)
    trials = run_trials(trial, [condition], seeds)
    rows = [f"{name}, α = {alpha}" for alpha in (0, 1) for name in SEARCHES]
    results = {row: trials.values(condition, row) for row in rows}
    values = {row: {name: [result[name] for result in results[row]] for name in MEASURES} for row in rows}
    lengths, half = [nonnegative(values[row][LENGTH]) for row in rows], len(SEARCHES)
    series = tuple(Series(f"α = {x}", tuple(enumerate(lengths[x * half :][:half]))) for x in (0, 1))
    title = f"With α = 0, the best outputs have {lengths[half - 1].mean:.0f} % of the reference's length"
    chart = Chart("length", title, "search", "length (% of the reference)", series, categories=tuple(SEARCHES))
    counts = [sum(trials.values(condition, name)) for name in ("violations", "cases")]
    notes = (
        "Correction of greedy ≤ beam ≤ exhaustive: its first half is true on average, not of every sentence.",
        *(f"A sentence: {example}." for example in trials.values(condition, "example")[:1] if example),
        "Outputs that the length limit cut off are left out where scores are compared.",
    )
    cells = ([INTERVALS.get(name, percent)(v) for name, v in values[row].items()] for row in rows)
    table = Table(("search", *MEASURES), [(row, *estimates) for row, estimates in zip(rows, cells, strict=True)])
    verdict = judge_searches(values, *counts)
    return LabResult(LAB, verdict, (table,), (chart,), notes, trials.seeds, trials.records(), quick)


def judge_searches(values: dict[str, dict[str, list[float]]], violations: int, cases: int) -> Verdict:
    """``values``: measurements of each search, by seed; ``violations``: outputs that score above the proven best."""
    gain, worse = t_interval(values["beam of 5, α = 0"][GAIN]), percent(values["beam of 2, α = 0"][WORSE])
    longer = difference(values["exact, α = 0"][LENGTH], values["exact, α = 1"][LENGTH])
    sentence = (
        f"{violations:,} of {cases:,} outputs of greedy and beam search score above the proven best. A beam of 5 "
        f"changes log p by {gain.text()} on average; a beam of 2 scores below greedy search in {worse.text('%')} of "
        f"the sentences. Normalization changes the length of the best outputs by {longer.text('%')} of the reference."
    )
    checks = [
        always("outputs of greedy and beam search that score above the proven best", violations, cases),
        above("mean gain of a beam of 5 over greedy search, in log p", gain),
        above("sentences in which a beam of 2 scores below greedy search, in %", worse, 1.0),
        above("what normalization adds to the length of the best outputs, in % of the reference", longer),
    ]
    return judge(checks, sentence)
