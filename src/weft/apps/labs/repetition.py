"""Repetition: a language model that has repeated a sentence finds its next repetition more probable.

In a text, words come back: a story about a fox and an owl goes on about a fox and an owl. A language model learns to
expect that. But then a sentence that was said twice is more probable than one that was said once, although no text of
the training data repeats a sentence, and a search for the most probable continuation never gets out: it loops. Sampling
takes the exit sooner or later, whether from all words or from the most probable ones that together hold 90 % (top-p).

A small Transformer learns stories of six to ten sentences, each with its own three animals and verbs; none follows
itself. The lab scores sentences that are repeated 200 times, and lets the model continue stories. A loop is a phrase
three or more times in a row. The claim is about the first copies, which are no longer than the texts of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import weft
from weft.apps.labs.intervals import nonpositive, percent, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, below, judge
from weft.evaluation.statistics import difference, number
from weft.pictures.charts import Chart, Series, Table

LAB = Lab(
    name="repetition",
    claim="Each of the first three repetitions is more probable than the last: searches loop, sampling rarely",
    paper="Holtzman et al. 2020: maximization gives text that is stuck in loops, top-p sampling does not. Xu et al. "
    "2022: the more often a sentence is repeated, the more probable it is, while 0.02 % of the sentences of "
    "Wikitext-103 follow themselves.",
    trains="A language model (Transformer, 2 layers of 64) on stories of a few animals.",
    seconds=55,
    next=(
        "Stories in which words do not come back: weft.labs.repetition(animals=15). Which part of the claim is left?",
        "What weft does about loops by default: search.no_loops in docs/decoding.md.",
    ),
)
ANIMALS = ("fox", "owl", "cat", "dog", "hen", "cow", "bee", "ant", "bat", "pig", "rat", "elk", "emu", "yak", "eel")
VERBS = ("sees", "hears", "likes", "finds", "feeds", "calls", "meets", "helps", "fears", "hits")
JUDGED, SHOWN, COPIES = 4, (1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100, 200), 200
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"kind": "greedy"},
    "beam of 5": {"kind": "beam", "size": 5},
    "top-p 0.9": {"kind": "sample", "top_p": 0.9},
    "pure sampling": {"kind": "sample"},
}


class Condition(NamedTuple):
    """Training, animals per story, and stories continued by each search."""

    steps: int
    animals: int
    prompts: int


def story(random: Random, animals: int) -> list[str]:
    """The sentences of a story; no sentence follows itself."""
    nouns, verbs = random.sample(ANIMALS, animals), random.sample(VERBS, min(animals, len(VERBS)))
    sentences = [""]
    for _ in range(random.randint(6, 10)):
        sentence = sentences[-1]
        while sentence == sentences[-1]:
            first, second = random.sample(nouns, 2)
            sentence = f"the {first} {random.choice(verbs)} the {second} ."
        sentences.append(sentence)
    return sentences[1:]


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """log p of every copy of repeated sentences, and the share of looping continuations of every search."""
    from weft.evaluation.repetition import find_loop

    random = Random(seed)
    stories = [" ".join(story(random, condition.animals)) for _ in range(10 * condition.steps)]
    decoder = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 4, "feed_forward": 128, "positions": "rotary"}
    settings = {
        "tokenizer": {"kind": "word"},
        "model": {"kind": "language_model", "embedding": 64, "decoder": decoder},
        "training": training_settings(condition.steps, learning_rate=0.005, batch_tokens=1_500) | {"warmup": 30},
    }
    run = train_model(settings, seed=seed, pairs=(weft.Pair("-", text) for text in stories))  # it reads targets alone
    openings = [story(random, condition.animals)[0] for _ in range(5 * condition.prompts)]
    curve = mean_curve(run, openings, 10) + mean_curve(run, openings[:20], COPIES)[10:]
    looping = 100 * fmean(find_loop(text.split()) is not None for text in stories[:500])
    result: dict[str, Any] = {"curve": curve, "data": looping, "examples": {}}
    for name, search in SEARCHES.items():
        count = 4 if search["kind"] == "sample" else 1
        texts = [
            output.text
            for index, opening in enumerate(openings[: condition.prompts])
            for output in run.complete(opening, count=count, length=60, no_loops=False, seed=index, **search)
        ]
        result[name] = 100 * fmean(find_loop(text.split()) is not None for text in texts)
        result["examples"][name] = texts[0]
    return result


def mean_curve(run: weft.Translator, openings: Sequence[str], copies: int) -> list[float]:
    """log p of a word of the first, second, … copy of a sentence, mean over sentences of one length."""
    from weft.evaluation.repetition import repeat_curve

    scores = run.score([("", " ".join([opening] * copies)) for opening in openings])
    curves = [repeat_curve(score.token_scores[:-1], len(openings[0].split())) for score in scores]
    return [fmean(copy) for copy in zip(*curves, strict=True)]


def repetition(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, steps: int = 300, animals: int = 3, prompts: int = 48
) -> LabResult:
    """Run the lab. ``animals``: animals, and verbs, per story; with all 15, words come back only by chance."""
    condition = Condition(steps // 4 if quick else steps, animals, prompts // 4 if quick else prompts)
    trials = run_trials(trial, [condition], seeds)
    curves = trials.values(condition, "curve")
    loops = {name: trials.values(condition, name) for name in (*SEARCHES, "data")}
    curve = tuple((copy, nonpositive([values[copy - 1] for values in curves])) for copy in SHOWN)
    rise = fmean(values[JUDGED - 1] - values[0] for values in curves)
    title = f"From the first copy to copy {JUDGED}, log p of a word changes by {number(rise)}"
    series = (Series("model", curve),)
    chart = Chart("copies", title, "copy of the sentence", "log p of a word (nats)", series, log_x=True)
    copies = Table(("copy", "log p of a word"), [(str(copy), estimate) for copy, estimate in curve])
    shares = Table(("continuation", "loops (%)"), [(name, percent(values)) for name, values in loops.items()])
    examples, verdict = trials.values(condition, "examples")[0].items(), judge_loops(curves, loops)
    notes = tuple(f"{name}: {' '.join(text.split()[:24])} …" for name, text in examples)
    return LabResult(LAB, verdict, (copies, shares), (chart,), notes, trials.seeds, trials.records(), quick)


def judge_loops(curves: Sequence[Sequence[float]], loops: dict[str, list[float]]) -> Verdict:
    """``curves``: log p of each copy, for each seed; ``loops``: the share of loops in percent, for each seed."""
    copies = [list(values) for values in zip(*curves, strict=True)][:JUDGED]
    rises = [difference(before, after) for before, after in pairwise(copies)]
    searched = {name: points(loops["top-p 0.9"], loops[name]) for name in ("greedy", "beam of 5")}
    sampled = {name: points(loops["data"], loops[name]) for name in ("top-p 0.9", "pure sampling")}
    sentence = (
        f"From copy to copy, up to {JUDGED}, log p of a word changes by {', '.join(r.text() for r in rises)} nats. "
        f"Greedy search loops {searched['greedy'].text('points')} more often than top-p sampling, which loops "
        f"{sampled['top-p 0.9'].text('points')} more often than the data."
    )
    checks = [
        *(above(f"rise of log p of a word from copy {i} to {i + 1}, in nats", r) for i, r in enumerate(rises, 1)),
        *(above(f"loops of {name} beyond those of top-p sampling, in points", s, 10.0) for name, s in searched.items()),
        *(below(f"loops of {name} beyond those of the data, in points", s, 10.0) for name, s in sampled.items()),
    ]
    return judge(checks, sentence)
