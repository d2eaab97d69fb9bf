"""Layers: what the layers of a stacked encoder know of the word just read, and of the sentence so far.

Lectures say that in a stack of recurrent layers the lower ones compute lower-level features and the higher ones
higher-level features, and that a state can tell, for example, a gender or a passive, which should persist.

The lab trains stacked GRU encoders that read from left to right, with attention, on made-up sentences and their French
translations: *the queens were seen by the monk yesterday here*. What follows subject and verb repeats neither number
nor gender nor voice. Linear probes, fitted to the states of one half of the sentences and tested on the other, tell the
word that was just read, which is a low-level feature, and, after the last word, number and gender of the subject and
the voice. A model after one update stands beside it: what is told from its states was not learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import weft
from weft.apps.labs.intervals import percent, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.apps.probes.layer_states import layer_states, linear_probe
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="layers",
    claim="Lower layers know the word better, higher ones the sentence; what nobody needs is forgotten",
    paper="Peters et al. 2018, section 5.3: in a bidirectional language model of two layers, the first is better for "
    "parts of speech, the second for senses of words. Belinkov et al. 2020: so in translation, for encoders.",
    trains="GRU encoders of two layers, left to right, with a GRU decoder and attention, on 8,000 sentences.",
    seconds=60,
    next=("Any model: weft probe states RUN", "No looking back: weft.labs.layers(score='none'). What is kept now?"),
)
NOUNS = {"king": "roi", "boy": "garçon", "monk": "moine", "queen": "reine", "girl": "fille", "nun": "nonne"}
FEMININE = ("queen", "girl", "nun")
VERBS = {"saw": ("seen", "vu"), "took": ("taken", "pris"), "heard": ("heard", "entendu")}
TAILS = {"yesterday": "hier", "often": "souvent", "here": "ici", "again": "encore"}
TOP = 2
LAYERS = ("embedding", *(f"layer {level}" for level in range(1, TOP + 1)))
WORD, NUMBER, GENDER, VOICE, AT_NOUN = FEATURES = ("word", "number", "gender", "voice", "gender at its noun")


class Condition(NamedTuple):
    score: str
    steps: int
    sentences: int


class Sentence(NamedTuple):
    """A pair, and its number, gender and voice."""

    pair: weft.Pair
    labels: dict[str, int]


def draw(random: Random) -> Sentence:
    subject, other = random.sample([*NOUNS], 2)
    past, plural, passive = random.choice([*VERBS]), random.random() < 0.5, random.random() < 0.5
    tail, (seen, vu), feminine = random.sample([*TAILS], random.randint(1, 3)), VERBS[past], subject in FEMININE
    s, e, article = "s" * plural, "e" * feminine, "la" if other in FEMININE else "le"
    english = f"{'were' if plural else 'was'} {seen} by" if passive else past
    french = f"{'ont' if plural else 'a'} {f'été {vu}{e}{s} par' if passive else vu}"
    source = f"the {subject}{s} {english} the {other} {' '.join(tail)}"
    target = f"{'les' if plural else 'la' if feminine else 'le'} {NOUNS[subject]}{s} {french} {article} {NOUNS[other]}"
    pair = weft.Pair(source, " ".join([target, *(TAILS[word] for word in tail)]))
    return Sentence(pair, {NUMBER: int(plural), GENDER: int(feminine), VOICE: int(passive)})


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """The percentage that probes tell of each feature, by layer, and sentences translated right."""
    random, gru = Random(seed), {"kind": "gru", "hidden": 64}
    encoder = gru | {"layers": TOP, "bidirectional": False}
    model = {"embedding": 64, "bridge": "project", "encoder": encoder, "decoder": gru}
    settings = {
        "tokenizer": {"kind": "word", "joint": False},
        "model": {**model, "attention": {"score": condition.score}},
        "training": training_settings(condition.steps, learning_rate=0.01, batch_tokens=1_000) | {"schedule": "cosine"},
    }
    run = train_model(settings, seed=seed, pairs=[draw(random).pair for _ in range(8_000)])
    sentences = [draw(random) for _ in range(condition.sentences)]
    sources = [sentence.pair.source for sentence in sentences]
    outputs = run.translate(sources, kind="greedy", return_attention=False)
    right = [output.text == item.pair.target for output, item in zip(outputs, sentences, strict=True)]
    chosen = [random.randrange(len(source.split())) for source in sources]
    words = [source.split()[index] for source, index in zip(sources, chosen, strict=True)]
    known = sorted({*words})
    labels = {name: [item.labels[name] for item in sentences] for name in (NUMBER, GENDER, VOICE)}
    told: dict[str, list[float]] = {name: [] for name in FEATURES}
    for rows in layer_states(run, sources).layers.values():
        last, at_noun = [row[-1] for row in rows], [row[1] for row in rows]
        at_word = [row[index] for row, index in zip(rows, chosen, strict=True)]
        told[WORD].append(linear_probe(at_word, [known.index(word) for word in words]))
        told[AT_NOUN].append(linear_probe(at_noun, labels[GENDER]))
        for name, values in labels.items():
            told[name].append(linear_probe(last, values))
    return {"right": 100 * fmean(right), **told}


def layers(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, steps: int = 500, sentences: int = 1_000, score: str = "dot"
) -> LabResult:
    """Run the lab. ``sentences``: of the probes; ``score``: of the attention, or "none"."""
    trained = Condition(score, max(steps // 6, 1) if quick else steps, min(sentences, 40) if quick else sentences)
    untrained = trained._replace(steps=1)
    trials = run_trials(trial, [trained, untrained], seeds)
    told = {name: trials.values(trained, name) for name in FEATURES}
    rows: list[Row] = []
    for label, condition in (("", trained), (", one update", untrained)):
        for level, layer in enumerate(LAYERS):
            values = (percent([seed[level] for seed in trials.values(condition, name)]) for name in FEATURES)
            rows.append((f"{layer}{label}", *values))
    series = tuple(
        Series(name, tuple((level, percent([seed[level] for seed in rows])) for level in range(len(LAYERS))))
        for name, rows in told.items()
    )
    first, top = ({name: fmean(seed[level] for seed in rows) for name, rows in told.items()} for level in (1, TOP))
    changes = ", ".join(f"{name} {first[name]:.0f} → {top[name]:.0f} %" for name in (WORD, GENDER))
    chart = Chart("told", f"Told from layer 1 → {TOP}: {changes}", "state", "told (%)", series, categories=LAYERS)
    right = trials.percent(trained, "right")
    kept = percent([seed[TOP] for seed in trials.values(untrained, GENDER)]).text("%")
    note = f"Translated right: {right.text('%')}. Genders told after one update: {kept}: training makes states forget."
    table = Table(("", *(f"{name} (%)" for name in FEATURES)), rows, "Told; except for the word, after the last word")
    return LabResult(LAB, judge_layers(told), (table,), (chart,), (note,), trials.seeds, trials.records(), quick)


def judge_layers(told: Mapping[str, Sequence[Sequence[float]]]) -> Verdict:
    """By feature and seed, the percentage told from each layer, the embedding first."""

    def level(name: str, index: int) -> list[float]:
        return [seed[index] for seed in told[name]]

    word, gender = points(level(WORD, TOP), level(WORD, 1)), points(level(GENDER, 1), level(GENDER, TOP))
    noun, forgotten = percent(level(AT_NOUN, TOP)), points(level(GENDER, TOP), level(AT_NOUN, TOP))
    sentence = (
        f"Layer 1 tells the word just read by {word.text('points')} better than the top layer, which tells the gender "
        f"of the subject after the last word by {gender.text('points')} better than layer 1. At its noun, it tells "
        f"{noun.text('%')} of the genders, {forgotten.text('points')} more than after the last word."
    )
    checks = [
        above("word just read, layer 1 less the top layer, in points", word),
        above("gender after the last word, the top layer less layer 1, in points", gender, 5.0),
        above("gender at its noun, top layer, in percent", noun, 95.0),
        above("gender at its noun less after the last word, top layer, in points", forgotten, 5.0),
    ]
    return judge(checks, sentence)
