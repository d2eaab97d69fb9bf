"""Validation scores of runs that are compared with each other, for successive halving."""

from __future__ import annotations

from weft.pairs.halving import Standing
from weft.training.events import Averaged, Validation


def better(metric: str) -> str:
    """Whether a "higher" or a "lower" value of the metric is better."""
    from weft.evaluation.metrics import compute_metrics

    if metric == "loss":
        return "lower"
    return compute_metrics([metric], ["a"], ["a"], sources=["a"])[0].better


def is_finite(loss: float, perplexity: float | None) -> bool:
    """Whether the loss of a validation, and its exponential, are finite numbers."""
    return all(abs(float(number)) < float("inf") for number in (loss, 0.0 if perplexity is None else perplexity))


def value_of(event: Validation | Averaged, metric: str) -> float:
    """The number of a validation that runs are compared by."""
    return event.loss if metric == "loss" else event.metrics[metric]


def standing_of(name: str, event: Validation | Averaged, metric: str) -> Standing:
    """A validation as successive halving ranks it."""
    if not is_finite(event.loss, event.perplexity):
        return Standing(name, -float("inf"), float("inf"))
    value = value_of(event, metric)
    return Standing(name, value if better(metric) == "higher" else -value, event.loss)
