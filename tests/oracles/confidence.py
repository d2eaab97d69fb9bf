"""Confidence, literally: logistic regression by many small steps, isotonic regression by its min–max formula, ranks by
comparing all pairs, a binomial tail with binomial coefficients, and features token by token."""

from __future__ import annotations

import math
from collections.abc import Sequence


def logistic_loss(
    weights: Sequence[float], bias: float, features: Sequence[Sequence[float]], right: Sequence[bool], ridge: float
) -> float:
    """−Σ_i [t_i log σ(z_i) + (1 − t_i) log(1 − σ(z_i))] + ridge · ½ Σ_f w_f², of standardized features."""
    positives, negatives = sum(right), len(right) - sum(right)
    loss = 0.0
    for row, is_right in zip(features, right, strict=True):
        target = (positives + 1) / (positives + 2) if is_right else 1 / (negatives + 2)
        z = bias + sum(weight * value for weight, value in zip(weights, row, strict=True))
        probability = 1 / (1 + math.exp(-z))
        loss -= target * math.log(probability) + (1 - target) * math.log(1 - probability)
    return loss + ridge * 0.5 * sum(weight**2 for weight in weights)


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """ŷ_i = max_{j ≤ i} min_{k ≥ i} (weighted mean of y_j … y_k)"""

    def mean(first: int, last: int) -> float:
        chosen = range(first, last + 1)
        return sum(values[i] * weights[i] for i in chosen) / sum(weights[i] for i in chosen)

    count = len(values)
    return [max(min(mean(j, k) for k in range(i, count)) for j in range(i + 1)) for i in range(count)]


def auroc(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """The share of pairs of a right and a wrong output in which the right one has more confidence; ties count half."""
    wins = pairs = 0.0
    for confidence, is_right in zip(confidences, right, strict=True):
        for other, other_right in zip(confidences, right, strict=True):
            if is_right and not other_right:
                pairs += 1
                wins += 1.0 if confidence > other else 0.5 if confidence == other else 0.0
    return wins / pairs


def binomial_tail(errors: int, outputs: int, rate: float) -> float:
    """Σ_{j ≤ e} C(k, j) r^j (1 − r)^(k − j)"""
    return sum(math.comb(outputs, j) * rate**j * (1 - rate) ** (outputs - j) for j in range(errors + 1))
