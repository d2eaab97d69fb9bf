"""Evaluating a run: metrics with signatures, perplexity, alignment error where gold links are known, and whose fault
errors are: the search's or the model's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft import __version__
from weft.data.pairs import Pair
from weft.errors import DataError, RecipeError, SearchError
from weft.evaluation.alignment import AlignmentScore, alignment_error_rate
from weft.evaluation.metrics import OUTPUTS_ALONE, Measure, check_metrics, measure, perplexity
from weft.evaluation.references import each, grouped
from weft.evaluation.search_errors import TOLERANCE, Said, SearchErrors, judge
from weft.models import Ensemble
from weft.recipe import SearchSettings
from weft.search import Ranking
from weft.translation.engines.interface import max_output_length
from weft.translation.results import Translation
from weft.translation.translator import Translator


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
    """One for each item."""
    references: Mapping[str, Measure] = field(default_factory=dict)
    """What the references reach, by the name of the measure, where that says something: how much people repeat."""
    items: int | None = None
    """Different sources, where all pairs of a source were one item with several references."""

    def record(self) -> dict[str, Any]:
        """For ``--json``: every number with its signature."""
        numbers: dict[str, dict[str, Any]] = {}
        for one in self.measures:
            numbers[one.name] = {"value": one.value, "signature": one.signature}
            if one.name in self.references:
                numbers[one.name]["references"] = self.references[one.name].value
        numbers["perplexity"] = {"value": self.perplexity.value, "signature": self.perplexity.signature}
        if self.alignment is not None:
            numbers["alignment error rate"] = {
                "value": self.alignment.error_rate,
                "signature": self.alignment.signature,
            }
        counts = {"pairs": self.pairs} if self.items is None else {"pairs": self.pairs, "items": self.items}
        return {**counts, "search": self.search, "seconds": self.seconds, "metrics": numbers}


GROUPINGS = {"each": each, "grouped": grouped}
"""What an item is, by the name that evaluation.references has for it."""


def evaluate(
    run: Translator,
    pairs: Sequence[Pair],
    metrics: Sequence[str] | None = None,
    *,
    references: str | None = None,
    **search: Any,
) -> Report:
    """Translate the sources, compare with the targets; ``search`` changes settings, e.g. ``size=8``.

    ``references``: "each" pair is an item, or pairs with the same source are "grouped" to one item with several
    references; not said, as the recipe has it. Perplexity and alignment are of all pairs either way. What the
    references reach is that of the first of each item: as many texts as there are outputs.
    """
    if not pairs:
        raise DataError("there are no pairs to evaluate on")
    way = run.recipe.evaluation.references if references is None else references
    if way not in GROUPINGS:
        raise RecipeError(f"evaluation.references: {way!r} was given; use {' or '.join(GROUPINGS)}")
    unprompted = run.recipe.model.kind == "language_model" and not run.recipe.data.prompts
    names = [] if unprompted else run.recipe.evaluation.metrics if metrics is None else metrics
    items = GROUPINGS[way](pairs)
    check_metrics(names, several=any(len(line) > 1 for line in items.references))
    likely = run.score(pairs)
    tokens = sum(len(one.token_scores) for one in likely)
    surprise = perplexity(sum(one.log_probability for one in likely), tokens)
    if unprompted:
        return Report(len(pairs), [], surprise, None, "none", 0.0, [])
    settings = run.search_settings(search)
    begun = time.monotonic()
    outputs = [one.text for one in run.translate(items.sources, return_attention=False, **search)]
    seconds = time.monotonic() - begun
    measures = measure(names, outputs, items.references)
    first = [line[0] for line in items.references]
    theirs = {one.name: one for one in measure([name for name in names if name in OUTPUTS_ALONE], first, first)}
    return Report(
        pairs=len(pairs),
        measures=measures,
        perplexity=surprise,
        alignment=align(run, pairs),
        search=_asked(run, settings),
        seconds=seconds,
        outputs=outputs,
        references=theirs,
        items=len(items.sources) if way == "grouped" else None,
    )


def search_errors(run: Translator, pairs: Sequence[Pair], **search: Any) -> SearchErrors:
    """What a search finds beside the best there is, sentence by sentence; ``search`` changes settings.

    The best is that of `search.kind = "exact"`: by the same normalization and within the same length limits, looking at
    no more than `search.max_nodes` beginnings. It knows no rules, so what `search.no_loops` kept an output from saying
    may come out as a search error. Pairs with an empty source are left out.
    """
    if run.recipe.model.kind == "language_model":
        raise SearchError("search errors: this run is a language model; they need a source to translate")
    settings = run.search_settings(search)
    pairs = [pair for pair in pairs if pair.source.strip()]
    sources = [pair.source for pair in pairs]
    best = run.translate(sources, return_attention=False, **{**search, "kind": "exact"})  # refuses what it cannot judge
    found = run.translate(sources, return_attention=False, **search)
    likely = run.score(pairs)
    ranking = Ranking(settings.normalization, settings.length_penalty)
    judged = []
    for pair, ours, top, reference in zip(pairs, found, best, likely, strict=True):
        limit = max_output_length(run.model, settings, source=len(ours.source_tokens))
        ids = tuple(run.tokenizers.target.encode(pair.target))
        judged.append(
            judge(
                pair.source,
                _said(ours),
                _said(top),
                Said(pair.target, ids, reference.log_probability),
                proven=top.proven,
                limit=limit,
                ranking=ranking,
            )
        )
    parts = [_asked(run, settings), f"normalization:{settings.normalization}", f"length_penalty:{ranking.alpha:g}"]
    parts = [*dict.fromkeys("|".join(parts).split("|")), f"max_nodes:{settings.max_nodes}", f"tolerance:{TOLERANCE:g}"]
    return SearchErrors(judged, ranking, "|".join([*parts, f"version:weft {__version__}"]))


def _asked(run: Translator, settings: SearchSettings) -> str:
    """The search, and how many models were asked where it was more than one."""
    several = f"|ensemble:{len(run.model.members)}" if isinstance(run.model, Ensemble) else ""
    return signature(settings) + several


def _said(found: Translation) -> Said:
    return Said(found.text, tuple(found.ids), found.log_probability, ended=found.ended == "end")


def align(run: Translator, pairs: Sequence[Pair]) -> AlignmentScore | None:
    """The attention's links for given targets against the gold links, all of them sure."""
    known = [pair for pair in pairs if pair.links is not None]
    if not known or not run.recipe.model.attends or run.recipe.model.kind == "language_model":
        return None
    predicted = [frozenset(forced.links) for forced in run.force_decode(known)]
    gold = [frozenset(pair.links or ()) for pair in known]
    return alignment_error_rate(predicted, gold, gold)


ALWAYS = {
    "beam": ("size", "length_penalty"),
    "sample": ("temperature", "top_k", "top_p"),
    "mbr": ("samples", "utility"),
}
"""What a signature always names of a search."""
ALONE = {
    "beam": {"size", "stop", "finish", "groups", "diversity", "required"},
    "sample": {"temperature", "top_k", "top_p", "min_p", "typical", "seed"},
    "mbr": {"temperature", "top_k", "top_p", "min_p", "typical", "seed", "samples", "utility"},
}
"""What changes these searches and no other."""
LEFT_OUT = {"kind", "batch_tokens", "max_nodes", "max_space"}
"""Not in a signature: they change nothing about what is found, or only whether anything is."""
DEFAULTS = dict(SearchSettings())


def signature(search: SearchSettings) -> str:
    """The search in one word, so that a score can be reproduced: what always counts, and all that was changed."""
    foreign = LEFT_OUT | set().union(*ALONE.values()) - ALONE.get(search.kind, set())
    changed = [name for name, value in search if value != DEFAULTS[name] and name not in foreign]
    shown = dict.fromkeys([*ALWAYS.get(search.kind, ()), *changed])
    parts = [f"{name}:{_plain(getattr(search, name))}" for name in shown]
    return "|".join([f"search:{search.kind}", *parts])


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
