"""A run in one look: its scores on the test set with 95 % intervals, and some outputs that are right and wrong.

What ``weft train`` ends with; `weft.evaluate` has every number with its signature, `weft report` everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from weft.data.preparation import has_corpus
from weft.errors import DataError, plural
from weft.evaluation.comparison import RunResult, matches_of, translate_and_score
from weft.evaluation.evaluate import loaded_run
from weft.evaluation.marked_differences import Mark, in_brackets, marked, shortened
from weft.evaluation.metrics import MetricScore, check_metrics, perplexity
from weft.evaluation.output_differences import similarity
from weft.evaluation.pairs import EvaluationItems, EvaluationSet, find_scorable_items, training_overlap
from weft.evaluation.significance import Resampling, bootstrap_scores, score_interval
from weft.translation.translator import Translator

EXAMPLES = 5
MAX_RANKED = 200
"""Wrong outputs that are ranked by their similarity to the reference: of more, every n-th."""
MAX_COMPARED = 500
"""Characters of a text that are compared for that."""
SEED = 1
"""Seed of the sample drawn from a large test set."""


class ScoreWithInterval(NamedTuple):
    """A score, and its 95 % interval: in it lie the scores of 95 % of random samples of the test set (bootstrap)."""

    score: MetricScore
    interval: tuple[float, float] | None
    """95 % interval; None for metrics that are not sums over lines, and for perplexity."""


class ExampleOutput(NamedTuple):
    """An output of the test set."""

    item: int
    """Its number in the test set, from 1."""
    source: str
    output: str
    reference: str
    """The one that the output is nearest to, if there are several."""


@dataclass(frozen=True, repr=False)
class Summary:
    """The result of a run on its test set."""

    split: str
    """"test", or "valid" if there is no test set."""
    items: int
    """The number of items that were translated."""
    all_items: int
    """The number of items of the test set."""
    scores: list[ScoreWithInterval]
    """Scores, with the metric that the task is judged by first; for a language model, its perplexity."""
    right_outputs: int
    right: list[ExampleOutput]
    wrong: list[ExampleOutput]
    """Wrong outputs, ordered from nearest to farthest from the reference."""
    seen_sources: int = 0
    """Items whose source is in the training data."""

    def __repr__(self) -> str:
        values = ", ".join(f"{score.name} {score.value:.2f}" for score, _ in self.scores)
        return f"<Summary: {plural(self.items, 'item')} of the {self.name}; {values}>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def name(self) -> str:
        return "test set" if self.split == "test" else "validation set"

    def lines(self, mark: Mark = in_brackets) -> list[str]:
        """The summary line by line; ``mark``: how a difference between output and reference is shown."""
        sample = f"a sample of {self.items:,} of the " if self.items < self.all_items else ""
        lines = [f"{self.name.capitalize()}: {sample}{plural(self.all_items, 'item')}"]
        if self.split != "test":
            lines[0] += " (there is no test set; the model was chosen by these, so expect less on other texts)"
        if self.seen_sources:
            are = "is" if self.seen_sources == 1 else "are"
            lines.append(f"  {self.seen_sources:,} of the sources {are} in the training data, too")
        width = max(len(score.name) for score, _ in self.scores) + 2
        for score, limits in self.scores:
            line = f"  {score.name:<{width}}{score.value:8.2f}"
            lines.append(line if limits is None else line + "   95 % interval {:.2f} to {:.2f}".format(*limits))
        if self.right or self.wrong:
            lines += ["", f"Right: {self._share(self.right_outputs)}"]
            lines += [f"  {shortened(example.source)}  →  {shortened(example.output)}" for example in self.right]
        if self.wrong:
            lines += ["", f"Wrong: {self._share(self.items - self.right_outputs)}; {mark('differences')} are marked"]
            for example in self.wrong:
                output, reference = marked(example.output, example.reference, mark)
                lines += [f"  source     {shortened(example.source)}", f"  output     {output}"]
                lines += [f"  reference  {reference}", ""]
            del lines[-1]
        return lines

    def _share(self, count: int) -> str:
        return f"{count:,} of {plural(self.items, 'output')}"

    def record(self) -> dict[str, Any]:
        """The summary as JSON values."""
        return {
            "split": self.split,
            "items": self.items,
            "all_items": self.all_items,
            "scores": [
                {"name": score.name, "value": score.value, "interval": limits, "signature": score.signature}
                for score, limits in self.scores
            ],
            "right_outputs": self.right_outputs,
            "right": [example._asdict() for example in self.right],
            "wrong": [example._asdict() for example in self.wrong],
            "seen_sources": self.seen_sources,
        }


def summarize(
    run: Translator | Path | str,
    *,
    split: str | None = None,
    limit: int | None = None,
    examples: int = EXAMPLES,
    **search: Any,
) -> Summary:
    """Translate the test set of a run's recipe: scores with 95 % intervals, and outputs that are right and wrong.

    ``run``: a run of `weft.load`, or its folder.
    ``split``: "test" or "valid"; by default the test set or, if the recipe has none, the validation set.
    ``limit``: translate only a random sample of this many items. ``examples``: how many to show of each kind, at most.
    ``search`` changes search settings, e.g. ``size=8``.
    """
    run = loaded_run(run)
    recipe = run.recipe
    split = split or next((split for split in ("test", "valid") if has_corpus(recipe, split)), None)
    if split is None:
        raise DataError(f"{run.folder or 'run'}: its recipe has neither a test set nor a validation set")
    given = find_scorable_items(run, None, grouping=recipe.evaluation.references, split=split)
    overlap = training_overlap(run.folder, given.pairs)
    seen = 0 if overlap is None else overlap.sources
    all_items = len(given.items.sources)
    if run.source_role == "none":
        scores = [ScoreWithInterval(_perplexity(run, given), None)]
        return Summary(split, all_items, all_items, scores, 0, [], [], seen)
    given = _sampled(given, limit)
    names = judged_by(recipe.evaluation.metrics, recipe.training.metric)
    check_metrics(names, several_references=any(len(line) > 1 for line in given.items.references))
    result = translate_and_score(run, names, given, search)
    matches = matches_of(names)
    outputs = [translation.text for translation in result.translations]
    right = [matches(text, line) for text, line in zip(outputs, given.items.references, strict=True)]
    chosen = _choose(outputs, given.items, right, examples)
    items = len(given.items.sources)
    return Summary(split, items, all_items, _with_intervals(result), sum(right), *chosen, seen)


def judged_by(metrics: Sequence[str], training_metric: str) -> list[str]:
    """The metrics of a recipe, first the one that checkpoints are chosen by."""
    first = [] if training_metric == "loss" else [training_metric]
    return list(dict.fromkeys([*first, *metrics]))


def _sampled(given: EvaluationSet, limit: int | None) -> EvaluationSet:
    sources, references = given.items
    if limit is None or limit >= len(sources):
        return given
    chosen = sorted(Random(SEED).sample(range(len(sources)), max(limit, 1)))
    items = EvaluationItems([sources[item] for item in chosen], [references[item] for item in chosen])
    return given._replace(items=items)


def _with_intervals(result: RunResult) -> list[ScoreWithInterval]:
    scores = []
    for score, lines in zip(result.scores, result.statistics, strict=True):
        limits = None if lines is None else score_interval(score.name, lines, bootstrap_scores(lines, Resampling()))
        scores.append(ScoreWithInterval(score, limits))
    return scores


def _perplexity(run: Translator, given: EvaluationSet) -> MetricScore:
    scores = run.score(given.pairs)
    return perplexity(sum(score.log_probability for score in scores), sum(len(score.token_scores) for score in scores))


def _choose(
    outputs: Sequence[str], items: EvaluationItems, right: Sequence[bool], count: int
) -> tuple[list[ExampleOutput], list[ExampleOutput]]:
    """Examples of right outputs, from all over the test set, and of wrong ones, from near to far."""

    def example(item: int) -> ExampleOutput:
        output, references = outputs[item], items.references[item]
        nearest = max(references, key=lambda reference: _similarity(output, [reference]))
        return ExampleOutput(item + 1, items.sources[item], output, nearest)

    correct = [item for item in range(len(outputs)) if right[item]]
    distinct = sorted({outputs[item]: item for item in correct}.values())
    wrong = _evenly([item for item in range(len(outputs)) if not right[item]], MAX_RANKED)
    wrong.sort(key=lambda item: (-_similarity(outputs[item], items.references[item]), item))
    shown_right = _evenly(distinct if len(distinct) >= count else correct, count)
    return [example(item) for item in shown_right], [example(item) for item in _evenly(wrong, count)]


def _similarity(output: str, references: Sequence[str]) -> float:
    return similarity(output[:MAX_COMPARED], [text[:MAX_COMPARED] for text in references])


def _evenly(values: Sequence[int], count: int) -> list[int]:
    """``count`` evenly spaced values, from the first to the last; all of them if there are fewer."""
    if len(values) <= count:
        return list(values)
    if count < 2:
        return list(values[:count])
    return [values[round(number * (len(values) - 1) / (count - 1))] for number in range(count)]
