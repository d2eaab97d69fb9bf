"""Comparing runs on the same test set: scores with intervals, tests of the differences, and where the outputs differ.

The first run is the baseline: every other run is compared with it. `weft.evaluation.significance` has the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import DataError, RecipeError, SearchError, WeftError, plural
from weft.evaluation.evaluate import n_best_search, run_signature, score_translations
from weft.evaluation.line_statistics import LineStatistics, Outputs, edit_statistics, line_statistics
from weft.evaluation.metrics import METRICS, MetricScore, check_metrics, split_name
from weft.evaluation.output_differences import OutputDifferences, output_differences
from weft.evaluation.pairs import EvaluationSet, GivenPairs, find_items
from weft.evaluation.significance import (
    Interval,
    Resampling,
    bootstrap_scores,
    difference_interval,
    p_value,
    score_interval,
)
from weft.evaluation.top_k import Matches, has_same_tokens
from weft.recipe import Recipe, load_recipe
from weft.runs.layout import RunFolder
from weft.translation.results import Translation
from weft.translation.translator import Translator

TEST_NAMES = {"randomization": "approximate randomization", "bootstrap": "paired bootstrap resampling"}


class Difference(NamedTuple):
    """The score of a run minus that of the first run."""

    value: float
    interval: Interval
    """95 %, by paired bootstrap."""
    p_value: float
    """The p-value of the chosen test, under the null hypothesis that both runs are equally good."""


class RunScore(NamedTuple):
    """A score of one run."""

    run: str
    value: float
    interval: Interval | None
    """95 %, by bootstrap; exact for a share of 0 % or 100 %. None for metrics that are not sums over lines (distinct_1,
    distinct_2)."""
    difference: Difference | None
    """Difference from the first run; None for the first run itself, where there is no interval, and if the two scores
    have different signatures: rep-n of words and of characters."""


@dataclass(frozen=True)
class MetricComparison:
    """One score of every run."""

    name: str
    better: str
    """``"higher"`` or ``"lower"``."""
    signature: str
    runs: list[RunScore]

    def summary(self, width: int) -> list[str]:
        """A line for the signature, and one for each run; names are padded to ``width``."""
        lines = [f"{self.name} ({self.better} is better)   {self.signature}"]
        for score in self.runs:
            line = f"  {score.run:<{width}}{score.value:8.2f}"
            if score.interval is not None:
                line += "   [{:.2f}, {:.2f}]".format(*score.interval)
            if score.difference is not None:
                difference = score.difference
                limits = "[{:+.2f}, {:+.2f}]".format(*difference.interval)
                line += f"   difference {difference.value:+.2f} {limits}   p = {difference.p_value:.4f}"
            lines.append(line)
        return lines


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of a comparison; the first of the runs is the one that the others are compared with."""

    runs: list[str]
    pairs: int
    items: int
    """Sources that were translated; fewer than pairs if those with the same source are one item."""
    metrics: list[MetricComparison]
    outputs: list[OutputDifferences]
    """Differences of outputs from those of the first run, for every other run."""
    searches: list[str]
    """The signature of the search of each run."""
    resampling: Resampling
    left_out: dict[str, int]
    """Rows that were not used, by the kind of error: those with a blank side are "blank"."""

    def __repr__(self) -> str:
        return f"<Comparison of {plural(len(self.runs), 'run')} on {plural(self.items, 'item')}>"

    def __str__(self) -> str:
        return "\n".join(self.summary())

    def summary(self, examples: int = 5) -> list[str]:
        """The comparison line by line, with at most ``examples`` differing outputs for each run."""
        width = max(map(len, self.runs)) + 1
        lines = [line for metric in self.metrics for line in metric.summary(width)]
        for differences in self.outputs:
            lines += ["", *differences.summary(examples)]
        samples, seed, test = self.resampling
        searches = dict.fromkeys(self.searches)
        return [
            *lines,
            "",
            f"{plural(self.items, 'item')}; p: {TEST_NAMES[test]}; [95 % intervals]: bootstrap; "
            f"{samples:,} samples, seed {seed}",
            *([f"every run: {self.searches[0]}"] if len(searches) == 1 else []),
            *([f"{run}: {search}" for run, search in zip(self.runs, self.searches, strict=True)] * (len(searches) > 1)),
        ]

    def record(self, examples: int = 5) -> dict[str, Any]:
        """The comparison as JSON values, for ``--json``."""
        return {
            "runs": self.runs,
            "pairs": self.pairs,
            "items": self.items,
            "left_out": self.left_out,
            "searches": self.searches,
            **self.resampling._asdict(),
            "metrics": {
                metric.name: {"better": metric.better, "signature": metric.signature, "runs": _records(metric.runs)}
                for metric in self.metrics
            },
            "outputs": [differences.record(examples) for differences in self.outputs],
        }


def _records(scores: Sequence[RunScore]) -> list[dict[str, Any]]:
    return [
        {**score._asdict(), "difference": None if score.difference is None else score.difference._asdict()}
        for score in scores
    ]


class ComparedRun(NamedTuple):
    """A run to compare; it is loaded when its turn comes, so that only one is in memory."""

    name: str
    recipe: Recipe
    load: Callable[[], Translator]


def compare(
    *runs: Translator | Path | str,
    pairs: GivenPairs | None = None,
    metrics: Sequence[str] | None = None,
    limit: int | None = None,
    samples: int = 1_000,
    seed: int = 12_345,
    test: str = "randomization",
    **search: Any,
) -> Comparison:
    """Compare two or more runs on the same test set; the first is the baseline.

        print(weft.compare("runs/baseline", "runs/mine", metrics=["bleu"]))

    ``runs``: folders, or runs of `weft.load`.
    ``pairs``: as in `evaluate`; by default the test set that the recipes name, which must be the same for all.
    ``metrics``: names, by default those of the first run's recipe, which also says how pairs with the same source are
    used. ``limit``: use only the first ``limit`` pairs.
    ``samples`` and ``seed``: number and seed of the random samples of lines for intervals and p-values. ``test``:
    "randomization" or "bootstrap", both paired.
    ``search`` changes search settings of every run, e.g. ``size=8``.
    """
    candidates = [_candidate(run, number) for number, run in enumerate(runs, 1)]
    given = list(pairs) if pairs is not None and not isinstance(pairs, Path | str) else pairs
    return compare_candidates(candidates, given, metrics, limit, Resampling(samples, seed, test), search)


def _candidate(run: Translator | Path | str, number: int) -> ComparedRun:
    if isinstance(run, Translator):
        return ComparedRun(f"run {number}" if run.folder is None else str(run.folder), run.recipe, lambda: run)
    if not isinstance(run, Path | str):
        raise RecipeError(f"compare: a {type(run).__name__} was given; expected a run, or the path of a run folder")
    return candidate_of_folder(Path(run), lambda: _load(run))


def candidate_of_folder(folder: Path, load: Callable[[], Translator]) -> ComparedRun:
    """A run folder that is loaded by a function."""
    run = RunFolder(folder)
    run.check()
    return ComparedRun(str(folder), load_recipe(run.recipe), load)


def _load(folder: Path | str) -> Translator:
    from weft.translation.load import load

    return load(folder)


def compare_candidates(
    candidates: Sequence[ComparedRun],
    pairs: GivenPairs | None,
    metrics: Sequence[str] | None,
    limit: int | None,
    resampling: Resampling,
    search: dict[str, Any],
) -> Comparison:
    """`compare` of runs that are loaded one after the other; ``pairs`` may be read more than once."""
    resampling.check()
    if len(candidates) < 2:
        raise RecipeError(f"compare: {plural(len(candidates), 'run')} given; expected two or more")
    first = candidates[0]
    names = first.recipe.evaluation.metrics if metrics is None else metrics
    check_metrics(names)
    given = _same_test_set(candidates, pairs, limit)
    check_metrics(names, several_references=any(len(line) > 1 for line in given.items.references))
    labels = _labels([candidate.name for candidate in candidates])
    results = [translate_and_score(candidate.load(), names, given, search) for candidate in candidates]
    texts = [[translation.text for translation in result.translations] for result in results]
    matches = matches_of(names)
    return Comparison(
        runs=labels,
        pairs=len(given.pairs),
        items=len(given.items.sources),
        metrics=_metric_comparisons(labels, results, resampling),
        outputs=[
            output_differences((labels[0], label), (texts[0], other), given.items, matches)
            for label, other in zip(labels[1:], texts[1:], strict=True)
        ],
        searches=[result.search for result in results],
        resampling=resampling,
        left_out=given.left_out,
    )


def _same_test_set(candidates: Sequence[ComparedRun], pairs: GivenPairs | None, limit: int | None) -> EvaluationSet:
    """The test set of all runs; runs that cannot be compared on it are refused."""
    first, *others = candidates
    for candidate in candidates:
        if candidate.recipe.source_role == "none":
            raise SearchError(f"{candidate.name}: a language model without prompts has no outputs to compare")
    columns = first.recipe.model.sources.count
    for other in others:
        if other.recipe.model.sources.count != columns:
            raise DataError(
                f"{other.name}: {plural(other.recipe.model.sources.count, 'source column')}, but {first.name} has "
                f"{columns}; compare runs with the same source columns"
            )
    grouping = first.recipe.evaluation.references
    sets = []
    for candidate in candidates:
        try:
            sets.append(find_items(candidate.recipe, pairs, grouping=grouping, limit=limit))
        except WeftError as error:
            raise type(error)(f"{candidate.name}: {error}" if pairs is None else str(error)) from error
    for other, items in zip(others, (given.items for given in sets[1:]), strict=True):
        for side, expected, actual in zip(("sources", "targets"), sets[0].items, items, strict=True):
            if expected != actual:
                raise DataError(
                    f"{other.name}: the {side} of its test set are not those of {first.name}; "
                    "give a file of pairs for all runs"
                )
    return sets[0]


def _labels(names: Sequence[str]) -> list[str]:
    """The names; a run that is given again has its number behind it."""
    return [f"{name} ({number})" if name in names[: number - 1] else name for number, name in enumerate(names, 1)]


def matches_of(names: Sequence[str]) -> Matches:
    """When an output is right: by the first metric that says so, or if it is a reference but for white space."""
    return next((matches for name in names if (matches := METRICS[split_name(name)[0]].matches)), has_same_tokens)


class RunResult(NamedTuple):
    """The outputs of a run, its scores, and the statistics of each."""

    translations: list[Translation]
    search: str
    scores: list[MetricScore]
    statistics: list[LineStatistics | None]


def translate_and_score(
    run: Translator, names: Sequence[str], given: EvaluationSet, search: dict[str, Any]
) -> RunResult:
    """Translate a test set; the metrics, and what each line contributes to them."""
    n_best, settings = n_best_search(run, names, search)
    translations = run.translate(given.items.sources, n_best=n_best, return_attention=False, **settings)
    outputs = Outputs(
        texts=[translation.text for translation in translations],
        references=given.items.references,
        sources=given.items.sources,
        n_best=[[best.text, *(other.text for other in best.alternatives)] for best in translations],
    )
    statistics: list[LineStatistics | None] = []
    if given.gold is not None:
        statistics += edit_statistics(outputs, given.gold)
        names = [name for name in names if name != "edit_f05"]
    for name in names:
        statistics += line_statistics(name, outputs) or [None]
    scores = score_translations(names, translations, given)
    return RunResult(translations, run_signature(run, run.search_settings(settings)), scores, statistics)


def _metric_comparisons(
    labels: Sequence[str], results: Sequence[RunResult], resampling: Resampling
) -> list[MetricComparison]:
    comparisons = []
    for number, metric in enumerate(results[0].scores):
        baseline = results[0].statistics[number]
        sampled = None if baseline is None else bootstrap_scores(baseline, resampling)
        runs: list[RunScore] = []
        for label, result in zip(labels, results, strict=True):
            value, statistics = result.scores[number].value, result.statistics[number]
            if statistics is None or baseline is None or sampled is None:
                runs.append(RunScore(label, value, None, None))
                continue
            scores = bootstrap_scores(statistics, resampling)
            difference = None
            if runs and result.scores[number].signature == metric.signature:
                p = p_value(baseline, statistics, resampling)
                limits = difference_interval(metric.name, baseline, statistics, scores - sampled)
                difference = Difference(value - metric.value, limits, p)
            runs.append(RunScore(label, value, score_interval(metric.name, statistics, scores), difference))
        comparisons.append(MetricComparison(metric.name, metric.better, metric.signature, runs))
    return comparisons
