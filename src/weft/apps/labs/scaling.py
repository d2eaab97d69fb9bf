"""Scaling: why attention divides its scores by √d.

The components of a query q and of a key k are drawn at random, independently, with mean 0 and variance 1. Their
product q·k is a sum of d terms of variance 1, so its variance is d and its typical size √d. With a width of 1,024, the
scores of one query differ by 30 and more; the softmax of such scores gives nearly all weight to one key, and its
gradient becomes small: moving a score a little changes little. Divided by √d, the scores have variance 1 at every
width. At small widths the scaling is no help: a softmax that is neither flat nor saturated passes the most gradient, so
up to about d = 64 the unscaled scores pass more of it.

The lab computes the dot score and the scaled dot score of weft for random vectors of many widths, and measures the
variance of the scores, the entropy of the softmax over 64 keys, and the gradient that passes through it. On log-log
axes the variance is a straight line whose slope is the exponent: 1 for q·k, 0 for q·k/√d. The claim about the gradient
is tested at the largest width; the table says at which width it begins to be true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from weft.apps.labs.intervals import factor
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.trials import Trials, run_trials
from weft.apps.labs.verdicts import Verdict, below, judge, within
from weft.evaluation.statistics import Estimate, number, slope, t_interval
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="scaling",
    claim="Var(q·k) = d; at d = 1,024 the softmax of q·k passes under half the gradient of q·k/√d",
    paper="Vaswani et al. 2017, section 3.2.1 and footnote 4: if the components of q and k are independent with mean 0 "
    "and variance 1, q·k has variance d; large products push the softmax to where its gradient is extremely small.",
    trains="Nothing: random queries and keys are scored by dot and scaled dot attention, for widths from 4 to 1,024.",
    seconds=10,
    next=(
        "Vectors of length 1 (what the cosine score uses): weft.labs.scaling(unit_length=True). What is the slope now?",
        "Train with both scores: weft train luong2015 --set model.attention.score=dot, then =scaled_dot.",
    ),
)
WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
KEYS = 64
SCORES = {"dot": "q·k", "scaled_dot": "q·k/√d"}
MEASURES = {"variance": "variance of the scores", "entropy": "entropy (nats)", "gradient": "norm of the gradient"}


class Condition(NamedTuple):
    """Random vectors of a width."""

    width: int
    queries: int
    unit_length: bool


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Variance, entropy and gradient of both scores, for the same vectors."""
    import torch

    from weft.attention.normalizers import softmax
    from weft.attention.scores import make_score

    generator = torch.Generator().manual_seed(1_000_003 * seed + condition.width)
    queries_BTD = torch.randn(condition.queries, 1, condition.width, generator=generator)
    keys_BSD = torch.randn(condition.queries, KEYS, condition.width, generator=generator)
    loss_gradient_BTS = torch.randn(condition.queries, 1, KEYS, generator=generator)
    if condition.unit_length:
        queries_BTD, keys_BSD = (torch.nn.functional.normalize(vectors, dim=-1) for vectors in (queries_BTD, keys_BSD))
    result = {}
    for name in SCORES:
        score = make_score(name, queries=condition.width, keys=condition.width, size=condition.width)
        scores_BTS = score(queries_BTD, keys_BSD).detach().requires_grad_()
        weights_BTS = softmax(scores_BTS)
        weights_BTS.backward(loss_gradient_BTS)  # a loss whose gradient at the weights has variance 1
        assert scores_BTS.grad is not None
        result[f"{name} variance"] = scores_BTS.var().item()
        result[f"{name} entropy"] = torch.special.entr(weights_BTS).sum(-1).mean().item()
        result[f"{name} gradient"] = scores_BTS.grad.norm(dim=-1).mean().item()
    return result


def scaling(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    widths: Sequence[int] = WIDTHS,
    queries: int = 512,
    unit_length: bool = False,
) -> LabResult:
    """Run the lab. ``queries``: number per width, each with 64 keys; ``unit_length``: normalize all vectors."""
    conditions = [Condition(width, queries // 4 if quick else queries, unit_length) for width in widths]
    trials = run_trials(trial, conditions, seeds, unit="trials")
    slopes = {
        name: t_interval([slope(widths, curve, log=True) for curve in trials.curves(conditions, f"{name} variance")])
        for name in SCORES
    }
    ratios = {condition.width: gradient_ratio(trials, condition) for condition in conditions}
    ratio = ratios[widths[-1]]
    columns = [f"{name} {measure}" for measure in MEASURES for name in SCORES]
    rows: list[Row] = [
        (f"{c.width:,}", *(trials.estimate(c, column).mean for column in columns), ratios[c.width]) for c in conditions
    ]
    columns = [f"{measure} of {label}" for measure in MEASURES for label in SCORES.values()]
    header = ("width d", *columns, "gradient of q·k / that of q·k/√d")
    variance = f"The variance of q·k grows as d to the power {number(slopes['dot'].mean)}"
    passed = f"At d = {widths[-1]:,}, the softmax of q·k passes {number(ratio.mean)} times the gradient of q·k/√d"
    left = [number(trials.estimate(conditions[-1], f"{name} entropy").mean) for name in SCORES]
    entropy = f"At d = {widths[-1]:,}, the weights of q·k have an entropy of {left[0]} nats, those of q·k/√d {left[1]}"
    titles = {"variance": variance, "entropy": entropy, "gradient": passed}
    charts = tuple(_chart(trials, measure, title) for measure, title in titles.items())
    verdict = judge_slopes(slopes, ratio, widths[-1])
    tables = (Table(header, rows, "Means over the seeds"),)
    return LabResult(LAB, verdict, tables, charts, (beginning(ratios),), trials.seeds, trials.records(), quick)


def gradient_ratio(trials: Trials, condition: Condition) -> Estimate:
    """The gradient without scaling in units of that with it."""
    dots, scaled_dots = (trials.values(condition, f"{name} gradient") for name in SCORES)
    return factor([dot / scaled for dot, scaled in zip(dots, scaled_dots, strict=True)])


def beginning(ratios: Mapping[int, Estimate]) -> str:
    """From which width on the unscaled scores pass less gradient, beyond noise."""
    more = [f"{width:,}" for width, ratio in ratios.items() if ratio.low > 1]
    less = [f"{width:,}" for width, ratio in ratios.items() if ratio.high < 1]
    texts = (", ".join(widths) or "none" for widths in (more, less))
    return "Widths at which q·k passes more gradient than q·k/√d: {}; less: {}.".format(*texts)


def _chart(trials: Trials, measure: str, title: str) -> Chart:
    series = tuple(
        Series(label, tuple((c.width, trials.estimate(c, f"{name} {measure}")) for c in trials.conditions))
        for name, label in SCORES.items()
    )
    return Chart(measure, title, "width d", MEASURES[measure], series, log_x=True, log_y=measure != "entropy")


def judge_slopes(slopes: dict[str, Estimate], gradient_ratio: Estimate, width: int = WIDTHS[-1]) -> Verdict:
    """The exponents of both variances, and the gradient without scaling in units of that with it at a width."""
    sentence = (
        f"The variance of q·k grows as d to the power {slopes['dot'].text()}, that of q·k/√d to the power "
        f"{slopes['scaled_dot'].text()}; at d = {width:,}, q·k passes {gradient_ratio.text()} times the gradient of "
        "q·k/√d."
    )
    checks = [
        within("exponent of d in Var(q·k)", slopes["dot"], 0.95, 1.05),
        within("exponent of d in Var(q·k/√d)", slopes["scaled_dot"], -0.05, 0.05),
        below(f"gradient of the softmax of q·k at d = {width:,}, relative to q·k/√d", gradient_ratio, 0.5),
    ]
    return judge(checks, sentence)
