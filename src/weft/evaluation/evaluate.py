"""Evaluating a run: metrics with signatures, perplexity, alignment error rate where gold links are known, and whether
errors are due to the search or to the model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft import __version__
from weft.data.fingerprints import Overlap
from weft.data.pairs import Pair
from weft.errors import RecipeError, SearchError, plural
from weft.evaluation.alignment import AlignmentScore, alignment_error_rate
from weft.evaluation.max_match import edit_scores, score_edits
from weft.evaluation.metrics import (
    METRICS,
    MetricScore,
    check_metrics,
    compute_metrics,
    number_of_references,
    perplexity,
    split_name,
)
from weft.evaluation.pairs import (
    GROUPINGS,
    EvaluationSet,
    GivenPairs,
    find_pairs,
    find_scorable_items,
    training_overlap,
)
from weft.evaluation.search_errors import TOLERANCE, ScoredOutput, SearchErrors, SearchSpace, classify
from weft.models.architecture import architecture_of
from weft.recipe import SearchSettings
from weft.recipe.search import irrelevant_settings
from weft.search.ranking import Ranking
from weft.translation.engines.interface import max_output_length
from weft.translation.results import Translation
from weft.translation.translator import Translator
from weft.translation.word_alignment import NULL_THRESHOLD


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The result of an evaluation."""

    pairs: int
    scores: list[MetricScore]
    perplexity: MetricScore
    alignment: AlignmentScore | None
    """Agreement of the attention's links with the gold links, in percent; None if either is missing."""
    search: str
    """The signature of the search."""
    seconds: float
    """Seconds of the search alone."""
    outputs: list[str]
    """One for each item."""
    reference_scores: Mapping[str, MetricScore] = field(default_factory=dict)
    """The scores of the references themselves, by name, for metrics that do not use references."""
    items: int | None = None
    """Distinct sources, if all pairs of a source were one item with several references."""
    ended_by_length: int = 0
    """Outputs that reached the length limit."""
    proven: int | None = None
    """Outputs that are proven to be the best there are; None if the search cannot prove it for any."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that were not evaluated, by the kind of error: those with a blank side are "blank"."""
    training_overlap: Overlap | None = None
    """Number of pairs that were also training data; None if the run has no fingerprints: see docs/data.md."""

    def __repr__(self) -> str:
        values = [f"{score.name} {score.value:.2f}" for score in self.scores]
        return f"<Evaluation: {self._counts()}; {', '.join([*values, f'perplexity {self.perplexity.value:.3f}'])}>"

    def __str__(self) -> str:
        return "\n".join(self.summary())

    def summary(self) -> list[str]:
        """The report line by line: scores with their signatures, and what they were computed from."""
        lines = []
        for score in self.scores:
            lines.append(f"{score.name:<24}{score.value:8.2f}   {score.signature}|{self.search}")
            if score.name in self.reference_scores:
                lines.append(f"{'  in the references':<24}{self.reference_scores[score.name].value:8.2f}")
        if self.alignment is not None:
            lines.append(f"{'alignment error rate':<24}{self.alignment.error_rate:8.2f}   {self.alignment.signature}")
            lines.append(f"{'  precision':<24}{self.alignment.precision:8.2f}")
            lines.append(f"{'  recall':<24}{self.alignment.recall:8.2f}")
        lines.append(f"{'perplexity':<24}{self.perplexity.value:8.3f}   {self.perplexity.signature}")
        if self.proven is not None:
            share = 100 * self.proven / max(len(self.outputs), 1)
            lines.append(f"{'proven best':<24}{share:8.2f}   % of the outputs: no other output has a higher score")
        if self.training_overlap is not None:
            lines.append(self.training_overlap.describe())
        return [*lines, f"{self._counts()}, searched in {self.seconds:.1f} s"]

    def _repr_html_(self) -> str:
        from weft.pictures.html.elements import element, table
        from weft.pictures.html.page import fragment

        scores = [*self.scores, self.perplexity]
        rows = [
            (score.name, f"{score.value:.2f}", element("span", score.signature, class_="signature")) for score in scores
        ]
        lines = element("p", ", ".join([self._counts(), self.search]), class_="faint small")
        return str(fragment(table(("metric", "score", "signature"), rows, numbers=[1]), lines))

    def _counts(self) -> str:
        if self.items is None:
            return plural(self.pairs, "pair")
        return f"{plural(self.items, 'item')} with {plural(self.pairs, 'reference')}"

    def record(self) -> dict[str, Any]:
        """Every number with its signature, for ``--json``."""
        numbers: dict[str, dict[str, Any]] = {}
        for score in self.scores:
            numbers[score.name] = {"value": score.value, "signature": score.signature}
            if score.name in self.reference_scores:
                numbers[score.name]["references"] = self.reference_scores[score.name].value
        numbers["perplexity"] = {"value": self.perplexity.value, "signature": self.perplexity.signature}
        if self.alignment is not None:
            numbers["alignment error rate"] = {
                "value": self.alignment.error_rate,
                "precision": self.alignment.precision,
                "recall": self.alignment.recall,
                "signature": self.alignment.signature,
            }
        counts = {"pairs": self.pairs} if self.items is None else {"pairs": self.pairs, "items": self.items}
        overlap = None if self.training_overlap is None else self.training_overlap.record()
        return {
            **counts,
            "left_out": dict(self.left_out),
            "in_training_data": overlap,
            "search": self.search,
            "seconds": self.seconds,
            "ended_by_length": self.ended_by_length,
            "proven": self.proven,
            "metrics": numbers,
        }


def evaluate(
    run: Translator | Path | str,
    pairs: GivenPairs | None = None,
    metrics: Sequence[str] | None = None,
    *,
    split: str = "test",
    references: str | None = None,
    limit: int | None = None,
    **search: Any,
) -> Evaluation:
    """Translate the sources of some pairs and compare with the targets: metrics, each with its signature.

        print(weft.evaluate("runs/grammar"))                                     # the test set of its recipe
        weft.evaluate(run, [("he left", "il est parti")], ["bleu", "chrf"])      # other pairs, other metrics

    ``run``: a run of `weft.load`, or its folder. ``pairs``: pairs or tuples, or the name of a TSV or M2 file; if not
    given, those of ``split`` ("test" or "valid") of the run's recipe. ``limit``: the number of pairs to use, the first
    of them. Pairs with a blank side (or an error, as data.blank_rows says) and those too long to be translated are left
    out and counted. For an M2 file, the annotators' corrections are the references; precision, recall and F0.5 of edits
    are reported too. ``metrics``: names, by default those of the recipe; NAME@K looks at the K best outputs.
    ``references``: "each" pair is an item, or pairs with the same source are "grouped" to one item with several
    references; by default as the recipe says. Perplexity and alignment are over all pairs either way. Scores of the
    references are over the first reference of each item. ``search`` changes search settings, e.g. ``size=8``.
    """
    run = loaded_run(run)
    grouping = _grouping(run, references)
    searches = run.source_role != "none"
    names = [] if not searches else run.recipe.evaluation.metrics if metrics is None else metrics
    check_metrics(names)
    given = find_scorable_items(run, pairs, grouping=grouping, split=split, limit=limit)
    check_metrics(names, several_references=any(len(line) > 1 for line in given.items.references))
    likelihood = Evaluation(
        pairs=len(given.pairs),
        scores=[],
        perplexity=_perplexity(run, given.pairs),
        alignment=None,
        search="none",
        seconds=0.0,
        outputs=[],
        left_out=given.left_out,
        training_overlap=training_overlap(run.folder, given.pairs),
    )
    if not searches:
        return likelihood
    n_best, search = n_best_search(run, names, search)
    start = time.monotonic()
    translations = run.translate(given.items.sources, n_best=n_best, return_attention=False, **search)
    seconds = time.monotonic() - start
    return replace(
        likelihood,
        scores=score_translations(names, translations, given),
        alignment=score_alignment(run, given.pairs),
        search=run_signature(run, run.search_settings(search)),
        seconds=seconds,
        outputs=[translation.text for translation in translations],
        reference_scores=_reference_scores(names, given.items.references),
        items=len(given.items.sources) if grouping == "grouped" or given.gold is not None else None,
        ended_by_length=sum(translation.ended_by_length for translation in translations),
        proven=_count_proven(translations),
    )


def n_best_search(run: Translator, names: Sequence[str], search: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The number of outputs that the metrics need, and search settings with a beam of at least that size."""
    k, name = max(((split_name(name)[1], name) for name in names), default=(1, ""))
    settings = run.search_settings(search)
    if k > 1 and settings.kind == "greedy":
        raise SearchError(f"metric {name!r}: greedy search finds one output; use search.kind = 'beam'")
    if settings.kind == "beam" and settings.size < k:
        search = {**search, "size": -(-k // settings.groups) * settings.groups}
    return k, search


def score_translations(
    names: Sequence[str], translations: Sequence[Translation], given: EvaluationSet
) -> list[MetricScore]:
    """The metrics and, where the gold edits are known, precision, recall and F0.5 of the edits."""
    sources, references = given.items
    outputs = [translation.text for translation in translations]
    n_best = [[best.text, *(other.text for other in best.alternatives)] for best in translations]
    if given.gold is None:
        return compute_metrics(names, outputs, references, sources=sources, n_best=n_best)
    names = [name for name in names if name != "edit_f05"]
    counts = score_edits(sources, outputs, given.gold)
    edits = edit_scores(counts, annotators=number_of_references(references), gold="m2")
    return [*edits, *compute_metrics(names, outputs, references, sources=sources, n_best=n_best)]


def _count_proven(translations: Sequence[Translation]) -> int | None:
    """Number of outputs proven to be the best; None if no output has a known gap."""
    if all(translation.gap is None for translation in translations):
        return None
    return sum(translation.proven for translation in translations)


def _grouping(run: Translator, references: str | None) -> str:
    """The grouping of pairs into items: the given one, or that of the recipe."""
    grouping = run.recipe.evaluation.references if references is None else references
    if grouping not in GROUPINGS:
        raise RecipeError(f"evaluation.references: {grouping!r} was given; use {' or '.join(GROUPINGS)}")
    return grouping


def _reference_scores(names: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, MetricScore]:
    """The scores of the first reference of each item, for metrics that use no references."""
    first = [line[0] for line in references]
    without_references = [name for name in names if not METRICS[split_name(name)[0]].uses_references]
    return {score.name: score for score in compute_metrics(without_references, first, first)}


def _perplexity(run: Translator, pairs: Sequence[Pair]) -> MetricScore:
    """Perplexity of the targets, given the sources."""
    scores = run.score(pairs)
    return perplexity(sum(score.log_probability for score in scores), sum(len(score.token_scores) for score in scores))


def loaded_run(run: Translator | Path | str) -> Translator:
    """A run, loaded if it is a folder."""
    if isinstance(run, Translator):
        return run
    from weft.translation.load import load

    return load(run)


def search_errors(
    run: Translator,
    pairs: GivenPairs | None = None,
    *,
    split: str = "test",
    limit: int | None = None,
    **search: Any,
) -> SearchErrors:
    """The outputs of a search beside the best of all outputs, sentence by sentence; ``search`` changes settings.

    The best is that of `search.kind = "exact"`: by the same normalization and within the same length limits, expanding
    at most `search.max_nodes` prefixes. It has no constraints, so an output that `search.no_loops` prevented may count
    as a search error. ``pairs``, ``split`` and ``limit`` are those of `evaluate`.
    """
    if not run.recipe.model.has_source:
        raise SearchError("search errors: this run is a language model; they need a source to translate")
    settings = run.search_settings(search)
    usable, left_out = find_pairs(run.recipe, pairs, split=split, limit=limit)
    sources = [pair.source for pair in usable]
    best = run.translate(sources, return_attention=False, **{**search, "kind": "exact"})  # refuses what it cannot do
    outputs = run.translate(sources, return_attention=False, **search)
    ranking = Ranking(settings.normalization, settings.length_penalty)
    sentences = []
    for pair, output, exact, score in zip(usable, outputs, best, run.score(usable), strict=True):
        max_length = max_output_length(run.model, settings, run.length_limits, source=len(output.source_tokens))
        ids = tuple(run.encode_target(pair.target, pair.source))
        sentences.append(
            classify(
                pair.source,
                _scored(output),
                _scored(exact),
                ScoredOutput(pair.target, ids, score.log_probability),
                proven=exact.proven,
                space=SearchSpace(ranking, max_length),
            )
        )
    parts = [
        run_signature(run, settings),
        f"normalization:{settings.normalization}",
        f"length_penalty:{ranking.alpha:g}",
    ]
    parts = [*dict.fromkeys("|".join(parts).split("|")), f"max_nodes:{settings.max_nodes}", f"tolerance:{TOLERANCE:g}"]
    return SearchErrors(sentences, ranking, "|".join([*parts, f"version:weft {__version__}"]), left_out)


def _scored(result: Translation) -> ScoredOutput:
    return ScoredOutput(result.text, tuple(result.ids), result.log_probability, ended=result.ended == "end")


def score_alignment(run: Translator, pairs: Sequence[Pair]) -> AlignmentScore | None:
    """The attention's links for the given targets against the gold links, which all count as sure."""
    linked = [pair for pair in pairs if pair.links is not None]
    if not linked or not run.recipe.model.attends or not run.recipe.model.has_source:
        return None
    predicted = [frozenset(result.links) for result in run.force_decode(linked)]
    gold = [frozenset(pair.links or ()) for pair in linked]
    return alignment_error_rate(predicted, gold, gold, threshold=NULL_THRESHOLD)


def run_signature(run: Translator, settings: SearchSettings) -> str:
    """The signature of the search and, of an ensemble, the number of models."""
    members = architecture_of(run.model).members
    return search_signature(settings) + (f"|ensemble:{len(members)}" if members else "")


ALWAYS_SHOWN = {
    "beam": ("size", "length_penalty"),
    "sample": ("temperature", "top_k", "top_p"),
    "mbr": ("samples", "utility"),
}
"""Settings that the signature of a search shows even at their defaults."""
NEVER_SHOWN = {"kind", "batch_tokens", "max_nodes", "max_space"}
"""Settings that do not change what is found, or only whether anything is."""
DEFAULTS = {name: (value,) for name, value in SearchSettings()} | {"no_loops": (None, True)}
"""The values at which a signature does not show a setting."""


def search_signature(search: SearchSettings) -> str:
    """A search in one line, so that a score can be reproduced: its main settings, and all that are not at defaults."""
    hidden = NEVER_SHOWN | irrelevant_settings(search.kind)
    changed = [name for name, value in search if value not in DEFAULTS[name] and name not in hidden]
    shown = dict.fromkeys([*ALWAYS_SHOWN.get(search.kind, ()), *changed])
    return "|".join([f"search:{search.kind}", *(f"{name}:{_text(getattr(search, name))}" for name in shown)])


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
