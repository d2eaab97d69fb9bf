"""Evaluating a run: metrics with signatures, perplexity, and alignment error where gold links are known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.data.pairs import Pair
from weft.errors import DataError
from weft.evaluation.alignment import AlignmentScore, alignment_error_rate
from weft.evaluation.metrics import Measure, measure, perplexity
from weft.settings import SearchSettings
from weft.translator import Translator


@dataclass(frozen=True)
class Report:
    """What an evaluation found."""

    pairs: int
    measures: list[Measure]
    perplexity: Measure
    alignment: AlignmentScore | None
    """Agreement of the attention's links with the gold links, in per cent; None where either is missing."""
    search: str
    seconds: float
    """Searching alone."""
    outputs: list[str]

    def record(self) -> dict[str, Any]:
        """For ``--json``: every number with its signature."""
        numbers = {one.name: {"value": one.value, "signature": one.signature} for one in self.measures}
        numbers["perplexity"] = {"value": self.perplexity.value, "signature": self.perplexity.signature}
        if self.alignment is not None:
            numbers["alignment error rate"] = {
                "value": self.alignment.error_rate,
                "signature": self.alignment.signature,
            }
        return {"pairs": self.pairs, "search": self.search, "seconds": self.seconds, "metrics": numbers}


def evaluate(run: Translator, pairs: Sequence[Pair], metrics: Sequence[str] | None = None, **search: Any) -> Report:
    """Translate the sources, compare with the targets; ``search`` changes settings, e.g. ``size=8``."""
    if not pairs:
        raise DataError("there are no pairs to evaluate on")
    likely = run.score(pairs)
    tokens = sum(len(one.token_scores) for one in likely)
    surprise = perplexity(sum(one.log_probability for one in likely), tokens)
    if run.recipe.model.kind == "language_model":
        return Report(len(pairs), [], surprise, None, "none", 0.0, [])
    settings = run.search_settings(search)
    begun = time.monotonic()
    outputs = [one.text for one in run.translate([pair.source for pair in pairs], attention=False, **search)]
    seconds = time.monotonic() - begun
    names = run.recipe.evaluation.metrics if metrics is None else metrics
    measures = measure(names, outputs, [pair.target for pair in pairs])
    return Report(len(pairs), measures, surprise, align(run, pairs), signature(settings), seconds, outputs)


def align(run: Translator, pairs: Sequence[Pair]) -> AlignmentScore | None:
    """The attention's links for given targets against the gold links, all of them sure."""
    known = [pair for pair in pairs if pair.links is not None]
    if not known or not run.recipe.model.attends:
        return None
    predicted = [frozenset(forced.links) for forced in run.force(known)]
    gold = [frozenset(pair.links or ()) for pair in known]
    return alignment_error_rate(predicted, gold, gold)


def signature(search: SearchSettings) -> str:
    """The search in one word, so that a score can be reproduced."""
    parts = [f"search:{search.kind}"]
    if search.kind == "beam":
        parts += [f"size:{search.size}", f"length_penalty:{search.length_penalty:g}"]
    if search.kind == "sample":
        parts += [f"temperature:{search.temperature:g}", f"top_k:{search.top_k}", f"top_p:{search.top_p:g}"]
    return "|".join(parts)
