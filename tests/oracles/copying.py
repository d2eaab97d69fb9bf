"""Copying by its equation, with scalars and dictionaries: See et al. 2017, eq. 8 and 9."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def mixed(
    logits: Mapping[str, float], weights: Sequence[float], source: Sequence[str], gate: float
) -> dict[str, float]:
    """p(y) = g · p_vocabulary(y) + (1 − g) · Σ_{i: x_i = y} α_i of every token that can be generated or copied.

    ``logits``: of the tokens of the target vocabulary; ``gate``: g.
    """
    total = sum(math.exp(logit) for logit in logits.values())
    probabilities = {token: gate * math.exp(logit) / total for token, logit in logits.items()}
    for token, weight in zip(source, weights, strict=True):
        probabilities[token] = probabilities.get(token, 0.0) + (1 - gate) * weight
    return probabilities


def gate(state: Sequence[float], weight: Sequence[float], bias: float) -> float:
    """g = σ(w·s + b)."""
    return 1 / (1 + math.exp(-sum(w * s for w, s in zip(weight, state, strict=True)) - bias))


def attention(
    state: Sequence[float],
    states: Sequence[Sequence[float]],
    query: Sequence[Sequence[float]],
    key: Sequence[Sequence[float]],
) -> list[float]:
    """α_i ∝ exp((W s)·(U h_i) / √D), with the rows of W in ``query`` and those of U in ``key``."""
    projected = [sum(w * s for w, s in zip(row, state, strict=True)) for row in query]
    keys = [[sum(u * h for u, h in zip(row, item, strict=True)) for row in key] for item in states]
    scores = [sum(q * k for q, k in zip(projected, item, strict=True)) / math.sqrt(len(projected)) for item in keys]
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]
