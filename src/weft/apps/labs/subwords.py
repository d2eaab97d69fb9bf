"""Subwords: which units let a model write words that it has never seen?

A vocabulary of words is closed: every other word is <unk>, and nothing can be done with it. Characters are open, but
make sequences long. Byte-pair encoding (BPE) is in between: frequent strings are merged into one token, and any word
can still be spelled with smaller ones. BPE-dropout skips merges at random in training, so that a model sees many
spellings of each word.

The same small model learns the singular (a copy) and the plural (-s after a vowel, -es after a consonant) of invented
words with four kinds of units, and is tested on words that were not in its training data. The lab also learns BPE from
the example of many lectures, "low lower newest widest", in which six pairs of symbols occur twice: which of them is
merged first depends on the tie rule of the learner, so a learner must state one.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs.intervals import percent, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.merge_ties import LECTURE, first_in_text, learn_merges, tied_pairs
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, below, judge
from weft.data.pairs import Pair
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="subwords",
    claim="Subwords open the vocabulary: a model of words cannot write an unseen word, one of subwords can",
    paper="Sennrich et al. 2016: subwords gain up to 1.1 BLEU (English–German) and 1.3 (English–Russian) over words "
    "with a dictionary for unknown ones. Provilkov et al. 2020: BPE-dropout gains up to 2.3 BLEU over BPE.",
    trains="A small LSTM with attention on singulars and plurals of invented words, with four kinds of units.",
    seconds=60,
    next=(
        "Test on words of the training data: weft.labs.subwords(unseen=False). Which units are best then?",
        "BPE-dropout splits source and target differently, so copies take longer to learn: subwords(steps=1500).",
    ),
)
UNITS: dict[str, dict[str, Any]] = {
    "words": {"kind": "word", "size": 5_000},
    "BPE": {"kind": "bpe", "size": 120},
    "BPE-dropout": {"kind": "bpe", "size": 120, "dropout": 0.1},
    "characters": {"kind": "character"},
}
TASKS = {"one": "copied (%)", "two": "inflected (%)"}


class Condition(NamedTuple):
    """The units, how long the model is trained, and whether the words of the test are unseen."""

    unit: str
    steps: int
    unseen: bool


def invent(random: Random, count: int) -> list[str]:
    """Different words of two or three syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = (random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(random.randint(2, 3)))
        words["".join(syllables) + random.choice(["", "n", "k", "l"])] = None
    return list(words)


def inflect(number: str, word: str) -> Pair:
    """The singular or the plural of a word."""
    ending = "" if number == "one" else "s" if word[-1] in "aeiou" else "es"
    return Pair(f"{number} {word}", word + ending)


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Exact match in both tasks, and the tokens of a word."""
    random = Random(seed)
    words = invent(random, 500)
    known, test = words[100:], words[:100] if condition.unseen else words[100:200]
    weights = [1 / (rank + 5) for rank in range(len(known))]  # as in text, few words are frequent
    layer = {"kind": "lstm", "hidden": 64}
    settings = {
        "tokenizer": UNITS[condition.unit],
        "model": {"embedding": 64, "tie": "all", "encoder": layer, "decoder": layer},
        "training": {"steps": condition.steps, "batch_tokens": 500, "learning_rate": 0.005, "warmup": 50},
    }
    drawn = random.choices(known, weights, k=15 * condition.steps)
    run = train_model(settings, seed=seed, pairs=[inflect(random.choice([*TASKS]), word) for word in drawn])
    result: dict[str, Any] = {"tokens of a word": fmean(len(run.tokenizers.target.encode(word)) for word in test)}
    for number, task in TASKS.items():
        pairs = [inflect(number, word) for word in test]
        outputs = run.translate([pair.source for pair in pairs], kind="greedy", return_attention=False)
        result[task] = 100 * fmean(output.text == pair.target for output, pair in zip(outputs, pairs, strict=True))
        result["example"] = f"{pairs[0].source} → {outputs[0].text}"
    return result


def subwords(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, steps: int = 400, unseen: bool = True
) -> LabResult:
    """Run the lab. ``unseen``: whether the words of the test are not in the training data."""
    conditions = {unit: Condition(unit, steps // 6 if quick else steps, unseen) for unit in UNITS}
    trials = run_trials(trial, [*conditions.values()], seeds)
    measures = (*TASKS.values(), "tokens of a word")
    rows: list[Row] = [(c.unit, *(trials.percent(c, name) for name in measures)) for c in conditions.values()]
    series = tuple(
        Series(task, tuple((x, trials.percent(condition, task)) for x, condition in enumerate(conditions.values())))
        for task in TASKS.values()
    )
    exact = {
        unit: [fmean(tasks) for tasks in zip(*(trials.values(condition, task) for task in TASKS.values()), strict=True)]
        for unit, condition in conditions.items()
    }
    kind, means = "unseen" if unseen else "known", ", ".join(f"{unit} {fmean(exact[unit]):.0f}" for unit in UNITS)
    title, label = f"{kind.capitalize()} words that are right, in %: {means}", f"{kind} words (%)"
    chart = Chart("units", title, "unit", label, series, categories=tuple(UNITS))
    table = Table(("unit", *measures), rows, f"Test on {kind} words")
    notes = (tie_note(), *(f"{unit}: {trials.values(c, 'example')[0]}" for unit, c in conditions.items()))
    return LabResult(LAB, judge_units(exact), (table,), (chart,), notes, trials.seeds, trials.records(), quick)


def tie_note() -> str:
    """The tie in the example of the lectures, and what two rules make of it."""
    from weft.text.bpe import BPE
    from weft.text.vocabulary import LearningOptions

    tied, count = tied_pairs()
    merges = BPE.learn([LECTURE], LearningOptions(size=17)).merges()
    others = learn_merges(LECTURE, len(merges), first_in_text)
    tie, first, second = (", ".join(" ".join(pair) for pair in pairs) for pairs in (tied, merges, others))
    return (
        f"Correction: in {LECTURE!r}, {len(tied)} pairs are tied at {count}: {tie}. The first merges depend on the "
        f"rule for ties: {first} by that of weft (code point order), {second} if the first in the text is taken."
    )


def judge_units(exact: dict[str, list[float]]) -> Verdict:
    """``exact``: the share of right outputs by unit, in percent, for each seed."""
    opened = {unit: points(exact["words"], exact[unit]) for unit in ("BPE", "characters")}
    dropout, finer = (points(exact["BPE"], exact[unit]) for unit in ("BPE-dropout", "characters"))
    sentence = (
        f"Compared with words, BPE changes the share of right outputs by {opened['BPE'].text('points')} and characters "
        f"by {opened['characters'].text('points')}. Compared with BPE, BPE-dropout changes it by "
        f"{dropout.text('points')} and characters by {finer.text('points')}."
    )
    checks = [
        above("gain of BPE over words, in points", opened["BPE"], 10.0),
        above("gain of characters over words, in points", opened["characters"], 10.0),
        below("right outputs of words, in percent", percent(exact["words"]), 5.0),
    ]
    return judge(checks, sentence)
