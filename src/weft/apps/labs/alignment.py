"""Alignment: does attention find out which words translate each other?

Nobody tells a model which English word a French word comes from; it only sees sentence pairs. Yet an attention that
helps to translate has to look at the right word, so its weights should be a word alignment, for free. The grammar of
this task knows the true links, and the alignment error rate counts disagreements with them (0 % is perfect).

Three architectures are compared with two baselines: the diagonal (the same place in both sentences) and IBM Model 1,
which is fitted to the same pairs and does nothing but align. Then comes a doubt: weights that look right need not be
what the output depends on. So the weights are replaced while the model translates: by themselves (a control: heads are
averaged), by a random permutation, and by uniform weights. If the output stayed the same, the weights would explain
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.apps.labs import short_sentences
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.ibm1 import diagonal_links, fit_ibm1
from weft.evaluation.statistics import difference, t_interval
from weft.pictures.charts import Chart, Row, Series, Table

if TYPE_CHECKING:
    import weft

LAB = Lab(
    name="alignment",
    claim="Attention learns word alignment for free, and the output depends on its weights",
    paper="Bahdanau et al. 2015, section 5.2.1: the weights agree with our intuition about alignment. Jain and Wallace "
    "2019: in text classification, very different weights often give the same prediction, so weights are no "
    "explanation; they did not test translation.",
    trains="A GRU with additive attention, an LSTM with dot attention and a Transformer, on sentences of up to six "
    "words; IBM Model 1 on the same pairs.",
    seconds=100,
    next=(
        "Attention that has learned nothing: weft.labs.alignment(steps=10).",
        "weft lab heads: some heads of a Transformer align better than the mean of all.",
        "Align your own pairs: weft translate RUN --help, see --align.",
    ),
)
_GRU, _LSTM = ({"kind": kind, "hidden": 64} for kind in ("gru", "lstm"))
_STACK = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 4, "feed_forward": 128, "attention_dropout": 0.1}
_BEFORE = {"score": "additive", "placement": "before"}
MODELS: dict[str, dict[str, Any]] = {
    "additive GRU": {"bridge": "project", "encoder": _GRU, "decoder": _GRU, "attention": _BEFORE},
    "dot LSTM": {"encoder": _LSTM, "decoder": _LSTM, "attention": {"score": "dot"}},
    "Transformer": {"encoder": _STACK, "decoder": _STACK},
}
RATES = {"Transformer": 0.008}
"""Learning rates that are not the usual one."""
REPLACEMENTS = ("themselves", "permuted", "uniform")
BASELINES = ("the diagonal", "IBM Model 1")


class Condition(NamedTuple):
    """A model, or the baselines."""

    name: str
    steps: int
    sentences: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Alignment error rates and, of a model, exact match and outputs changed by other weights, in percent."""
    test = short_sentences.pairs("test", condition.sentences, seed=seed)
    if condition.name not in MODELS:
        model = fit_ibm1(short_sentences.pairs("train", short_sentences.training_pairs(condition.steps), seed=seed))
        links = zip(BASELINES, (diagonal_links, model.links), strict=True)
        return {name: short_sentences.links_error([align(pair) for pair in test], test) for name, align in links}
    settings = short_sentences.settings(
        MODELS[condition.name], steps=condition.steps, learning_rate=RATES.get(condition.name, 0.02)
    )
    run = train_model(settings, seed=seed)
    return {
        "exact": short_sentences.exact_match(run, test),
        "error": short_sentences.attention_error(run, test),
        **{name: changed(run, test[: condition.sentences // 10], name, seed) for name in REPLACEMENTS},
    }


def changed(run: weft.Translator, test: list[weft.Pair], replacement: str, seed: int) -> float:
    """The percentage of sentences whose translation changes with other attention weights."""
    from weft.attention.edits import AttentionEdits, AttentionRow

    random = Random(seed)
    differ = 0
    for output in run.translate([pair.source for pair in test], kind="greedy"):
        assert output.attention is not None
        rows = [[1.0] * len(row) if replacement == "uniform" else list(row) for row in output.attention.tolist()]
        if replacement == "permuted":
            rows = [random.sample(row, len(row)) for row in rows]
        edits = AttentionEdits(rows=tuple(AttentionRow(step, tuple(row)) for step, row in enumerate(rows)))
        differ += run.with_edits(edits).translate(output.source, kind="greedy").text != output.text
    return 100 * differ / len(test)


def alignment(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    models: Sequence[str] = tuple(MODELS),
    steps: int = 400,
    sentences: int = 300,
) -> LabResult:
    """Run the lab. ``models``: names of `MODELS`; ``sentences``: size of the test set."""
    size = (min(steps, 12), min(sentences, 30)) if quick else (steps, sentences)
    conditions = [Condition(name, *size) for name in (*models, "baselines")]
    trials = run_trials(trial, conditions, seeds)
    baselines = {name: trials.values(conditions[-1], name) for name in BASELINES}
    results = {condition.name: trials.results[condition] for condition in conditions[:-1]}
    errors = {name: [result["error"] for result in rows] for name, rows in results.items()} | baselines
    changes = {name: [result["permuted"] for result in rows] for name, rows in results.items()}
    table: list[Row] = [
        (name, t_interval(errors[name]), *(t_interval([row[key] for row in rows]) for key in ("exact", *REPLACEMENTS)))
        for name, rows in results.items()
    ]
    table += [(name, t_interval(errors[name]), *[None] * 4) for name in BASELINES]
    header = ("", "alignment error rate (%)", "exact match (%)", "changed by themselves (%)", "permuted", "uniform")
    points = tuple((index, t_interval(row)) for index, row in enumerate(errors.values()))
    best = min(errors, key=lambda name: t_interval(errors[name]).mean)
    title = f"Lowest alignment error rate: {best}, {t_interval(errors[best]).mean:.1f} %"
    chart = Chart("error", title, "model", "alignment error rate (%)", (Series("", points),), categories=tuple(errors))
    verdict = judge_alignment(errors, changes)
    return LabResult(LAB, verdict, (Table(header, table),), (chart,), (), trials.seeds, trials.records(), quick)


def judge_alignment(errors: Mapping[str, Sequence[float]], changes: Mapping[str, Sequence[float]]) -> Verdict:
    """Whether every attention aligns better than every baseline, and most outputs depend on its weights."""
    gains = [
        above(
            f"error rate of {baseline} less that of the {name}, in points", difference(errors[name], errors[baseline])
        )
        for name in changes
        for baseline in reversed(BASELINES)
    ]
    depends = [
        above(f"outputs of the {name} changed by permuted weights, in percent", t_interval(rows), 50.0)
        for name, rows in changes.items()
    ]
    rates = ", ".join(f"{name} {t_interval(rows).text('%')}" for name, rows in errors.items())
    return judge([*gains, *depends], f"Alignment error rates: {rates}.")
