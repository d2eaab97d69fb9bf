"""Bottleneck: one vector cannot hold a long source.

An encoder without attention hands over its last state, a vector of fixed width, and the decoder must produce the whole
output from it. A random letter carries log₂ 26 = 4.7 bits, so twelve letters are 56 bits: what does not fit into the
vector, or was not learned to fit, is lost. With attention the decoder reads the states of all source positions, of
which there are as many as letters, so nothing has to be squeezed.

The lab trains models to copy up to 12 random letters, with and without attention, narrow and wide, all for the same
number of steps, and counts the letters that are right in copies of 2 to 40 letters. If the claim is right, the gap
between the two grows with the length of the source and shrinks with the width of the vector. The attention is that of
Bahdanau et al. with the location feature of Chorowski et al. 2015, which helps it to keep its place beyond 12 letters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs.intervals import mean_points, percent, percent_curve, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import draw_letters, share_right, training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import Trials, run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.statistics import Estimate, number, slope, t_interval
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="bottleneck",
    claim="One vector cannot hold a long source; attention cures it",
    paper="Bahdanau et al. 2015, table 1 (BLEU, all sentences), for models trained on up to 30 and 50 words: 13.93 and "
    "17.82 without attention, 21.50 and 26.75 with it; figure 2: without attention BLEU falls with length.",
    trains="LSTMs that copy up to 12 letters: 32 and 128 units, with attention and without, 250 steps each.",
    seconds=90,
    next=(
        "A still wider vector: weft.labs.bottleneck(widths=(32, 256)). How much of the gap is left at 12 letters?",
        "Switch attention off in both: weft.labs.bottleneck(attention='none'). Then nothing can be gained.",
    ),
)
TRAINED = 12  # letters of the longest source in training
LENGTHS = (2, 4, 6, 8, 10, 12, 16, 20, 30, 40)


class Condition(NamedTuple):
    """A model and its training."""

    width: int
    attention: str
    steps: int
    texts: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """The letters that are right, in percent, for each length."""
    layer = {"kind": "lstm", "hidden": condition.width}
    attention = {"score": condition.attention, "location": condition.attention == "additive", "size": 32}
    settings = {
        "data": {"train": "copy", "train_size": 12_000, "options": {"length": TRAINED}},
        "tokenizer": {"kind": "word"},
        "model": {"embedding": 32, "encoder": layer, "decoder": layer, "attention": attention},
        "training": training_settings(condition.steps, learning_rate=0.006),
    }
    run = train_model(settings, seed=seed)
    return {"right": [share_right(run, draw_letters(condition.texts, length, seed=seed)) for length in LENGTHS]}


def bottleneck(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    attention: str = "additive",
    widths: tuple[int, int] = (32, 128),
    steps: int = 250,
) -> LabResult:
    """Run the lab. ``attention``: the score of the models with attention; ``widths``: two hidden sizes."""
    scale = (max(steps // 6, 1), 16) if quick else (steps, 64)
    pairs = [(Condition(width, "none", *scale), Condition(width, attention, *scale)) for width in widths]
    conditions = list(dict.fromkeys(condition for pair in pairs for condition in pair))
    trials = run_trials(trial, conditions, seeds)
    gaps = [_gaps(trials, pair) for pair in pairs]
    at_trained = fmean(curve[LENGTHS.index(TRAINED)] for curve in gaps[0])
    finding = f"{number(round(at_trained))} points between attention and one vector of {widths[0]} units at 12 letters"
    series = tuple(Series(_name(condition), _points(trials.values(condition, "right"))) for condition in conditions)
    by_width = tuple(Series(f"{width} units", _points(curves)) for width, curves in zip(widths, gaps, strict=True))
    narrow_gap, wide_gap = (number(round(fmean(map(fmean, _trained(curves))))) for curves in gaps)
    gap_title = f"The gap up to 12 letters: {narrow_gap} points with {widths[0]} units, {wide_gap} with {widths[1]}"
    length_label = f"source length (letters; training: up to {TRAINED})"
    charts = (
        Chart("length", finding, length_label, "letters right (%)", series, log_x=True),
        Chart("gap", gap_title, length_label, "gain of attention (points)", by_width, log_x=True),
    )
    beyond = [trials.values(condition, "right") for _, condition in pairs]
    shares = (percent([curve[-1] for curve in curves]).text("%") for curves in beyond)
    right = ", ".join(f"{share} with {width} units" for share, width in zip(shares, widths, strict=True))
    notes = (f"Training ended at {TRAINED} letters. At {LENGTHS[-1]}, the letters right with attention are {right}.",)
    table = _table(trials, conditions)
    verdict = judge_gaps(gaps[0], gaps[1], [curve[LENGTHS.index(TRAINED)] for curve in beyond[0]])
    return LabResult(LAB, verdict, (table,), charts, notes, trials.seeds, trials.records(), quick)


def judge_gaps(narrow: list[list[float]], wide: list[list[float]], right: list[float]) -> Verdict:
    """For each seed: the gain of attention at all `LENGTHS`, in points, and the letters right with it, in percent."""
    doublings = [math.log2(length) for length in LENGTHS]
    growth = t_interval([slope(doublings, curve) for curve in narrow])
    shrinkage = points([fmean(curve) for curve in _trained(wide)], [fmean(curve) for curve in _trained(narrow)])
    cured = percent(right)
    sentence = (
        f"With the narrow vector, the gain of attention grows by {growth.text('points')} each time the source doubles; "
        f"up to {TRAINED} letters it is {shrinkage.text('points')} larger than with the wide one."
    )
    checks = [
        above("growth of the gain of attention per doubling of the source, in points", growth, 2.0),
        above(
            f"gain with the narrow vector beyond that with the wide one, up to {TRAINED} letters, in points",
            shrinkage,
            2.0,
        ),
        above(f"letters right with attention and the narrow vector at {TRAINED} letters, in percent", cured, 90.0),
    ]
    return judge(checks, sentence)


def _trained(curves: list[list[float]]) -> list[list[float]]:
    """The part up to the longest source in training."""
    return [curve[: LENGTHS.index(TRAINED) + 1] for curve in curves]


def _gaps(trials: Trials, pair: tuple[Condition, Condition]) -> list[list[float]]:
    """For each seed and length, what attention adds."""
    without, with_attention = (trials.values(condition, "right") for condition in pair)
    curves = zip(without, with_attention, strict=True)
    return [[after - before for before, after in zip(*both, strict=True)] for both in curves]


def _points(curves: list[list[float]]) -> tuple[tuple[float, Estimate], ...]:
    return tuple((length, mean_points(values)) for length, *values in zip(LENGTHS, *curves, strict=True))


def _name(condition: Condition) -> str:
    return f"{'no ' if condition.attention == 'none' else ''}attention, {condition.width} units"


def _table(trials: Trials, conditions: list[Condition]) -> Table:
    columns = [percent_curve(trials.values(condition, "right")) for condition in conditions]
    rows: list[Row] = [(str(length), *cells) for length, *cells in zip(LENGTHS, *columns, strict=True)]
    return Table(("letters", *map(_name, conditions)), rows, "Letters right, in percent")
