"""The outputs of a run for its test set, computed once for all sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from weft.data.fingerprints import Fingerprints
from weft.data.preparation import has_corpus
from weft.errors import DataError
from weft.evaluation.alignment import AlignmentScore
from weft.evaluation.comparison import RunResult, matches_of, translate_and_score
from weft.evaluation.confusions import UnitPair, Units, choose_units, compare_units
from weft.evaluation.evaluate import score_alignment
from weft.evaluation.line_statistics import LineStatistics
from weft.evaluation.metrics import MetricScore, check_metrics, perplexity
from weft.evaluation.pairs import EvaluationSet, GivenPairs, find_items
from weft.evaluation.significance import Resampling, bootstrap_scores, score_interval
from weft.recipe import Recipe
from weft.translation.results import PairScore, Translation
from weft.translation.translator import Translator

VALIDATION_NOTE = (
    "The recipe names no test set, so this is the validation set: training has chosen its checkpoint by it, and scores "
    "on new data will be lower."
)


class ReportRequest(NamedTuple):
    """The arguments of `report`."""

    pairs: GivenPairs | None = None
    metrics: Sequence[str] | None = None
    limit: int | None = None
    resampling: Resampling = Resampling()
    search: Mapping[str, Any] = MappingProxyType({})


class ScoredMetric(NamedTuple):
    """A metric of the outputs."""

    score: MetricScore
    interval: tuple[float, float] | None
    """95 %, by bootstrap; None for metrics that are not sums over items."""
    statistics: LineStatistics | None


@dataclass(frozen=True)
class TestOutputs:
    """The test set of a report, and what the run makes of it."""

    __test__ = False

    name: str
    """"test set", "validation set", or the name of a file."""
    note: str
    """The reason why it is not the test set; empty if it is."""
    split: str | None
    """"test" or "valid", if it is all of this split of the recipe."""
    given: EvaluationSet
    perplexity: MetricScore
    resampling: Resampling
    search: str = "none"
    """The signature of the search."""
    translations: Sequence[Translation] = ()
    """One translation per item; empty for a language model."""
    metrics: Sequence[ScoredMetric] = ()
    right: Sequence[bool] = ()
    """Whether each output is right: by exact match, or by the first metric that decides it."""
    seen: Sequence[bool | None] = ()
    """Whether the source of each item is in the training data; None: not known."""
    aligned: Sequence[Sequence[UnitPair]] = ()
    """The units of each output beside those of its reference."""
    source_units: Units | None = None
    target_units: Units | None = None
    alignment: AlignmentScore | None = None

    @property
    def sources(self) -> list[str]:
        return self.given.items.sources

    @property
    def references(self) -> list[list[str]]:
        return self.given.items.references

    @property
    def has_outputs(self) -> bool:
        return bool(self.translations)


class TestSet(NamedTuple):
    """The pairs that a report is about."""

    name: str
    note: str
    split: str | None
    given: EvaluationSet


def find_test_set(recipe: Recipe, request: ReportRequest) -> TestSet | None:
    """The given pairs, the test set or, if the recipe names none, the validation set."""
    grouping = recipe.evaluation.references
    if request.pairs is not None:
        name = Path(request.pairs).name if isinstance(request.pairs, Path | str) else "given pairs"
        return TestSet(name, "", None, find_items(recipe, request.pairs, grouping=grouping, limit=request.limit))
    for split, name, note in (("test", "test set", ""), ("valid", "validation set", VALIDATION_NOTE)):
        if has_corpus(recipe, split):
            try:
                given = find_items(recipe, None, grouping=grouping, split=split, limit=request.limit)
            except DataError as error:
                has_remedy = "name the pairs" in str(error)
                raise DataError(str(error) if has_remedy else f"{error}; or give a file of pairs") from error
            return TestSet(name, note, split if request.limit is None else None, given)
    return None


def choose_metrics(recipe: Recipe, request: ReportRequest, test_set: TestSet | None) -> Sequence[str]:
    """The metrics that were asked for, or those of the recipe; they must fit the test set."""
    names = recipe.evaluation.metrics if request.metrics is None else request.metrics
    references = [] if test_set is None else test_set.given.items.references
    check_metrics(names, several_references=any(len(line) > 1 for line in references))
    return names


def translate_test_set(
    run: Translator, request: ReportRequest, test_set: TestSet, units: tuple[Units, Units] | None
) -> TestOutputs:
    """Translate the test set and score it.

    ``units``: the units in which the frequencies of the training data were counted; None if there are none.
    """
    name, note, split, given = test_set
    metrics = choose_metrics(run.recipe, request, test_set)
    likelihood = _perplexity(run.score(given.pairs))
    if run.source_role == "none":
        return TestOutputs(name, note, split, given, likelihood, request.resampling)
    result = translate_and_score(run, metrics, given, dict(request.search))
    matches = matches_of(metrics)
    sources, references = given.items
    texts = [translation.text for translation in result.translations]
    tokenizer = run.recipe.tokenizer
    source_units, target_units = units or (
        choose_units(sources, tokenizer.kind),
        choose_units((text for line in references for text in line), tokenizer.target_unit),
    )
    return TestOutputs(
        name,
        note,
        split,
        given,
        likelihood,
        request.resampling,
        search=result.search,
        translations=result.translations,
        metrics=_with_intervals(result, request.resampling),
        right=[matches(text, line) for text, line in zip(texts, references, strict=True)],
        seen=_seen(run, given),
        aligned=[compare_units(text, line, target_units) for text, line in zip(texts, references, strict=True)],
        source_units=source_units,
        target_units=target_units,
        alignment=score_alignment(run, given.pairs),
    )


def _with_intervals(result: RunResult, resampling: Resampling) -> list[ScoredMetric]:
    metrics = []
    for score, lines in zip(result.scores, result.statistics, strict=True):
        limits = None if lines is None else score_interval(score.name, lines, bootstrap_scores(lines, resampling))
        metrics.append(ScoredMetric(score, limits, lines))
    return metrics


def _perplexity(scores: Iterable[PairScore]) -> MetricScore:
    scores = list(scores)
    return perplexity(sum(score.log_probability for score in scores), sum(len(score.token_scores) for score in scores))


def _seen(run: Translator, given: EvaluationSet) -> list[bool | None]:
    fingerprints = None if run.folder is None else Fingerprints.load(run.folder)
    if fingerprints is None:
        return [None] * len(given.items.sources)
    from weft.data.pairs import Pair

    return fingerprints.known_sources([Pair(source, "") for source in given.items.sources])
