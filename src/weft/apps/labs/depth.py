"""Depth: eight layers need skip connections.

Layers of a recurrent network can be stacked: the outputs of one are the inputs of the next. Before training, a layer
passes on a faint copy of what it reads (the gates of an LSTM are half open), so after eight layers little is left of
the source, and of the gradient on its way back; such a network learns late or not at all. A residual connection adds
the input of a layer to its output, a dense one gives every layer the outputs of all layers below it. Either way there
is a path around each layer, and depth costs nothing.

The lab trains models to copy letters, all for the same number of steps, with 2, 4 and 8 plain, residual or dense layers
on one side and one layer on the other. In a deep encoder every letter has to pass through all layers before attention
reads it from the top one. In a deep decoder the attention reads the source beside its layers, so less depends on them.
If the claim is right, 8 plain layers do worse than 2 on either side, and 8 residual ones do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs.intervals import points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import draw_letters, share_right, training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.statistics import number
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="depth",
    claim="Eight plain recurrent layers copy worse than two, eight residual ones not: in encoder and decoder",
    paper="Britz et al. 2017, their table on depth (BLEU): encoders of 2 layers 21.78 ± 0.05, of 8 plain ones "
    "21.32 ± 0.14, of 8 with residual connections 19.23 ± 1.96, with dense ones 17.30 ± 2.64; decoders of 2 layers "
    "21.78 ± 0.05, of 8 plain ones 1.42 ± 0.23, residual 16.99 ± 0.42, dense 20.97 ± 0.34. The collapse is that of "
    "decoders; in encoders, skip connections did harm.",
    trains="LSTMs with attention that copy up to 8 letters: 2, 4 and 8 layers on either side, plain, residual, dense.",
    seconds=100,
    next=(
        "Give the layers more time: weft.labs.depth(steps=800). Does depth only delay learning?",
        "Is one layer enough? weft.labs.depth(layers=(1, 2, 3)).",
    ),
)
LETTERS = 8
SIDES = ("encoder", "decoder")
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
    sides: Sequence[str] = SIDES,
    layers: tuple[int, ...] = (2, 4, 8),
    skips: bool = True,
    steps: int = 200,
) -> LabResult:
    """Run the lab. ``sides``: which are deep, one at a time; ``skips``: whether skip connections are made."""
    steps = max(steps // 6, 1) if quick else steps

    def condition(side: str, count: int, connections: str) -> Condition:
        return Condition(count, connections if skips and count > 1 else "plain", side, steps)

    grid = {(side, name): [condition(side, n, name) for n in layers] for side in sides for name in CONNECTIONS}
    trials = run_trials(trial, list(dict.fromkeys(c for row in grid.values() for c in row)), seeds)
    rows: list[Row] = [
        (f"{side}, {name}", *(trials.percent(c, "right") for c in row)) for (side, name), row in grid.items()
    ]
    header = ("deep side, connections", *(f"{count} layer{'s' * (count > 1)}" for count in layers))
    right = {key: [trials.values(c, "right") for c in row] for key, row in grid.items()}
    charts = []
    for side in sides:
        shares = ", ".join(f"{name} {number(round(fmean(right[side, name][-1])))} %" for name in CONNECTIONS)
        series = tuple(
            Series(name, tuple((c.layers, trials.percent(c, "right")) for c in grid[side, name]))
            for name in CONNECTIONS
        )
        title = f"Letters right with {layers[-1]} layers in the {side}: {shares}"
        charts.append(Chart(side, title, f"layers of the {side}", "letters right (%)", series, log_x=True))
    values = {side: (right[side, "plain"][0], right[side, "plain"][-1], right[side, "residual"][-1]) for side in sides}
    verdict = judge_depth(values, layers[0], layers[-1])
    tables = (Table(header, rows, "Letters right, in percent"),)
    return LabResult(LAB, verdict, tables, tuple(charts), (), trials.seeds, trials.records(), quick)


def judge_depth(
    right: Mapping[str, tuple[list[float], list[float], list[float]]], shallow: int = 2, deep: int = 8
) -> Verdict:
    """Of each side, the letters right, in percent, of each seed: few plain layers, many plain ones, many residual."""
    checks, findings = [], []
    for side, (few, plain, residual) in right.items():
        lost, kept = points(plain, few), points(few, residual)
        findings.append(
            f"compared with {shallow} plain layers in the {side}, {deep} plain ones lose {lost.text('points')} of the "
            f"letters and {deep} residual ones differ by {kept.text('points')}"
        )
        checks += [
            above(f"{side}: loss of {deep} plain layers against {shallow}, in points", lost, MARGIN),
            above(f"{side}: gain of {deep} residual layers against {shallow} plain ones, in points", kept, -MARGIN),
        ]
    return judge(checks, f"{'; '.join(findings).replace('c', 'C', 1)}.")
