"""Vanishing gradients: what the loss at the end of a text still says to the states at its beginning.

A network learns that a word at step T depends on one at step t if the gradient ‖∂loss_T/∂h_t‖ is not lost on the way
back. In a vanilla RNN each step multiplies it by the recurrent weights and by the slope of tanh, which is at most 1, so
it shrinks exponentially. The cell state of an LSTM is added to, not multiplied by a matrix; attention is a direct path.

The lab trains language models to repeat letters (``a b c = a b c``), so that every letter depends on one many steps
back. In weft a state is a value: step through a text, keep the states, and let autograd differentiate the last loss by
all of them. Untrained, the slope of its logarithm says how fast it vanishes; trained, how much of it gets that far.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import weft
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.letters import draw_letters, training_settings
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, below, judge
from weft.evaluation.statistics import Estimate, difference, mean_curve, number, slope, t_interval
from weft.pictures.charts import Chart, Row, Series, Table
from weft.tasks import generate

LAB = Lab(
    name="gradients",
    claim="Untrained, an RNN's gradient halves in ten steps back or fewer; LSTM and attention keep more of it",
    paper="Pascanu et al. 2013, section 2: gradients vanish exponentially with small recurrent weights.",
    trains="Language models that repeat up to 16 letters, two for each seed: an RNN, an LSTM, an RNN with attention.",
    seconds=120,
    next=(
        "Train longer: weft.labs.gradients(steps=1200). Which of the three curves still changes?",
        "Switch attention off: weft.labs.gradients(attention='none'). Then two models are one.",
    ),
)
LONGEST = 16  # letters of a text, which are repeated once
RNN, LSTM, ATTENTION = "vanilla RNN", "LSTM", "RNN with attention"


class Condition(NamedTuple):
    """A model and its training."""

    cell: str
    attention: str
    steps: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """The logarithms of the gradient norms by distance, before and after training."""
    from weft.models.build import build_model

    decoder, attention = {"kind": condition.cell, "hidden": 64}, {"score": condition.attention}
    texts = [pair.source for pair in generate("copy", "train", 6_000, seed=seed, options={"length": LONGEST})]
    run = train_model(
        {
            "data": {"prompts": True},
            "tokenizer": {"kind": "word"},
            "model": {"kind": "language_model", "embedding": 32, "decoder": decoder, "attention": attention},
            "training": training_settings(condition.steps, learning_rate=0.005),
        },
        seed=seed,
        pairs=(weft.Pair(f"{text} =", text) for text in texts),
    )
    size = run.tokenizers.target.size
    untrained = build_model(run.recipe.model, source_size=size, target_size=size, seed=run.recipe.seed)
    ids = run.tokenizers.target.encode_batch([f"{text} = {text}" for text in draw_letters(64, LONGEST, seed=seed)])
    return {"initial": log_norms(untrained.eval(), ids), "trained": log_norms(run.model, ids)}


def log_norms(model: Any, texts: Sequence[Sequence[int]]) -> list[float]:
    """log₁₀ ‖∂loss_T/∂h_t‖ by distance T − t = 0, 1, …, mean over texts; h_t: the whole state, of an LSTM h and c."""
    import torch

    from weft.ragged import Ragged
    from weft.text.specials import BEGIN

    tokens_BT = torch.tensor([[BEGIN, *ids] for ids in texts])
    state = model.start(memory := model.encode(Ragged.of([[] for _ in texts])))
    states: list[Any] = []
    for tokens_B in tokens_BT[:, :-1].unbind(1):
        logits_BV, state, _ = model.step(tokens_B, state, memory)
        layers = tuple((h_BD, *map(torch.clone, cell)) for h_BD, *cell in state.layers)  # h_t is made of c_t: apart
        states.append((state := state._replace(layers=layers)).layers[-1])
    loss = torch.nn.functional.cross_entropy(logits_BV, tokens_BT[:, -1], reduction="sum")
    gradients = torch.autograd.grad(loss, [part for step in states for part in step], materialize_grads=True)
    by_step = [torch.cat(part, -1) for part in zip(*[iter(gradients)] * len(states[0]), strict=True)]
    return [float(gradient_BD.norm(dim=-1).clamp(min=1e-30).log10().mean()) for gradient_BD in reversed(by_step)]


def gradients(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, attention: str = "general", steps: int = 300
) -> LabResult:
    """Run the lab. ``attention``: the score of the model with attention."""
    models = {RNN: ("rnn", "none"), LSTM: ("lstm", "none"), ATTENTION: ("rnn", attention)}
    conditions = {name: Condition(*model, max(steps // 6, 1) if quick else steps) for name, model in models.items()}
    trials = run_trials(trial, list(dict.fromkeys(conditions.values())), seeds, models=1 if quick else 2)
    curves = {stage: {name: trials.values(c, stage) for name, c in conditions.items()} for stage in STAGES}
    summaries = [summarize(curves[stage], stage) for stage in STAGES]
    rows: list[Row] = [(name, *(t_interval(summary[name]) for summary in summaries)) for name in conditions]
    sizes = (f"{number(10 ** fmean(log[-1] for log in logs))} ({name})" for name, logs in curves["initial"].items())
    note = f"In absolute size, before training, {2 * LONGEST} steps back: {', '.join(sizes)}; weights start orthogonal."
    table, verdict = Table(("", *(what for what, _, _ in STAGES.values())), rows), judge_curves(curves)
    charts = tuple(_chart(curves[stage], stage) for stage in STAGES)
    return LabResult(LAB, verdict, (table,), charts, (note,), trials.seeds, trials.records(), quick)


def decay(curve: Sequence[float]) -> float:
    """The slope of log₁₀ ‖∂loss_T/∂h_t‖ over distances from 1 on, per ten steps."""
    return 10 * slope(range(1, len(curve)), curve[1:])


def reach(curve: Sequence[float]) -> float:
    """The gradient at the letter that is repeated, relative to that one step back, as a power of ten."""
    return curve[LONGEST] - curve[1]


STAGES = {
    "initial": ("slope before training (powers of ten in 10 steps)", decay, 0.02),
    "trained": (f"reach after training (log₁₀ of the gradient {LONGEST} steps back / 1 step back)", reach, 0.1),
}


def summarize(curves: dict[str, list[list[float]]], stage: str) -> dict[str, list[float]]:
    """The slope, or the reach, of each model and seed."""
    return {name: [STAGES[stage][1](curve) for curve in by_seed] for name, by_seed in curves.items()}


def judge_curves(curves: dict[str, dict[str, list[list[float]]]]) -> Verdict:
    """``curves``: by stage and model, those of each seed."""
    slopes = t_interval(summarize(curves["initial"], "initial")[RNN])
    checks, findings = [below(f"{STAGES['initial'][0]}, {RNN}", slopes, -0.3)], []  # 10^−0.3 is a half
    for stage, (what, _, threshold) in STAGES.items():
        values = summarize(curves[stage], stage)
        findings.append(f"{what}: {', '.join(f'{name} {t_interval(v).text()}' for name, v in values.items())}")
        gains = {name: difference(values[RNN], values[name]) for name in (LSTM, ATTENTION)}
        checks += [above(f"{what}, {name} beyond {RNN}", gain, threshold) for name, gain in gains.items()]
    return judge(checks, f"Measured: {'; '.join(findings)}.")


def _chart(curves: dict[str, list[list[float]]], stage: str) -> Chart:
    series = []
    for name, by_seed in curves.items():
        norms = [Estimate(10**log.mean, 10**log.low, 10**log.high) for log in mean_curve(by_seed)]
        series.append(Series(name, tuple(enumerate(norms))))
    means = (f"{name} {number(fmean(v), decimals=2)}" for name, v in summarize(curves, stage).items())
    title = f"{STAGES[stage][0].capitalize()}: {', '.join(means)}"
    return Chart(stage, title, "distance T − t (steps)", "‖∂loss at T / ∂state at t‖", tuple(series), log_y=True)
