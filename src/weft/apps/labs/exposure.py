"""Exposure bias: teacher forcing trains on states that the decoder will not see.

With teacher forcing the decoder reads the reference: at every step the letter before is right. When it translates, it
reads its own output, in which letters may be wrong, and a wrong letter leads to states that no training step has shown
it. So an error makes the next one more likely, and the longer the output, the more of them there can be. Scheduled
sampling gives the decoder its own predictions already in training, more and more of them as training goes on; free
running gives it nothing else.

The lab trains models to copy 4 to 16 different letters. Each letter occurs once, so the letter before says where to
go on reading, as long as it is right. Errors are counted twice at each position: after the model's own letters and
after those of the reference. Whatever is hard about a position is part of both; their difference, the exposure gap, is
due to the model's own letters alone. It is 0 at the first position, and grows if the claim is right. A training can
also shrink it by being worse after the reference, so a smaller gap counts only together with fewer errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import weft
from weft.apps.labs.intervals import mean_points, percent, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import copied_letters, draw_letters, forced_errors, training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.statistics import number
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="exposure",
    claim="Teacher forcing: own errors cause ever more errors; scheduled sampling: fewer, in gap and in all",
    paper="Bengio et al. 2015, abstract: errors can accumulate quickly along the generated sequence; scheduled "
    "sampling brought significant improvements on several tasks, among them the captioning of images.",
    trains="LSTMs with attention that copy up to 16 letters, by teacher forcing, scheduled sampling and free running.",
    seconds=80,
    next=(
        "Sample less: weft.labs.exposure(sampling=0.25), the default of a recipe. How much of the gap is left?",
        "Sample never: weft.labs.exposure(sampling=0.0). Then both trainings are the same.",
    ),
)
LONGEST = 16
TEACHER, SCHEDULED, FREE = "teacher forcing", "scheduled sampling", "free running"
KINDS = {
    "own": "error after own letters (%)",
    "reference": "error after the reference (%)",
    "gap": "exposure gap (points)",
}
INTERVALS = {"own": percent, "reference": percent, "gap": mean_points}
FORCING = {TEACHER: "teacher", SCHEDULED: "scheduled", FREE: "free"}


class Condition(NamedTuple):
    """The training of the decoder."""

    forcing: str
    sampling: float
    steps: int
    texts: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """The errors at each position, in percent, after the model's own letters and after those of the reference."""
    layer, random = {"kind": "lstm", "hidden": 32}, Random(seed)
    drawn = {length: iter(draw_letters(1_000, length, seed=seed, repeats=False)) for length in range(4, LONGEST + 1)}
    training = [next(drawn[random.choice([*drawn])]) for _ in range(10_000)]
    run = train_model(
        {
            "tokenizer": {"kind": "word"},
            "model": {"embedding": 32, "encoder": layer, "decoder": layer, "attention": {"score": "general"}},
            "training": training_settings(condition.steps, learning_rate=0.01)
            | {"forcing": condition.forcing, "sampling": condition.sampling},
        },
        seed=seed,
        pairs=(weft.Pair(text, text) for text in training),
    )
    texts = draw_letters(condition.texts, LONGEST, seed=seed + 1_000, repeats=False)
    own, reference = [100 - right for right in copied_letters(run, texts)], forced_errors(run, texts)
    return {"own": own, "reference": reference, "gap": [a - b for a, b in zip(own, reference, strict=True)]}


def exposure(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, sampling: float = 1.0, steps: int = 300
) -> LabResult:
    """Run the lab. ``sampling``: how often scheduled sampling uses the model's own letters at the end of training."""
    scale = (max(steps // 6, 1), 50) if quick else (steps, 200)
    conditions = {name: Condition(forcing, sampling, *scale) for name, forcing in FORCING.items()}
    trials = run_trials(trial, list(conditions.values()), seeds)
    curves = {kind: {name: trials.values(c, kind) for name, c in conditions.items()} for kind in KINDS}
    rows: list[Row] = [
        (name, *(INTERVALS[kind]([late(curve) for curve in curves[kind][name]]) for kind in KINDS))
        for name in conditions
    ]
    tables = (Table(("training", *KINDS.values()), rows, f"Means over the second half of {LONGEST} letters"),)
    charts = tuple(_chart(kind, curves[kind]) for kind in KINDS)
    verdict = judge_gaps(curves["gap"], curves["own"])
    return LabResult(LAB, verdict, tables, charts, (), trials.seeds, trials.records(), quick)


def early(curve: Sequence[float]) -> float:
    """The mean of the first half."""
    return fmean(curve[: len(curve) // 2])


def late(curve: Sequence[float]) -> float:
    """The mean of the second half."""
    return fmean(curve[len(curve) // 2 :])


def judge_gaps(gaps: Mapping[str, list[list[float]]], errors: Mapping[str, list[list[float]]]) -> Verdict:
    """``gaps``: by training, for each seed and position, what own letters add to the error, in points.

    ``errors``: the errors after own letters, in percent.
    """
    growth = points([early(curve) for curve in gaps[TEACHER]], [late(curve) for curve in gaps[TEACHER]])
    smaller, fewer = (
        points([late(curve) for curve in kind[SCHEDULED]], [late(curve) for curve in kind[TEACHER]])
        for kind in (gaps, errors)
    )
    sentence = (
        f"Under {TEACHER}, own letters add {growth.text('points')} more to the error in the second half of the outputs "
        f"than in the first. In the second half, {SCHEDULED} has an exposure gap that is {smaller.text('points')} "
        f"smaller, and {fewer.text('points')} fewer errors after own letters."
    )
    checks = [
        above(f"growth of the exposure gap from the first to the second half under {TEACHER}, in points", growth, 2.0),
        above(f"how much smaller the gap in the second half is under {SCHEDULED}, in points", smaller, 2.0),
        above(f"errors after own letters in the second half, {TEACHER} less {SCHEDULED}, in points", fewer, 0.0),
    ]
    return judge(checks, sentence)


def _chart(kind: str, curves: dict[str, list[list[float]]]) -> Chart:
    means = (f"{name} {number(round(fmean(map(late, by_seed))))}" for name, by_seed in curves.items())
    curve = {name: [INTERVALS[kind](at) for at in zip(*by_seed, strict=True)] for name, by_seed in curves.items()}
    series = tuple(Series(name, tuple(enumerate(estimates, 1))) for name, estimates in curve.items())
    title = f"{KINDS[kind].capitalize()}, second half: {', '.join(means)}"
    return Chart(kind, title, "position in the output (letters)", KINDS[kind], series)
