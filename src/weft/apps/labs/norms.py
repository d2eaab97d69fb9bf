"""Norms and residuals: what holds a deep Transformer together while it is trained.

A Transformer adds what each sub-layer f computes to its input, and normalizes before the sub-layer (pre-norm, as today)
or after the sum (post-norm, as published in 2017):

    pre-norm  x ← x + f(norm(x))           no norm      x ← x + f(x)
    post-norm x ← norm(x + f(x))           no residual  x ← f(norm(x))

Lectures say that residual connections let gradients pass and make training easier, and that layer normalization makes
it faster and stabler. The lab trains all four to copy letters, for the same number of updates, without warm-up and
without clipping, at three learning rates. Speed is how many letters are right on average over the training, at the
rate that suits the variant; stability is how many are right at the end, on average over the rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from weft.apps.labs.intervals import percent, percent_curve, points
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, judge
from weft.pictures.charts import Chart, Row, Series, Table
from weft.text.specials import BEGIN, END, SPECIALS

if TYPE_CHECKING:
    from torch import Tensor

Curves = Mapping[float, Sequence[Sequence[float]]]
"""By learning rate and seed: letters right at points of the training, in percent."""
LAB = Lab(
    name="norms",
    claim="Norms make the training of a Transformer faster and stabler, residuals too; pre-norm beats post-norm",
    paper="Ba et al. 2016: layer normalization shortens training. Xiong et al. 2020: with post-norm a Transformer "
    "needs warm-up, since its gradients near the output are large at first; with pre-norm it does not.",
    trains="Transformers with 3 + 3 layers of width 32 that copy 6 letters: four kinds of blocks, three rates.",
    seconds=60,
    next=("Deeper: weft.labs.norms(layers=6). Which variant suffers most?",),
)
PRE, POST, BARE, CHAIN = VARIANTS = ("pre-norm", "post-norm", "no norm", "no residual")
LEARNING_RATES = (0.001, 0.003, 0.01)
BEST = {PRE: 0.003, POST: 0.001, BARE: 0.003, CHAIN: 0.001}
"""The learning rates at which speed is compared, chosen on seed 11."""
VOCABULARY, LENGTH, BATCH, WIDTH, EVALUATIONS = len(SPECIALS) + 26, 6, 32, 32, 10


class Condition(NamedTuple):
    variant: str
    rate: float
    steps: int
    layers: int


def make_block(variant: str) -> Any:
    """The connection around a sub-layer, in place of weft's `ResidualBlock`."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.Identity() if variant == BARE else nn.LayerNorm(WIDTH)

        def input(self, x: Tensor) -> Tensor:  # of the sub-layer
            return x if variant == POST else self.norm(x)

        def add(self, x: Tensor, output: Tensor) -> Tensor:
            return output if variant == CHAIN else self.norm(x + output) if variant == POST else x + output

    return Block()


def make_model(condition: Condition, seed: int) -> Any:
    from weft.models.build import build_model
    from weft.models.transformer import transformer_stacks

    stack = {"kind": "transformer", "layers": condition.layers, "hidden": WIDTH, "heads": 4, "feed_forward": 2 * WIDTH}
    recipe = weft.make_recipe({"model": {"embedding": WIDTH, "dropout": 0.0, "encoder": stack, "decoder": stack}})
    model = build_model(recipe.model, source_size=VOCABULARY, target_size=VOCABULARY, seed=seed)
    for layers in transformer_stacks(model):
        layers.final_norm = layers.final_norm if condition.variant in (PRE, CHAIN) else None
        for layer in layers.layers:
            for name in [name for name, _ in layer.named_children() if name.endswith("_residual")]:
                setattr(layer, name, make_block(condition.variant))
    return model


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """The percentage of letters that are right after the true ones before them, at points of the training."""
    import torch

    from weft.ragged import Ragged

    def draw(count: int) -> list[list[int]]:
        return torch.randint(len(SPECIALS), VOCABULARY, (count, LENGTH), generator=generator).tolist()

    def logits(texts: list[list[int]]) -> Tensor:
        return model(Ragged.of([[*text, END] for text in texts]), Ragged.of(texts).shifted(BEGIN)).logits_NV

    generator, model = torch.Generator().manual_seed(seed), make_model(condition, seed)
    optimizer, test, right = torch.optim.Adam(model.parameters(), lr=condition.rate), draw(200), []
    for step in range(1, condition.steps + 1):
        texts = draw(BATCH)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits(texts), torch.tensor(texts).flatten()).backward()
        optimizer.step()
        if step * EVALUATIONS // condition.steps > (step - 1) * EVALUATIONS // condition.steps:
            with torch.no_grad():
                right.append(100 * (logits(test).argmax(-1) == torch.tensor(test).flatten()).double().mean().item())
    return {"right": right}


def norms(seeds: int | Sequence[int] = 3, *, quick: bool = False, steps: int = 100, layers: int = 3) -> LabResult:
    """Run the lab. ``layers``: of the encoder, and of the decoder."""
    size = (max(steps // 6, EVALUATIONS) if quick else steps, layers)
    trials = run_trials(trial, [Condition(name, rate, *size) for name in VARIANTS for rate in LEARNING_RATES], seeds)
    curves = {
        name: {c.rate: trials.values(c, "right") for c in trials.conditions if c.variant == name} for name in VARIANTS
    }
    rows: list[Row] = []
    for name, by_rate in curves.items():
        ends = (percent([curve[-1] for curve in by_seed]) for by_seed in by_rate.values())
        rows.append((name, percent(speed(name, by_rate)), *ends))
    times = [size[0] * (index + 1) // EVALUATIONS for index in range(EVALUATIONS)]
    best = {name: percent_curve(by_rate[BEST[name]]) for name, by_rate in curves.items()}
    series = tuple(Series(name, tuple(zip(times, curve, strict=True))) for name, curve in best.items())
    means = ", ".join(f"{name} {fmean(speed(name, by_rate)):.0f} %" for name, by_rate in curves.items())
    chart = Chart("speed", f"Letters right over the training: {means}", "updates", "letters right (%)", series)
    table = Table(("", "training (%)", *(f"end, rate {rate:g} (%)" for rate in LEARNING_RATES)), rows, "Letters right")
    return LabResult(LAB, judge_norms(curves), (table,), (chart,), (), trials.seeds, trials.records(), quick)


def speed(variant: str, curves: Curves) -> list[float]:
    """Letters right on average over the training, of each seed, at the best rate."""
    return [fmean(curve) for curve in curves[BEST[variant]]]


def judge_norms(curves: Mapping[str, Curves]) -> Verdict:
    over = {name: speed(name, by_rate) for name, by_rate in curves.items()}
    seeds = {name: zip(*by_rate.values(), strict=True) for name, by_rate in curves.items()}
    end, checks = {name: [fmean(c[-1] for c in seed) for seed in rows] for name, rows in seeds.items()}, []
    for name in (POST, BARE, CHAIN):
        for what, values in (("over the training", over), ("at the end, all rates", end)):
            gain = points(values[name], values[PRE])
            checks.append(above(f"letters right {what}, {PRE} less {name}, in points", gain, 5.0))
    listed = (", ".join(f"{name} {percent(v).text('%')}" for name, v in values.items()) for values in (over, end))
    return judge(checks, f"Letters right over the training: {next(listed)}; at the end, all rates: {next(listed)}.")
