"""Heads: which heads of a Transformer are needed?

A Transformer has many attention heads: in the encoder (the source over itself), in the decoder (the target over its
past) and between the two (cross-attention). To remove a head from a trained model, its weights are set to zero, so that
it adds nothing to the output of its layer (`Translator.with_edits`); nothing is trained again.

The lab removes every head by itself and counts those whose removal costs less than one point of exact match. Then it
removes heads together: the least important first and, for comparison, the most important first. What a head is worth is
found on other sentences than those of the measurement, by their probability without it; otherwise heads would be chosen
for their luck. If all heads were equally important, both orders would do the same damage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs import short_sentences
from weft.apps.labs.intervals import mean_points, percent
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.statistics import Estimate
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="heads",
    claim="Heads specialize: a few do the work, and most can be removed one at a time at no cost",
    paper="Voita et al. 2019: 38 of the 48 encoder heads of an English–Russian model can be pruned for 0.15 BLEU, the "
    "specialized ones last. Michel et al. 2019: a large share of heads can be removed after training without a "
    "significant loss; encoder–decoder attention depends most on having several.",
    trains="Transformers with 2 + 2 layers of 8 heads, for 700 steps on English sentences of three to six words.",
    seconds=100,
    next=(
        "One head for each attention: weft.labs.heads(heads=1, layers=1).",
        "See what heads attend to: weft train grammar-transformer, then weft attend with --heads.",
    ),
)
KINDS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
USABLE = 50.0
"""Exact match below which a model has not learned enough to tell which heads it needs."""
MEASURES = {"exact": short_sentences.exact_match, "error": short_sentences.attention_error}
PERCENT = (0.0, 12.5, 25.0, 37.5, 50.0, 75.0)  # of the heads, removed together
HALF = PERCENT.index(50.0)


class Condition(NamedTuple):
    heads: int
    layers: int
    steps: int
    sentences: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Exact match and alignment error rate in percent: with all heads, without each, and without several."""
    from weft.attention.edits import AttentionEdits, Head

    stack = {"kind": "transformer", "layers": condition.layers, "hidden": 64, "heads": condition.heads}
    stack |= {"feed_forward": 128, "attention_dropout": 0.1}
    model = {"tie": "target", "encoder": stack, "decoder": stack}
    run = train_model(short_sentences.settings(model, steps=condition.steps, learning_rate=0.008), seed=seed)
    test = short_sentences.pairs("test", condition.sentences, seed=seed)
    other = short_sentences.pairs("valid", condition.sentences, seed=seed)
    heads = [Head(head.kind, head.layer, head.head) for head in run.heads(test[0].source, test[0].target)]

    def without(removed: Sequence[Head]) -> Any:
        return run.with_edits(AttentionEdits(heads_off=tuple(removed)))

    exact = short_sentences.exact_match(run, test)
    likelihood = {head: sum(score.log_probability for score in without([head]).score(other)) for head in heads}
    least = sorted(heads, key=lambda head: -likelihood[head])
    removed = {"least": least, "most": least[::-1]}
    counts = [round(percent / 100 * len(heads)) for percent in PERCENT]
    curves = {
        f"{name} {order}": [measure(without(removed[order][:count]), test) for count in counts]
        for order in removed
        for name, measure in MEASURES.items()
    }
    costs = [exact - short_sentences.exact_match(without([head]), test) for head in heads]
    return {"exact": exact, "heads": [str(head) for head in heads], "costs": costs, **curves}


def heads(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    heads: int = 8,
    layers: int = 2,
    steps: int = 700,
    sentences: int = 500,
) -> LabResult:
    """Run the lab. ``heads``: per attention; ``layers``: per stack; ``sentences``: size of the test set."""
    condition = Condition(2, 1, min(steps, 100), 40) if quick else Condition(heads, layers, steps, sentences)
    trials = run_trials(trial, [condition], seeds)
    results = trials.results[condition]
    verdict, tables, charts, notes = judge_heads(results), (_kinds(results),), (_chart(results),), (_note(results),)
    return LabResult(LAB, verdict, tables, charts, notes, trials.seeds, trials.records(), quick)


def judge_heads(results: Sequence[dict[str, Any]]) -> Verdict:
    """Whether most heads can be removed alone, and whether it matters which are removed together."""
    free = percent([removable(result["costs"]) for result in results])
    gap = mean_points([result["exact least"][HALF] - result["exact most"][HALF] for result in results])
    if min(result["exact"] for result in results) < USABLE:
        free, gap = (Estimate(effect.mean, -math.inf, math.inf) for effect in (free, gap))
    return judge(
        [
            above("heads that can be removed alone for less than 1 point, in percent", free, 50.0),
            above("cost of removing the most instead of the least important half, in points", gap, 10.0),
        ],
        f"{free.text('%')} of the heads can be removed alone for less than 1 point of exact match; removing the most "
        f"important half together costs {gap.text('points')} more than removing the least important half.",
    )


def removable(costs: Sequence[float]) -> float:
    """The percentage of heads whose removal costs less than one point of exact match."""
    return 100 * sum(cost < 1.0 for cost in costs) / len(costs)


def _kinds(results: Sequence[dict[str, Any]]) -> Table:
    """The importance of single heads of each attention."""
    rows: list[Row] = []
    for kind, name in KINDS.items():
        costs = [[c for head, c in zip(r["heads"], r["costs"], strict=True) if head.startswith(kind)] for r in results]
        mean, largest = (mean_points([measure(row) for row in costs]) for measure in (fmean, max))
        rows.append((name, len(costs[0]), percent([removable(row) for row in costs]), mean, largest))
    return Table(("attention", "heads", "removable alone (%)", "mean cost (points)", "largest cost (points)"), rows)


def _chart(results: Sequence[dict[str, Any]]) -> Chart:
    free = fmean(removable(result["costs"]) for result in results)
    title = f"{free:.0f} % of the heads can each be removed alone for less than 1 point"
    curves = {order: tuple(zip(PERCENT, _means(results, f"exact {order}"), strict=True)) for order in ("least", "most")}
    series = tuple(Series(f"{order} important first", points) for order, points in curves.items())
    return Chart("removal", title, "heads removed together (%)", "exact match (%)", series)


def _means(results: Sequence[dict[str, Any]], name: str) -> list[Estimate]:
    return [percent(values) for values in zip(*(result[name] for result in results), strict=True)]


def _note(results: Sequence[dict[str, Any]]) -> str:
    least, most = (_means(results, f"error {order}") for order in ("least", "most"))
    full, without_least, without_most = (rate.text("%") for rate in (least[0], least[HALF], most[HALF]))
    rates = f"{full} with all heads, {without_least} without the least and {without_most} without the most important"
    return f"Alignment error rate: {rates} half."
