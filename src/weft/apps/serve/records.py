"""Results of a `Translator` as JSON: translations, traces, heads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.search.trace import BeamTrace, Branch, Draw, Trace

if TYPE_CHECKING:
    from weft.translation.results import HeadAttention, Translation

DIGITS = 6
"""Decimals of the numbers that are sent."""
MIN_COVERAGE = 1e-6
Label = Callable[[int], str]
"""The text of a token id."""


def number(value: float | None) -> float | None:
    """A number that JSON has; None for infinities and NaN."""
    return None if value is None or not math.isfinite(value) else round(value, DIGITS)


def numbers(values: Iterable[float]) -> list[float | None]:
    return [number(value) for value in values]


def matrix(weights: np.ndarray) -> list[list[float]]:
    return np.nan_to_num(weights).round(DIGITS).tolist()


def translation_record(translation: Translation, label: Label | None = None) -> dict[str, Any]:
    """A translation with its alternatives; ``label``: formats the tokens of the trace, if included."""
    words = translation.word_attention
    return {
        "source": translation.source,
        "text": translation.text,
        "score": number(translation.score),
        "log_probability": number(translation.log_probability),
        "tokens": translation.tokens,
        "ids": translation.ids,
        "token_scores": numbers(translation.token_scores),
        "source_tokens": translation.source_tokens,
        "attention": None if translation.attention is None else matrix(translation.attention),
        "word_attention": words and {"weights": matrix(words[0]), "source": words[1], "target": words[2]},
        "links": translation.links,
        "ended": translation.ended,
        "gap": number(translation.gap),
        "proven": translation.proven,
        "confidence": number(translation.confidence),
        "flags": list(translation.flags),
        "terms": [list(variants) for variants in translation.terms],
        "memory": [match._asdict() for match in translation.memory],
        "length": len(translation.tokens) + (translation.ended == "end"),
        "coverage": coverage(translation),
        "copied": None,
        "alternatives": [translation_record(one) for one in translation.alternatives],
        "trace": None if label is None or translation.trace is None else trace_record(translation.trace, label),
    }


def coverage(translation: Translation) -> float | None:
    """Σ_j log min(Σ_t a_tj, 1) over the rows that are returned; see `weft.search.ranking.coverage_score`."""
    if translation.attention is None or not translation.attention.size:
        return None
    return number(float(np.log(np.clip(translation.attention.sum(0), MIN_COVERAGE, 1.0)).sum()))


def trace_record(trace: Trace, label: Label) -> dict[str, Any]:
    if isinstance(trace, BeamTrace):
        steps = [[branch_record(branch, label) for branch in branches] for branches in trace.steps]
        return {"kind": "beam", "steps": steps, "winner": trace.winner}
    return {"kind": "path", "steps": [draw_record(draw, label) for draw in trace.steps]}


def branch_record(branch: Branch, label: Label) -> dict[str, Any]:
    return {
        "token": label(branch.token),
        "id": branch.token,
        "parent": branch.parent,
        "slot": branch.slot,
        "log_probability": number(branch.log_probability),
        "total": number(branch.total),
        "score": number(branch.score),
        "outcome": branch.outcome,
    }


def draw_record(draw: Draw, label: Label, log_probabilities: Sequence[float] | None = None) -> dict[str, Any]:
    """``log_probabilities``: the model's own, before temperature and filters."""
    return {
        "tokens": [label(token) for token in draw.tokens],
        "ids": draw.tokens,
        "probabilities": numbers(draw.probabilities),
        "log_probabilities": None if log_probabilities is None else numbers(log_probabilities),
        "kept": draw.kept,
        "chosen": draw.chosen,
        "mass": number(draw.mass),
        "kept_count": draw.kept_count,
    }


def head_record(head: HeadAttention) -> dict[str, Any]:
    return {
        "kind": head.kind,
        "layer": head.layer,
        "head": head.head,
        "weights": matrix(head.weights_TS),
        "source": head.source,
        "target": head.target,
    }
