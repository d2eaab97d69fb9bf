"""Significance of differences between two runs, by resampling the lines of a test set.

**Intervals** by bootstrap (Efron 1979; Koehn 2004): draw as many lines as there are, with replacement, and compute the
score again. 95 % of the scores lie in the interval. The same lines are drawn for both runs, which also gives an
interval for their difference. If all lines are right, all are wrong or none differs, the same is true of every sample;
the interval of a share is then computed exactly (Clopper & Pearson 1934).

**Approximate randomization** (Noreen 1989; Riezler & Maxwell 2005), the default test: if the two runs were equally
good, it would not matter which output came from which. So the outputs of each line are exchanged with probability ½:

    p = (1 + samples with |A* − B*| ≥ |A − B|) / (1 + samples)                              two-sided

**Paired bootstrap** (Koehn 2004), in the form of Moses and sacrebleu: as above, with |A* − B*| less its mean over the
samples, A* and B* being scores of the same drawn lines.

The samples are those of sacrebleu for the same seed. Its p-values count only samples that are strictly above the
difference: for a metric with few different values (two runs that differ in one line of exact match) that would call
every difference significant, and a run significantly different from itself. Here equal ones count too; where there are
none, as is usual with BLEU, the p-values are the same: tests/evaluation/test_significance.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from weft.errors import RecipeError
from weft.evaluation.line_statistics import Array, LineStatistics

Interval = tuple[float, float]
TESTS = ("randomization", "bootstrap")
SHARES = ("exact match", "token match", "item error rate")
"""Metrics that are a share of the items; also with an @."""
MIN_SAMPLES = 100
MAX_NUMBERS = 1 << 22
"""Random numbers in memory at a time."""
TOLERANCE = 1e-9
"""Scores that differ by less are equal: sums of floating-point numbers depend on their order."""


class Resampling(NamedTuple):
    """The number of random samples, their seed, and the test for p-values."""

    samples: int = 1_000
    seed: int = 12_345
    test: str = "randomization"

    def check(self) -> None:
        if self.samples < MIN_SAMPLES:
            raise RecipeError(f"samples: {self.samples} was given; expected at least {MIN_SAMPLES}")
        if self.seed < 0:
            raise RecipeError(f"seed: {self.seed} was given; expected 0 or more")
        if self.test not in TESTS:
            raise RecipeError(f"test: {self.test!r} was given; use {' or '.join(TESTS)}")


def bootstrap_scores(statistics: LineStatistics, resampling: Resampling) -> Array:
    """The score of each sample of lines; the same lines for every run with as many lines."""
    number = len(statistics.lines)
    generator = np.random.default_rng(resampling.seed)
    scores = []
    for size in _blocks(resampling.samples, number):
        for drawn in generator.choice(number, size=(size, number), replace=True):
            times = np.bincount(drawn, minlength=number).astype(np.float64)
            scores.append(statistics.score(times @ statistics.lines))
    return np.array(scores)


def randomized_differences(first: LineStatistics, second: LineStatistics, resampling: Resampling) -> Array:
    """|A* − B*| of each sample, the outputs of every line being exchanged or not."""
    number = len(first.lines)
    total = first.lines.sum(0) + second.lines.sum(0)
    generator = np.random.default_rng(resampling.seed)
    differences = []
    for size in _blocks(resampling.samples, number):
        kept = generator.integers(2, size=(size, number), dtype=bool).astype(np.float64)
        sums = kept @ first.lines + (1.0 - kept) @ second.lines
        differences += [abs(first.score(row) - first.score(total - row)) for row in sums]
    return np.array(differences)


def interval(scores: Array) -> Interval:
    """The limits between which 95 % of the scores lie."""
    ordered = np.sort(scores)
    outside = len(ordered) // 40
    return float(ordered[outside]), float(ordered[-1 - outside])


def exact_interval(items: int, percent: float) -> Interval:
    """The 95 % interval of a share of 0 % or 100 % of some items.

    A true share p gives 100 % in n of n cases with probability p^n; the limit is the p for which that is 2.5 %.
    """
    limit = 100.0 * 0.025 ** (1 / items)
    return (limit, 100.0) if percent else (0.0, 100.0 - limit)


def score_interval(name: str, statistics: LineStatistics, scores: Array) -> Interval:
    """The 95 % interval of the score of this name: by its bootstrap scores; exact for a share of 0 % or 100 %."""
    value = statistics.of_all()
    if _is_share(name) and value in (0.0, 100.0):
        return exact_interval(len(statistics.lines), value)
    return interval(scores)


def difference_interval(name: str, first: LineStatistics, second: LineStatistics, differences: Array) -> Interval:
    """The 95 % interval of the second score less the first: by bootstrap, or by the share of lines that differ.

    If none of n lines is right in one run alone, the lines for which that holds are at most as many as in
    `exact_interval`, in either direction; if all are, at least as many.
    """
    changes = np.unique(second.lines - first.lines, axis=0)
    if not _is_share(name) or len(changes) > 1:
        return interval(differences)
    low, high = exact_interval(len(first.lines), 100.0 if changes.any() else 0.0)
    if not changes.any():
        return -high, high
    return (low, high) if changes.sum() > 0 else (-high, -low)


def _is_share(name: str) -> bool:
    return name.split("@")[0] in SHARES


def p_value(first: LineStatistics, second: LineStatistics, resampling: Resampling) -> float:
    """The probability of a difference at least as large under the null hypothesis."""
    if resampling.test == "randomization":
        chance = randomized_differences(first, second, resampling)
    else:
        chance = np.abs(bootstrap_scores(second, resampling) - bootstrap_scores(first, resampling))
        chance = chance - chance.mean()
    difference = abs(second.of_all() - first.of_all())
    return float(1 + np.sum(chance >= difference - TOLERANCE)) / (1 + len(chance))


def _blocks(samples: int, lines: int) -> Iterator[int]:
    """Numbers of samples that are drawn together."""
    most = max(1, MAX_NUMBERS // lines)
    for start in range(0, samples, most):
        yield min(most, samples - start)
