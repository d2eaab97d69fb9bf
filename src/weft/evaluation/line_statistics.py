"""Metrics as sums over lines, so that they can be computed again for a resampled test set without the texts.

A line contributes a few numbers (sufficient statistics), and the score of a set of lines is a function of their sums:

    BLEU                  matches and totals of n-grams, the two lengths          chrF, TER: likewise, from sacrebleu
    error rates           edit distance, length of the reference
    edit F0.5             correct, proposed and gold edits; with several annotators, of the annotator that counts in the
                          whole test set
    rep-n                 distinct n-grams, all n-grams
    all other metrics     the score of the line, 1: their score is a mean over lines

The number of distinct n-grams of a corpus is not such a sum, so `distinct_1` and `distinct_2` are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.brackets import count_brackets
from weft.evaluation.max_match import Edit, EditCounts, edits_of_references, score_lines
from weft.evaluation.metrics import METRICS, MetricScore, ngrams, split_name
from weft.evaluation.repetition import find_loop, split_into_units
from weft.evaluation.sacrebleu_metrics import reference_streams, sacrebleu_metric
from weft.text.string_distance import edit_distance

Array = NDArray[np.float64]
WITHOUT = ("distinct_1", "distinct_2")
"""Metrics that are not a function of sums over lines."""
SACREBLEU = ("bleu", "bleu_lowercase", "bleu_tokenized", "chrf", "ter")
UNITS: dict[str, Callable[[str], list[str]]] = {"character_error_rate": list, "token_error_rate": str.split}


@dataclass(frozen=True)
class LineStatistics:
    """The contribution of each line to one score."""

    lines: Array
    """(lines, numbers of a line)"""
    score: Callable[[Array], float]
    """The score of a set of lines, from the sums over them."""

    def of_all(self) -> float:
        """The score of all lines, each once."""
        return self.score(self.lines.sum(0))


class Outputs(NamedTuple):
    """The outputs of a run for a test set, and what they are compared with."""

    texts: Sequence[str]
    references: Sequence[Sequence[str]]
    sources: Sequence[str] = ()
    n_best: Sequence[Sequence[str]] = ()
    """The best outputs for each line, best first; for metrics with an @."""


def line_statistics(name: str, outputs: Outputs) -> list[LineStatistics]:
    """The statistics of each score of a metric: several if it gives several scores, none if there are none (above)."""
    base, k = split_name(name)
    if base in WITHOUT:
        return []
    if base in SACREBLEU:
        return [_of_sacrebleu(base, outputs)]
    if base in UNITS:
        return [_edit_rate(UNITS[base], outputs)]
    if base == "edit_f05":
        return edit_statistics(outputs, edits_of_references(outputs.sources, outputs.references))[-1:]
    if base == "repetition":
        return _repetition(outputs)
    if base == "brackets":
        return _brackets(outputs)
    if base != name:
        return [_top_k(base, k, outputs)]
    return [_mean(_line_scores(base, outputs))]


def edit_statistics(outputs: Outputs, gold: Sequence[Sequence[Sequence[Edit]]]) -> list[LineStatistics]:
    """Line statistics of the precision, recall and F0.5 of edits."""
    lines = _array(score_lines(outputs.sources, outputs.texts, gold))
    return [
        LineStatistics(lines, lambda sums: 100.0 * _counts(sums).precision),
        LineStatistics(lines, lambda sums: 100.0 * _counts(sums).recall),
        LineStatistics(lines, lambda sums: 100.0 * _counts(sums).f_score),
    ]


def _counts(sums: Array) -> EditCounts:
    return EditCounts(*(round(number) for number in sums.tolist()))


def _of_sacrebleu(name: str, outputs: Outputs) -> LineStatistics:
    """A metric of sacrebleu by the methods of its own tests: statistics of segments, and a score from their sums."""
    metric = sacrebleu_metric(name)
    lines = metric._extract_corpus_statistics(outputs.texts, reference_streams(outputs.references))
    return LineStatistics(_array(lines), lambda sums: float(metric._compute_score_from_stats(sums.tolist()).score))


def _edit_rate(split: Callable[[str], list[str]], outputs: Outputs) -> LineStatistics:
    pairs = [(split(text), split(line[0])) for text, line in zip(outputs.texts, outputs.references, strict=True)]
    return LineStatistics(_array([(edit_distance(*pair), len(pair[1])) for pair in pairs]), _percent)


def _repetition(outputs: Outputs) -> list[LineStatistics]:
    sequences, _ = split_into_units(outputs.texts)
    statistics = [_mean([100.0 * (find_loop(tokens) is not None) for tokens in sequences])]
    for n in range(1, 5):
        grams = [ngrams(tokens, n) for tokens in sequences]
        repeated = [(len(line) - len(set(line)), len(line)) for line in grams]
        statistics.append(LineStatistics(_array(repeated), _percent))
    return statistics


def _brackets(outputs: Outputs) -> list[LineStatistics]:
    """Precision, recall, F1 and ill-formed trees; of a line: the counts, their sum for F1, and that it is one line."""
    counts = count_brackets(outputs.texts, [line[0] for line in outputs.references])
    shares = [
        [(line.matched, line.output) for line in counts],
        [(line.matched, line.reference) for line in counts],
        [(2 * line.matched, line.output + line.reference) for line in counts],
        [(line.ill_formed, 1) for line in counts],
    ]
    return [LineStatistics(_array(lines), _percent) for lines in shares]


def _top_k(base: str, k: int, outputs: Outputs) -> LineStatistics:
    matches = METRICS[base].matches
    assert matches is not None  # or the name would have no @
    lines = zip(outputs.n_best, outputs.references, strict=True)
    return _mean([100.0 * any(matches(text, line) for text in best[:k]) for best, line in lines])


def _line_scores(base: str, outputs: Outputs) -> list[float]:
    values = []
    for text, line in zip(outputs.texts, outputs.references, strict=True):
        score = METRICS[base].compute([text], [line])
        assert isinstance(score, MetricScore)
        values.append(score.value)
    return values


def _mean(values: Sequence[float]) -> LineStatistics:
    return LineStatistics(_array([(value, 1.0) for value in values]), lambda sums: float(sums[0] / sums[1]))


def _percent(sums: Array) -> float:
    """100 × the first sum / the second; 0 if that is 0."""
    return float(100.0 * sums[0] / sums[1]) if sums[1] else 0.0


def _array(lines: Sequence[Sequence[float]]) -> Array:
    return np.array(lines, dtype=np.float64)
