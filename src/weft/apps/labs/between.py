"""Between: an encoder of attention alone with a recurrent decoder, beside its two neighbors.

Between the recurrent encoder–decoder with attention and the Transformer lies a model whose encoder consists of
attention only, "more or less a complicated flat neural network", and whose decoder is still recurrent. Nothing in its
encoder knows the order of the words, so the lecture says that it does not quite outperform the recurrent model yet: it
needs order, without sequential processing. Positions give it that.

The lab trains four models with the same number of updates on English sentences of three to six words and their French
translations: a recurrent encoder and decoder; an attention-only encoder without positions and a recurrent decoder; that
encoder with sinusoidal positions; and a Transformer. Each has the learning rate that was best for it on another seed.
The order of words matters in this language: who sees whom is said by the order alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs import short_sentences
from weft.apps.labs.intervals import percent, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="between",
    claim="An attention-only encoder with a recurrent decoder is behind seq2seq; positions bring it forward",
    paper="Vaswani et al. 2017, section 3.5: attention has no notion of order without positions. Chen et al. 2018, The "
    "best of both worlds: hybrids of the two architectures do better than the recurrent one on two translation tasks.",
    trains="Four models of width 64 on English sentences of three to six words, for 350 updates, two for each seed.",
    seconds=120,
    next=(
        "Without order, who sees whom? weft lab order shows what an encoder without positions cannot tell.",
        "Train longer: weft.labs.between(steps=1000). Which gaps are left?",
    ),
)
_LSTM = {"kind": "lstm", "hidden": 64}
_DECODER = {"bridge": "project", "decoder": _LSTM, "attention": {"score": "dot"}}
_STACK = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 4, "feed_forward": 128}
_FLAT = _STACK | {"kind": "attention"}
RECURRENT, FLAT, ORDERED, TRANSFORMER = "recurrent", "attention only", "attention and positions", "Transformer"
MODELS: dict[str, dict[str, Any]] = {
    RECURRENT: {"encoder": _LSTM, **_DECODER},
    FLAT: {"encoder": _FLAT | {"positions": "none"}, **_DECODER},
    ORDERED: {"encoder": _FLAT, **_DECODER},
    TRANSFORMER: {"encoder": _STACK, "decoder": _STACK},
}
RATES = {RECURRENT: 0.04, FLAT: 0.02, ORDERED: 0.01, TRANSFORMER: 0.01}
"""Learning rates, chosen by exact match on seed 11."""


class Condition(NamedTuple):
    """A model and its training."""

    model: str
    steps: int
    sentences: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Exact match and the alignment error rate, in percent, and the number of parameters."""
    rate = RATES[condition.model]
    settings = short_sentences.settings(MODELS[condition.model], steps=condition.steps, learning_rate=rate)
    run = train_model(settings, seed=seed)
    test = short_sentences.pairs("test", condition.sentences, seed=seed)
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    return {"exact": short_sentences.exact_match(run, test), "parameters": parameters}


def between(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, steps: int = 350, sentences: int = 300
) -> LabResult:
    """Run the lab. ``sentences``: size of the test set."""
    size = (min(steps, 15), min(sentences, 30)) if quick else (steps, sentences)
    conditions = [Condition(name, *size) for name in MODELS]
    trials = run_trials(trial, conditions, seeds, models=1 if quick else 2)
    exact = {c.model: trials.values(c, "exact") for c in conditions}
    rows: list[Row] = [(c.model, trials.values(c, "parameters")[0], percent(exact[c.model])) for c in conditions]
    series = (Series("", tuple((index, percent(values)) for index, values in enumerate(exact.values()))),)
    title = f"Exact match: {', '.join(f'{name} {fmean(values):.0f} %' for name, values in exact.items())}"
    chart = Chart("exact", title, "encoder", "exact match (%)", series, categories=tuple(exact))
    table = Table(("encoder", "parameters", "exact match (%)"), rows, "The first three have a recurrent decoder")
    return LabResult(LAB, judge_models(exact), (table,), (chart,), (), trials.seeds, trials.records(), quick)


def judge_models(exact: Mapping[str, Sequence[float]]) -> Verdict:
    """By model, the exact match of each seed, in percent."""
    behind, order = points(exact[FLAT], exact[RECURRENT]), points(exact[FLAT], exact[ORDERED])
    rest = points(exact[ORDERED], exact[RECURRENT])
    sentence = (
        f"The model with an attention-only encoder is {behind.text('points')} of exact match behind the recurrent one; "
        f"positions add {order.text('points')}, after which it is {rest.text('points')} behind."
    )
    checks = [
        above("exact match, recurrent less attention only, in points", behind, 5.0),
        above("exact match, attention and positions less attention only, in points", order, 5.0),
    ]
    return judge(checks, sentence)
