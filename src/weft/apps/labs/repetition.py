"""Repetition: a language model that repeats itself once finds the next repetition more probable.

In a text, words come back: a story about a fox and an owl goes on about a fox and an owl. A language model learns to
expect that. But then a sentence that was said twice is more probable than one that was said once, although no text of
the training data repeats a sentence, and a search for the most probable continuation never gets out: it loops. Sampling
from the most probable words that together hold 90 % of the probability (top-p) takes the exit sooner or later.

A small Transformer learns stories of six to ten sentences, each with its own three animals and three verbs; no
sentence follows itself. The lab then scores sentences that are repeated eight times, and lets the model continue
stories by greedy search, beam search and top-p sampling. A loop is a phrase three or more times in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, always, below, judge
from weft.data.pairs import Pair
from weft.evaluation.statistics import difference, number, t_interval
from weft.pictures.charts import Chart, Series, Table

LAB = Lab(
    name="repetition",
    claim="Each repetition makes the next one more probable: searches loop, and top-p sampling does not",
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
COPIES = 8
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"kind": "greedy"},
    "beam of 5": {"kind": "beam", "size": 5},
    "top-p 0.9": {"kind": "sample", "top_p": 0.9},
}


class Condition(NamedTuple):
    """Training steps, animals per story, and the number of stories continued by each search."""

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
    from weft.evaluation.repetition import find_loop, repeat_curve

    random = Random(seed)
    stories = [" ".join(story(random, condition.animals)) for _ in range(10 * condition.steps)]
    decoder = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 4, "feed_forward": 128, "positions": "rotary"}
    training = {"steps": condition.steps, "batch_tokens": 1_500, "learning_rate": 0.005, "warmup": 30}
    run = train_model(
        {
            "tokenizer": {"kind": "word"},
            "model": {"kind": "language_model", "embedding": 64, "decoder": decoder},
            "training": training | {"label_smoothing": 0.0},
        },
        seed=seed,
        pairs=(Pair("-", text) for text in stories),  # a language model reads the targets alone
    )
    openings = [story(random, condition.animals)[0] for _ in range(10 * condition.prompts)]
    scores = run.score([("", " ".join([opening] * COPIES)) for opening in openings])
    curves = [repeat_curve(score.token_scores[:-1], len(openings[0].split())) for score in scores]
    result: dict[str, Any] = {"curve": [fmean(copy) for copy in zip(*curves, strict=True)], "examples": {}}
    result["data"] = 100 * fmean(find_loop(text.split()) is not None for text in stories[:500])
    for name, settings in SEARCHES.items():
        count = 4 if name == "top-p 0.9" else 1
        texts = [
            output.text
            for index, opening in enumerate(openings[: condition.prompts])
            for output in run.complete(opening, count=count, length=60, no_loops=False, seed=index, **settings)
        ]
        result[name] = 100 * fmean(find_loop(text.split()) is not None for text in texts)
        result["examples"][name] = texts[0]
    return result


def repetition(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, steps: int = 300, animals: int = 3, prompts: int = 16
) -> LabResult:
    """Run the lab. ``animals``: animals, and verbs, per story; with all 15, words come back only by chance."""
    condition = Condition(steps // 4 if quick else steps, animals, prompts // 4 if quick else prompts)
    trials = run_trials(trial, [condition], seeds)
    curves = trials.values(condition, "curve")
    loops = {name: trials.values(condition, name) for name in (*SEARCHES, "data")}
    points = tuple((copy + 1, t_interval([curve[copy] for curve in curves])) for copy in range(COPIES))
    rise = fmean(curve[-1] - curve[0] for curve in curves)
    title = f"From the first copy to copy {COPIES}, log p of a word changes by {number(rise)}"
    chart = Chart("copies", title, "copy of the sentence", "log p of a word (nats)", (Series("model", points),))
    copies = Table(("copy", "log p of a word"), [(str(x), estimate) for x, estimate in points])
    shares = Table(("continuation", "loops (%)"), [(name, t_interval(values)) for name, values in loops.items()])
    examples = trials.values(condition, "examples")[0]
    notes = [f"{name}: {' '.join(text.split()[:24])} …" for name, text in examples.items()]
    verdict = judge_loops(curves, loops)
    return LabResult(LAB, verdict, (copies, shares), (chart,), tuple(notes), trials.seeds, trials.records(), quick)


def judge_loops(curves: Sequence[Sequence[float]], loops: dict[str, list[float]]) -> Verdict:
    """``curves``: log p of each copy, for each seed; ``loops``: the share of loops in percent, for each seed."""
    copies = [list(values) for values in zip(*curves, strict=True)]
    rise = difference(copies[0], copies[-1])
    falls = sum(difference(before, after).high < 0 for before, after in pairwise(copies))
    searched = difference(loops["top-p 0.9"], loops["greedy"])
    sampled = difference(loops["data"], loops["top-p 0.9"])
    sentence = (
        f"From the first copy of a sentence to copy {len(copies)}, log p of a word changes by {rise.text('nats')}. "
        f"Greedy search loops {searched.text('points')} more often than top-p sampling, which loops "
        f"{sampled.text('points')} more often than the data."
    )
    checks = [
        above(f"rise of log p of a word from copy 1 to copy {len(copies)}, in nats", rise, 0.3),
        always("copies that are less probable than the one before", falls, len(copies) - 1),
        above("loops of greedy search beyond those of top-p sampling, in points", searched, 10.0),
        below("loops of top-p sampling beyond those of the data, in points", sampled, 10.0),
    ]
    return judge(checks, sentence)
