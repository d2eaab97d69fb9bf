"""Depth: eight layers need skip connections.

Layers of a recurrent network can be stacked: the outputs of one are the inputs of the next. Before training, a layer
passes on a faint copy of what it reads (the gates of an LSTM are half open), so after eight layers little is left of
the source, and of the gradient on its way back; such a network learns late or not at all. A residual connection adds
the input of a layer to its output, a dense one gives every layer the outputs of all layers below it. Either way there
is a path around each layer, and depth costs nothing.

The lab trains models to copy letters, all for the same number of steps, with encoders of 1, 2, 4 and 8 layers and
plain, residual or dense connections. The attention of the decoder reads the top layer of the encoder, so every letter
has to pass through all of its layers. If the claim is right, 8 plain layers do worse than 2, and 8 residual ones not.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Literal, NamedTuple

from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import draw_letters, share_right, training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.statistics import difference, number
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="depth",
    claim="Eight recurrent layers need skip connections",
    paper="Britz et al. 2017, their table on depth (BLEU): with 2 layers 21.78; decoders of 8 plain layers 1.42, with "
    "residual connections 16.99, with dense residual ones 20.97. An encoder of 8 plain layers lost less there: 21.32.",
    trains="LSTMs with attention that copy up to 8 letters: encoders of 1 to 8 layers, plain, residual and dense.",
    seconds=110,
    next=(
        "Deepen the decoder instead: weft.labs.depth(side='decoder'). Attention bypasses its layers here.",
        "Give the plain layers more time: weft.labs.depth(steps=800). Does depth only delay learning?",
    ),
)
LETTERS = 8
SHALLOW = 2
MARGIN = 5.0
"""Points that count as a difference."""
CONNECTIONS = ("plain", "residual", "dense")


class Condition(NamedTuple):
    """A model and its training."""

    layers: int
    connections: str
    side: str
    steps: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """The letters that are right, in percent."""
    layer: dict[str, Any] = {"kind": "lstm", "hidden": 32}
    sides: dict[str, dict[str, Any]] = {"encoder": layer | {"bidirectional": False}, "decoder": dict(layer)}
    sides[condition.side] |= {"layers": condition.layers, "connections": condition.connections}
    run = train_model(
        {
            "data": {"train": "copy", "train_size": 4_000, "options": {"length": LETTERS}},
            "tokenizer": {"kind": "word"},
            "model": {"embedding": 32, "attention": {"score": "general"}, **sides},
            "training": training_settings(condition.steps, learning_rate=0.005, batch_tokens=512),
        },
        seed=seed,
    )
    return {"right": share_right(run, draw_letters(100, LETTERS, seed=seed))}


def depth(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    side: Literal["encoder", "decoder"] = "encoder",
    layers: tuple[int, ...] = (1, 2, 4, 8),
    skips: bool = True,
    steps: int = 200,
) -> LabResult:
    """Run the lab. ``side``: which is deep, encoder or decoder; ``skips``: whether skip connections are made."""
    steps = max(steps // 6, 1) if quick else steps

    def condition(count: int, connections: str) -> Condition:
        return Condition(count, connections if skips and count > 1 else "plain", side, steps)

    grid = {name: [condition(count, name) for count in layers] for name in CONNECTIONS}
    deepest = max(layers)
    shallow = condition(min(SHALLOW, deepest), "plain")
    trials = run_trials(trial, list(dict.fromkeys([shallow, *(c for row in grid.values() for c in row)])), seeds)
    rows: list[Row] = [(name, *(trials.estimate(c, "right") for c in row)) for name, row in grid.items()]
    header = ("connections", *(f"{count} layer{'s' * (count > 1)}" for count in layers))
    caption = "Letters right, in percent; a single layer is trained once"
    series = tuple(
        Series(name, tuple((c.layers, trials.estimate(c, "right")) for c in row)) for name, row in grid.items()
    )
    values = {name: trials.values(condition(deepest, name), "right") for name in CONNECTIONS}
    shares = ", ".join(f"{name} {number(round(fmean(numbers)))} %" for name, numbers in values.items())
    title = f"Letters right with {deepest} layers: {shares}"
    charts = (Chart("layers", title, f"layers of the {side}", "letters right (%)", series, log_x=True),)
    verdict = judge_depth(trials.values(shallow, "right"), values["plain"], values["residual"], deepest)
    tables = (Table(header, rows, caption),)
    return LabResult(LAB, verdict, tables, charts, (), trials.seeds, trials.records(), quick)


def judge_depth(shallow: list[float], plain: list[float], residual: list[float], deepest: int = 8) -> Verdict:
    """The letters right, in percent, of each seed: with two plain layers, and with the most plain and residual ones."""
    lost, kept = difference(plain, shallow), difference(shallow, residual)
    sentence = (
        f"Compared with {SHALLOW} plain layers, {deepest} plain layers lose {lost.text('points')} of the letters; "
        f"with residual connections, {deepest} layers differ by {kept.text('points')}."
    )
    checks = [
        above(f"loss of {deepest} plain layers against {SHALLOW}, in points", lost, MARGIN),
        above(f"gain of {deepest} residual layers against {SHALLOW} plain ones, in points", kept, -MARGIN),
    ]
    return judge(checks, sentence)
