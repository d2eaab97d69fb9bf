"""Lookahead: what an encoder knows of *bank* before it has read on.

*I arrived at the bank after crossing the street*, or *the river*: which kind of bank it is, is said later. An encoder
that reads from left to right has only seen *I arrived at the bank* when it makes the state of this word, so the state
is the same in both sentences. One that reads in both directions, or whose words attend to all others, can look ahead.

The lab trains three encoders with the same recurrent decoder, which attends to them, on made-up sentences and their
French translations: *bank* is *banque* or *rive*, and the word that decides comes before it in half of the sentences,
after it in the others. Then a linear probe, fitted to the states of *bank* in some sentences, has to tell the sense in
others. Half right is chance. Whether the whole model translates *bank* is another question, and measured too: its
decoder may read the clue where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import weft
from weft.apps.labs.intervals import percent
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, below, judge
from weft.apps.probes.layer_states import layer_states, linear_probe
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="lookahead",
    claim="At 'bank' a left-to-right encoder cannot tell its sense, others can; the decoder makes up for it",
    paper="Schuster and Paliwal 1997: a bidirectional network uses the inputs after a step as well. Peters et al. 2018 "
    "and Devlin et al. 2019: representations from both sides disambiguate words better than those from the left.",
    trains="Three encoders (GRU forward, GRU both ways, self-attention) with one GRU decoder, on 6,000 sentences.",
    seconds=60,
    next=(
        "Where does the decoder find the clue? weft attend RUN, on a model with a left-to-right encoder.",
        "Hide the clue from all: weft.labs.lookahead(clues=1) has the same word in both senses.",
    ),
)
_GRU = {"kind": "gru", "hidden": 64}
_STACK = {"kind": "transformer", "layers": 1, "hidden": 64, "heads": 4, "feed_forward": 128}
_DECODER = {"decoder": _GRU, "attention": {"score": "general"}}
ENCODERS: dict[str, dict[str, Any]] = {
    "left to right": _GRU | {"bidirectional": False},
    "both ways": _GRU,
    "self-attention": _STACK,
}
PEOPLE = {"i": "moi", "he": "lui", "she": "elle", "they": "eux", "anna": "anna", "paul": "paul"}
VERBS = {"sat": "assis", "waited": "attend", "arrived": "arrive", "slept": "dort", "stood": "debout"}
CLUES = (
    {"street": "rue", "road": "route", "square": "place", "avenue": "avenue"},
    {"river": "fleuve", "stream": "ruisseau", "ford": "gué", "bridge": "pont"},
)
SENSES = ("banque", "rive")
ORDERS = ("clue after", "clue before")


class Condition(NamedTuple):
    """An encoder, its training, and how many clues each sense has."""

    encoder: str
    steps: int
    sentences: int
    clues: int


class Sentence(NamedTuple):
    """A pair, the sense of *bank* in it, and whether the clue comes before."""

    pair: weft.Pair
    sense: int
    before: bool


def draw(random: Random, clues: int = 4) -> Sentence:
    """A sentence; with one clue, *river* goes with both senses and says nothing."""
    sense, before = random.randrange(2), random.random() < 0.5
    person, verb = random.choice([*PEOPLE]), random.choice([*VERBS])
    kinds = CLUES[sense] if clues > 1 else {"river": "fleuve"}
    clue = random.choice([*kinds])
    event, crossing = f"{person} {verb} at the bank", f"after crossing the {clue}"
    event_fr, crossing_fr = f"{PEOPLE[person]} {VERBS[verb]} à la {SENSES[sense]}", f"après traversé la {kinds[clue]}"
    texts = (f"{crossing} {event}", f"{crossing_fr} {event_fr}")
    texts = texts if before else (f"{event} {crossing}", f"{event_fr} {crossing_fr}")
    return Sentence(weft.Pair(*texts), sense, before)


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """For each order of clue and *bank*: senses told by a probe, and right in the translation, in percent."""
    random = Random(seed)
    settings = {
        "tokenizer": {"kind": "word"},
        "model": {"embedding": 32, "bridge": "project", "encoder": ENCODERS[condition.encoder], **_DECODER},
        "training": training_settings(condition.steps, learning_rate=0.005, batch_tokens=1_000),
    }
    training = [draw(random, condition.clues).pair for _ in range(6_000)]
    run = train_model(settings, seed=seed, pairs=training)
    result: dict[str, Any] = {}
    for order in ORDERS:
        drawn = (draw(random, condition.clues) for _ in range(8 * condition.sentences))
        chosen = [s for s in drawn if s.before == (order == "clue before")][: 2 * condition.sentences]
        states = [*layer_states(run, [s.pair.source for s in chosen]).layers.values()][-1]
        at_bank = [rows[s.pair.source.split().index("bank")] for s, rows in zip(chosen, states, strict=True)]
        result[f"probe, {order}"] = linear_probe(at_bank, [s.sense for s in chosen])
        outputs = run.translate([s.pair.source for s in chosen], kind="greedy", return_attention=False)
        right = sum(SENSES[s.sense] in o.text.split() for s, o in zip(chosen, outputs, strict=True))
        result[f"output, {order}"] = 100 * right / len(chosen)
    return result


def lookahead(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, steps: int = 300, sentences: int = 500, clues: int = 4
) -> LabResult:
    """Run the lab. ``sentences``: to fit a probe, and to test it; ``clues``: words that decide for each sense."""
    size = (max(steps // 6, 1), min(sentences, 40), clues) if quick else (steps, sentences, clues)
    conditions = [Condition(name, *size) for name in ENCODERS]
    trials = run_trials(trial, conditions, seeds)
    keys = [f"{what}, {order}" for what in ("probe", "output") for order in ORDERS]
    rows: list[Row] = [(c.encoder, *(trials.percent(c, key) for key in keys)) for c in conditions]
    header = ("encoder", *(f"sense right, {key} (%)" for key in keys))
    probes = {c.encoder: {order: trials.values(c, f"probe, {order}") for order in ORDERS} for c in conditions}
    series = tuple(
        Series(order, tuple((index, percent(rows[order])) for index, rows in enumerate(probes.values())))
        for order in ORDERS
    )
    means = ", ".join(f"{name} {percent(rows[ORDERS[0]]).mean:.0f} %" for name, rows in probes.items())
    chart = Chart("probe", f"Sense known at 'bank', clue after: {means}", "encoder", "sense right (%)", series,
                  categories=tuple(ENCODERS))  # fmt: skip
    verdict = judge_probes(probes, trials.values(conditions[0], f"output, {ORDERS[0]}"))
    table = Table(header, rows)
    return LabResult(LAB, verdict, (table,), (chart,), (), trials.seeds, trials.records(), quick)


def judge_probes(probes: Mapping[str, Mapping[str, Sequence[float]]], outputs: Sequence[float]) -> Verdict:
    """In percent, of each seed: senses told by the probe, by encoder and order; right outputs, left to right."""
    after = {name: percent(rows["clue after"]) for name, rows in probes.items()}
    before, right = percent(probes["left to right"]["clue before"]), percent(outputs)
    checks = [
        below("sense told at 'bank', clue after, left to right, in percent", after["left to right"], 60.0),
        *(above(f"sense told at 'bank', clue after, {name}, in percent", after[name], 90.0) for name in [*after][1:]),
        above("sense told at 'bank', clue before, left to right, in percent", before, 90.0),
        above("'bank' translated right, clue after, left to right, in percent", right, 90.0),
    ]
    listed = ", ".join(f"{name} {value.text('%')}" for name, value in after.items())
    sentence = (
        f"With the clue after it, the sense is told from the state of 'bank' by: {listed}. Left to right, the model "
    )
    return judge(checks, f"{sentence}translates {right.text('%')} right.")
