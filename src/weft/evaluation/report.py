"""Evaluating a run: metrics with signatures, perplexity, alignment error rate where gold links are known, and errors of
the search told apart from errors of the model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft import __version__
from weft.data.pairs import Pair
from weft.errors import DataError, RecipeError, SearchError
from weft.evaluation.alignment import AlignmentScore, alignment_error_rate
from weft.evaluation.metrics import METRICS, MetricScore, check_metrics, compute_metrics, perplexity
from weft.evaluation.references import GROUPINGS
from weft.evaluation.search_errors import TOLERANCE, ScoredOutput, SearchErrors, SearchSpace, classify
from weft.models.ensemble import Ensemble
from weft.recipe import SearchSettings
from weft.search.ranking import Ranking
from weft.translation.engines.interface import max_output_length
from weft.translation.results import Translation
from weft.translation.setting_scopes import irrelevant_settings
from weft.translation.translator import Translator


@dataclass(frozen=True)
class Report:
    """The result of an evaluation."""

    pairs: int
    scores: list[MetricScore]
    perplexity: MetricScore
    alignment: AlignmentScore | None
    """Agreement of the attention's links with the gold links, in percent; None if either is missing."""
    search: str
    """The signature of the search."""
    seconds: float
    """Of the search alone."""
    outputs: list[str]
    """One for each item."""
    reference_scores: Mapping[str, MetricScore] = field(default_factory=dict)
    """The scores of the references themselves, by name, for metrics that do not use references."""
    items: int | None = None
    """Distinct sources, if all pairs of a source were one item with several references."""
    ended_by_length: int = 0
    """Outputs that reached the length limit."""

    def record(self) -> dict[str, Any]:
        """For ``--json``: every number with its signature."""
        numbers: dict[str, dict[str, Any]] = {}
        for score in self.scores:
            numbers[score.name] = {"value": score.value, "signature": score.signature}
            if score.name in self.reference_scores:
                numbers[score.name]["references"] = self.reference_scores[score.name].value
        numbers["perplexity"] = {"value": self.perplexity.value, "signature": self.perplexity.signature}
        if self.alignment is not None:
            numbers["alignment error rate"] = {
                "value": self.alignment.error_rate,
                "signature": self.alignment.signature,
            }
        counts = {"pairs": self.pairs} if self.items is None else {"pairs": self.pairs, "items": self.items}
        searched = {"search": self.search, "seconds": self.seconds, "ended_by_length": self.ended_by_length}
        return {**counts, **searched, "metrics": numbers}


def evaluate(
    run: Translator,
    pairs: Sequence[Pair],
    metrics: Sequence[str] | None = None,
    *,
    references: str | None = None,
    **search: Any,
) -> Report:
    """Translate the sources and compare with the targets; ``search`` changes settings, e.g. ``size=8``.

    ``references``: "each" pair is an item, or pairs with the same source are "grouped" to one item with several
    references; by default as the recipe says. Perplexity and alignment are over all pairs either way. Scores of the
    references are over the first reference of each item, so that there are as many texts as outputs.
    """
    if not pairs:
        raise DataError("there are no pairs to evaluate on")
    grouping = run.recipe.evaluation.references if references is None else references
    if grouping not in GROUPINGS:
        raise RecipeError(f"evaluation.references: {grouping!r} was given; use {' or '.join(GROUPINGS)}")
    searches = run.source_role != "none"
    names = [] if not searches else run.recipe.evaluation.metrics if metrics is None else metrics
    items = GROUPINGS[grouping](pairs)
    check_metrics(names, several_references=any(len(line) > 1 for line in items.references))
    pair_scores = run.score(pairs)
    tokens = sum(len(score.token_scores) for score in pair_scores)
    corpus_perplexity = perplexity(sum(score.log_probability for score in pair_scores), tokens)
    if not searches:
        return Report(len(pairs), [], corpus_perplexity, None, "none", 0.0, [])
    settings = run.search_settings(search)
    start = time.monotonic()
    translations = run.translate(items.sources, return_attention=False, **search)
    outputs = [translation.text for translation in translations]
    seconds = time.monotonic() - start
    first = [line[0] for line in items.references]
    on_outputs = [name for name in names if not METRICS[name].uses_references]
    return Report(
        pairs=len(pairs),
        scores=compute_metrics(names, outputs, items.references),
        perplexity=corpus_perplexity,
        alignment=score_alignment(run, pairs),
        search=_run_signature(run, settings),
        seconds=seconds,
        outputs=outputs,
        reference_scores={score.name: score for score in compute_metrics(on_outputs, first, first)},
        items=len(items.sources) if grouping == "grouped" else None,
        ended_by_length=sum(translation.ended_by_length for translation in translations),
    )


def search_errors(run: Translator, pairs: Sequence[Pair], **search: Any) -> SearchErrors:
    """The outputs of a search beside the best of all outputs, sentence by sentence; ``search`` changes settings.

    The best is that of `search.kind = "exact"`: by the same normalization and within the same length limits, expanding
    at most `search.max_nodes` prefixes. It has no constraints, so an output that `search.no_loops` prevented may count
    as a search error. Pairs with an empty source are left out.
    """
    if not run.recipe.model.has_source:
        raise SearchError("search errors: this run is a language model; they need a source to translate")
    settings = run.search_settings(search)
    pairs = [pair for pair in pairs if pair.source.strip()]
    sources = [pair.source for pair in pairs]
    best = run.translate(sources, return_attention=False, **{**search, "kind": "exact"})  # refuses what it cannot do
    outputs = run.translate(sources, return_attention=False, **search)
    ranking = Ranking(settings.normalization, settings.length_penalty)
    sentences = []
    for pair, output, exact, score in zip(pairs, outputs, best, run.score(pairs), strict=True):
        limit = max_output_length(run.model, settings, run.length_limits, source=len(output.source_tokens))
        ids = tuple(run.tokenizers.target.encode(pair.target))
        sentences.append(
            classify(
                pair.source,
                _scored(output),
                _scored(exact),
                ScoredOutput(pair.target, ids, score.log_probability),
                proven=exact.proven,
                space=SearchSpace(ranking, limit),
            )
        )
    parts = [
        _run_signature(run, settings),
        f"normalization:{settings.normalization}",
        f"length_penalty:{ranking.alpha:g}",
    ]
    parts = [*dict.fromkeys("|".join(parts).split("|")), f"max_nodes:{settings.max_nodes}", f"tolerance:{TOLERANCE:g}"]
    return SearchErrors(sentences, ranking, "|".join([*parts, f"version:weft {__version__}"]))


def _scored(result: Translation) -> ScoredOutput:
    return ScoredOutput(result.text, tuple(result.ids), result.log_probability, ended=result.ended == "end")


def score_alignment(run: Translator, pairs: Sequence[Pair]) -> AlignmentScore | None:
    """The attention's links for the given targets against the gold links, which all count as sure."""
    linked = [pair for pair in pairs if pair.links is not None]
    if not linked or not run.recipe.model.attends or not run.recipe.model.has_source:
        return None
    predicted = [frozenset(result.links) for result in run.force_decode(linked)]
    gold = [frozenset(pair.links or ()) for pair in linked]
    return alignment_error_rate(predicted, gold, gold)


def _run_signature(run: Translator, settings: SearchSettings) -> str:
    """The signature of the search and, of an ensemble, the number of models."""
    ensemble = f"|ensemble:{len(run.model.members)}" if isinstance(run.model, Ensemble) else ""
    return search_signature(settings) + ensemble


ALWAYS_SHOWN = {
    "beam": ("size", "length_penalty"),
    "sample": ("temperature", "top_k", "top_p"),
    "mbr": ("samples", "utility"),
}
"""Settings that the signature of a search shows even at their defaults."""
NEVER_SHOWN = {"kind", "batch_tokens", "max_nodes", "max_space"}
"""Settings that do not change what is found, or only whether anything is."""
DEFAULTS = dict(SearchSettings())


def search_signature(search: SearchSettings) -> str:
    """A search in one line, so that a score can be reproduced: its main settings, and all that are not at defaults."""
    hidden = NEVER_SHOWN | irrelevant_settings(search.kind)
    changed = [name for name, value in search if value != DEFAULTS[name] and name not in hidden]
    shown = dict.fromkeys([*ALWAYS_SHOWN.get(search.kind, ()), *changed])
    return "|".join([f"search:{search.kind}", *(f"{name}:{_text(getattr(search, name))}" for name in shown)])


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
