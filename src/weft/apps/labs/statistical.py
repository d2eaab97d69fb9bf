"""Statistical translation beside neural translation, as the number of pairs grows.

Until 2016 translators counted: which words are aligned to which, which words follow each other. Such a system has
learned something from a hundred sentences. A network with attention has to learn from examples what the statistical one
was told by its makers, that a translation consists of translations of words, and needs more of them. Then it learns
what no count of words holds: agreement, negation, the order of words. So the curves should cross.

The statistical translator is plain code (`word_translator`): IBM Model 1, the relative frequencies of the aligned
words, a trigram language model and a monotone beam. Beside it an LSTM with attention is trained for the same number of
updates on each number of pairs, and both translate the same unseen sentences. BLEU is measured on words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs import short_sentences
from weft.apps.labs.intervals import percent, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.training import merged, train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.apps.labs.word_translator import WordTranslator
from weft.pictures.charts import Chart, Row, Series, Table
from weft.text.words import words

LAB = Lab(
    name="statistical",
    claim="With few pairs a statistical translator is ahead, with many a neural one: the curves cross",
    paper="Koehn and Knowles 2017: neural systems have the steeper learning curve, worse with few pairs and better "
    "with many. Sennrich and Zhang 2019: with settings for few pairs, a neural system is ahead from 100,000 words on.",
    trains="An LSTM with attention on 100 to 8,000 pairs of up to six words; IBM Model 1 and trigrams on the same.",
    seconds=80,
    next=(
        "Few pairs and more updates: weft.labs.statistical(sizes=(100, 300), steps=1000). Does time replace data?",
        "What it cannot do: read its outputs in result.data for negation, agreement and clitics.",
    ),
)
SIZES = (100, 300, 1_000, 3_000, 8_000)
KINDS = ("statistical", "neural")
Curves = Mapping[str, Mapping[int, Sequence[float]]]
"""BLEU by kind of translator, number of pairs and seed."""


class Condition(NamedTuple):
    """A kind of translator, the number of pairs, the updates of the neural one, and the test sentences."""

    kind: str
    pairs: int
    steps: int
    sentences: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """BLEU and exact match on unseen sentences, and three translations."""
    from weft.evaluation.metrics import bleu_tokenized

    test = short_sentences.pairs("test", condition.sentences, seed=seed)
    sources, references = [pair.source for pair in test], [" ".join(words(pair.target)) for pair in test]
    if condition.kind == "statistical":
        translator = WordTranslator(short_sentences.pairs("train", condition.pairs, seed=seed))
        outputs = [translator.translate(source) for source in sources]
    else:
        layer = {"kind": "lstm", "hidden": 64}
        model = {"encoder": layer, "decoder": layer, "attention": {"score": "dot"}}
        settings = short_sentences.settings(model, steps=condition.steps, learning_rate=0.04)
        run = train_model(merged(settings, {"data": {"train_size": condition.pairs}}), seed=seed)
        translations = run.translate(sources, kind="greedy", return_attention=False)
        outputs = [" ".join(words(output.text)) for output in translations]
    right = sum(output == reference for output, reference in zip(outputs, references, strict=True))
    examples = [f"{source} → {output}" for source, output in zip(sources[:3], outputs[:3], strict=True)]
    score = bleu_tokenized(outputs, references).value
    return {"bleu": score, "exact": 100 * right / len(test), "examples": examples}


def statistical(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    sizes: Sequence[int] = SIZES,
    steps: int = 300,
    sentences: int = 200,
) -> LabResult:
    """Run the lab. ``sizes``: numbers of training pairs; ``steps``: updates of each neural model."""
    scale = (min(steps, 12), min(sentences, 30)) if quick else (steps, sentences)
    grid = {kind: [Condition(kind, size, *scale) for size in sizes] for kind in KINDS}
    trials = run_trials(trial, [c for row in grid.values() for c in row], seeds)
    bleu = {kind: {c.pairs: trials.values(c, "bleu") for c in row} for kind, row in grid.items()}
    rows: list[Row] = [
        (f"{size:,}", *(trials.percent(grid[kind][index], key) for key in ("bleu", "exact") for kind in KINDS))
        for index, size in enumerate(sizes)
    ]
    header = ("pairs", *(f"{name}, {kind}" for name in ("BLEU (%)", "exact match (%)") for kind in KINDS))
    series = tuple(Series(kind, tuple((n, percent(v)) for n, v in bleu[kind].items())) for kind in KINDS)
    chart = Chart("pairs", crossing(bleu), "pairs", "BLEU", series, log_x=True)
    notes = [f"{kind}: {text}" for kind in KINDS for text in trials.values(grid[kind][-1], "examples")[0]]
    verdict = judge_curves(bleu)
    return LabResult(
        LAB, verdict, (Table(header, rows),), (chart,), tuple(notes), trials.seeds, trials.records(), quick
    )


def crossing(bleu: Curves) -> str:
    """Where the neural curve passes the statistical one, by the means over seeds."""
    sizes = [*bleu["neural"]]
    ahead = [fmean(bleu["neural"][size]) > fmean(bleu["statistical"][size]) for size in sizes]
    if all(ahead) or not any(ahead):
        return f"The {'neural' if ahead[0] else 'statistical'} translator is ahead with every number of pairs"
    first = ahead.index(True)
    if not first or not all(ahead[first:]):
        return "The curves cross more than once"
    return f"The curves cross between {sizes[first - 1]:,} and {sizes[first]:,} pairs"


def judge_curves(bleu: Curves) -> Verdict:
    """BLEU by kind, number of pairs and seed."""
    low, high = min(bleu["neural"]), max(bleu["neural"])
    ahead = points(bleu["neural"][low], bleu["statistical"][low])
    behind = points(bleu["statistical"][high], bleu["neural"][high])
    sentence = (
        f"With {low:,} pairs, the statistical translator is {ahead.text('points')} of BLEU ahead; with {high:,} the "
        f"neural one is {behind.text('points')} ahead."
    )
    checks = [
        above(f"BLEU with {low:,} pairs, statistical less neural, in points", ahead, 1.0),
        above(f"BLEU with {high:,} pairs, neural less statistical, in points", behind, 1.0),
    ]
    return judge(checks, sentence)
