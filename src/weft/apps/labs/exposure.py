"""Exposure bias: teacher forcing trains on states that the decoder will not see.

With teacher forcing the decoder reads the reference: at every step the letter before is right. When it translates, it
reads its own output, in which letters may be wrong, and a wrong letter leads to states that no training step has shown
it. So an error makes the next one more likely, and the longer the output, the more of them there can be. Scheduled
sampling gives the decoder its own predictions already in training, more and more of them as training goes on; free
running gives it nothing else.

The lab trains models to copy 4 to 16 different letters. Each letter occurs once, so the letter before says where to
go on reading, as long as it is right. Errors are counted twice at each position: after the model's own letters and
after those of the reference. Whatever is hard about a position is part of both; their difference, the exposure gap, is
due to the model's own letters alone. It is 0 at the first position, and grows if the claim is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import weft
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import copied_letters, draw_letters, training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.evaluation.statistics import Estimate, difference, mean_curve, number, t_interval
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="exposure",
    claim="Under teacher forcing, own errors cause more errors along the output; less under scheduled sampling",
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


def forced_errors(run: weft.Translator, texts: Sequence[str]) -> list[float]:
    """The errors at each position, in percent, of the most likely letters after those of the reference."""
    import torch

    from weft.ragged import Ragged
    from weft.text.specials import BEGIN, END

    ids = run.tokenizers.target.encode_batch(texts)
    targets = Ragged.of(ids)
    letters_L = targets.values.unique()
    with torch.no_grad():
        logits_NV = run.model(Ragged.of([[*row, END] for row in ids]), targets.shifted(BEGIN)).logits_NV
    predicted_N = letters_L[logits_NV[:, letters_L].argmax(-1)]
    wrong_BT = (predicted_N != targets.values).view(len(ids), -1)
    return [100 * share for share in wrong_BT.double().mean(0).tolist()]


def exposure(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, sampling: float = 1.0, steps: int = 300
) -> LabResult:
    """Run the lab. ``sampling``: how often scheduled sampling uses the model's own letters at the end of training."""
    scale = (max(steps // 6, 1), 50) if quick else (steps, 200)
    conditions = {name: Condition(forcing, sampling, *scale) for name, forcing in FORCING.items()}
    trials = run_trials(trial, list(conditions.values()), seeds)
    curves = {kind: {name: trials.values(c, kind) for name, c in conditions.items()} for kind in KINDS}
    rows: list[Row] = [
        (name, *(t_interval([late(curve) for curve in curves[kind][name]]) for kind in KINDS)) for name in conditions
    ]
    tables = (Table(("training", *KINDS.values()), rows, f"Means over the second half of {LONGEST} letters"),)
    charts = tuple(_chart(kind, curves[kind]) for kind in ("gap", "own"))
    wrong = (f"{row[1].mean:.0f} % under {row[0]}" for row in rows if isinstance(row[1], Estimate))
    notes = (f"The gap is not the error: after own letters, {', '.join(wrong)} are wrong in the second half.",)
    return LabResult(LAB, judge_gaps(curves["gap"]), tables, charts, notes, trials.seeds, trials.records(), quick)


def late(curve: Sequence[float]) -> float:
    """The mean of the second half."""
    return fmean(curve[len(curve) // 2 :])


def judge_gaps(gaps: dict[str, list[list[float]]]) -> Verdict:
    """``gaps``: by training, for each seed and position, what own letters add to the error, in points."""
    teacher, scheduled = ([late(curve) for curve in gaps[name]] for name in (TEACHER, SCHEDULED))
    growth, less = t_interval(teacher), difference(scheduled, teacher)
    sentence = (
        f"In the second half of the outputs, own letters add {growth.text('points')} to the error under {TEACHER}; "
        f"under {SCHEDULED} they add {less.text('points')} less."
    )
    checks = [
        above(f"exposure gap in the second half under {TEACHER}, in points", growth, 2.0),
        above(f"how much smaller it is under {SCHEDULED}, in points", less, 2.0),
    ]
    return judge(checks, sentence)


def _chart(kind: str, curves: dict[str, list[list[float]]]) -> Chart:
    means = (f"{name} {number(round(fmean(map(late, by_seed))))}" for name, by_seed in curves.items())
    what = "Exposure gap in points" if kind == "gap" else "Percent wrong after own letters"
    series = tuple(Series(name, tuple(enumerate(mean_curve(by_seed), 1))) for name, by_seed in curves.items())
    title = f"{what}, second half: {', '.join(means)}"
    return Chart(kind, title, "position in the output (letters)", KINDS[kind], series)
