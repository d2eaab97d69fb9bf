"""Regularization by its equations, with scalars: R-Drop, the moving average of weights, word dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def divergence(p: Sequence[float], q: Sequence[float]) -> float:
    """KL(p ‖ q) = Σ_v p_v log (p_v / q_v), where 0 log 0 = 0."""
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def smoothed_loss(p: Sequence[float], target: int, smoothing: float) -> float:
    """−(1 − ε) log p_y − ε/V Σ_v log p_v"""
    loss = -(1 - smoothing) * math.log(p[target])
    return loss - smoothing / len(p) * sum(map(math.log, p)) if smoothing else loss


def consistency_loss(
    first: Sequence[Sequence[float]],
    second: Sequence[Sequence[float]],
    targets: Sequence[int],
    *,
    smoothing: float,
    alpha: float,
) -> float:
    """Half of Liang et al. 2021, eq. 3, summed over the targets: L = loss + loss' + α/2 (KL(p ‖ p') + KL(p' ‖ p))."""
    total = 0.0
    for p, q, target in zip(first, second, targets, strict=True):
        losses = smoothed_loss(p, target, smoothing) + smoothed_loss(q, target, smoothing)
        total += (losses + alpha * (divergence(p, q) + divergence(q, p)) / 2) / 2
    return total


def moving_average(values: Sequence[float], decay: float) -> float:
    """a_t = β_t a_{t−1} + (1 − β_t) θ_t, a_0 = θ_0, β_t = min(β, (1 + t) / (10 + t))"""
    average = values[0]
    for step, value in enumerate(values[1:], 1):
        beta = min(decay, (1 + step) / (10 + step))
        average = beta * average + (1 - beta) * value
    return average


def drop_words(
    ids: Sequence[int], draw: Callable[[], float], probability: float, protected: Sequence[int]
) -> list[int]:
    """Each id 0 if a draw from [0, 1) is below p, unless it is protected."""
    dropped = []
    for id in ids:
        is_below = draw() < probability
        dropped.append(0 if is_below and id not in protected else id)
    return dropped
