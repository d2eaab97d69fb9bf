"""Lengths: what positions do beyond the lengths of training.

A Transformer knows the order of words by their positions alone. A table of learned positions has never used its entry
for position 9 if training ended at 8. Sinusoids have a value for every position, so the paper hoped that a model could
go on to longer sequences. That a value exists does not mean that the model knows what to do with it. Other positions
only say how far two words are apart: biases for ranges of distances (relative), rotations of queries and keys (rotary),
penalties that grow with the distance (ALiBi). A recurrent network counts nothing: it just goes on.

The lab trains models to copy up to 8 letters with seven kinds of positions, and an LSTM with attention, and tests them
on up to 16 letters. Models are told the length of the output, so that no letter is lost because they stop too early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs.intervals import percent, percent_curve, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import draw_letters, share_right, training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="lengths",
    claim="Sinusoids extend to lengths never seen in training, and learned positions do not",
    paper="Vaswani et al. 2017, section 3.5: sinusoids were chosen because they may allow the model to extrapolate to "
    "sequence lengths longer than those of training; learned positions were nearly identical within them. Press et al. "
    "2022, figure 1: beyond the length of training, language models with sinusoids or rotary positions become worse, "
    "those with ALiBi do not.",
    trains="Transformers of two layers with seven kinds of positions, and an LSTM: they copy up to 8 letters.",
    seconds=110,
    next=(
        "What positions look like: weft positions --to positions.svg",
        "Only two kinds, trained longer: weft.labs.lengths(kinds=('sinusoidal', 'rotary'), steps=1200).",
    ),
)
TRAINED, JUDGED = 8, 12
LENGTHS = (4, TRAINED, 10, JUDGED, 16)
RECURRENT = "LSTM"
KINDS: dict[str, dict[str, Any]] = {
    "sinusoidal": {},
    "sinusoidal, halves": {"sinusoids": "halves"},
    "learned": {"positions": "learned"},
    "relative": {"positions": "relative"},
    "rotary": {"positions": "rotary"},
    "ALiBi": {"positions": "alibi"},
    "none": {"positions": "none"},
    RECURRENT: {},
}


class Condition(NamedTuple):
    """Positions, or the recurrent model, and the training."""

    kind: str
    steps: int
    texts: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """The letters that are right, in percent, for each length."""
    stack = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 4, "feed_forward": 128, **KINDS[condition.kind]}
    layer = {"kind": "lstm", "hidden": 64}
    recurrent = {"encoder": layer, "decoder": layer, "attention": {"score": "general"}}
    settings = {
        "data": {"train": "copy", "train_size": 12_000, "options": {"length": TRAINED}},
        "tokenizer": {"kind": "word"},
        "model": {
            "embedding": 64,
            **(recurrent if condition.kind == RECURRENT else {"encoder": stack, "decoder": stack}),
        },
        "training": training_settings(condition.steps, learning_rate=0.005, batch_tokens=600),
    }
    run = train_model(settings, seed=seed)
    return {"right": [share_right(run, draw_letters(condition.texts, length, seed=seed)) for length in LENGTHS]}


def lengths(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, kinds: Sequence[str] = tuple(KINDS), steps: int = 400
) -> LabResult:
    """Run the lab. ``kinds``: names of `KINDS`; ``steps``: updates of each model."""
    size = (max(steps // 6, 1), 16) if quick else (steps, 64)
    conditions = [Condition(kind, *size) for kind in kinds]
    trials = run_trials(trial, conditions, seeds)
    right = {c.kind: trials.values(c, "right") for c in conditions}
    rows: list[Row] = [(kind, *percent_curve(curves)) for kind, curves in right.items()]
    header = ("positions", *(f"{length} letters" for length in LENGTHS))
    drawn = {
        kind: c for kind, c in right.items() if kind not in ("sinusoidal, halves", "none")
    }  # a chart has six at most
    series = tuple(Series(kind, tuple(zip(LENGTHS, percent_curve(c), strict=True))) for kind, c in drawn.items())
    at = LENGTHS.index(JUDGED)
    means = {kind: fmean(curve[at] for curve in curves) for kind, curves in right.items()}
    best = max(means, key=means.__getitem__)
    title = f"At {JUDGED} letters: {best} {means[best]:.0f} % right, {', '.join(_others(means, best))}"
    chart = Chart("length", title, f"letters (training: up to {TRAINED})", "letters right (%)", series)
    verdict = judge_lengths({kind: right.get(kind, [[0.0] * len(LENGTHS)]) for kind in ("sinusoidal", "learned")})
    table = Table(header, rows, "Letters right, in percent")
    return LabResult(LAB, verdict, (table,), (chart,), (untrained(right),), trials.seeds, trials.records(), quick)


def untrained(right: Mapping[str, list[list[float]]]) -> str:
    """Which kinds have not learned the lengths of training, so that nothing follows from their fall beyond them."""
    at = LENGTHS.index(TRAINED)
    kinds = [kind for kind, curves in right.items() if fmean(curve[at] for curve in curves) < 90]
    return f"Below 90 % at {TRAINED} letters already, so not comparable beyond: {', '.join(kinds) or 'none'}."


def _others(means: Mapping[str, float], best: str) -> list[str]:
    return [f"{kind} {means[kind]:.0f}" for kind in ("sinusoidal", "learned") if kind in means and kind != best]


def judge_lengths(right: Mapping[str, list[list[float]]]) -> Verdict:
    """By kind of positions and seed, the letters right at each of the `LENGTHS`, in percent."""
    trained, beyond = (
        {kind: [curve[LENGTHS.index(length)] for curve in curves] for kind, curves in right.items()}
        for length in (TRAINED, JUDGED)
    )
    learned, extended = percent(trained["sinusoidal"]), percent(beyond["sinusoidal"])
    gain, lost = points(beyond["learned"], beyond["sinusoidal"]), percent(beyond["learned"])
    checks = [
        above(f"letters right at {TRAINED} letters, sinusoidal, in percent", learned, 90.0),
        above(f"letters right at {JUDGED} letters, sinusoidal, in percent", extended, 90.0),
        above(f"letters right at {JUDGED} letters, sinusoidal less learned, in points", gain, 5.0),
    ]
    sentence = (
        f"With sinusoids, {learned.text('%')} of the letters are right at {TRAINED} letters, the end of training, and "
        f"{extended.text('%')} at {JUDGED}; with learned positions {lost.text('%')} at {JUDGED}."
    )
    return judge(checks, sentence)
