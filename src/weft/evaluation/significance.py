"""Is a difference between two runs more than chance? Resampling of the lines of a test set.

**Intervals** by bootstrap (Efron 1979; Koehn 2004): draw as many lines as there are, with replacement, and compute the
score again. 95 % of the scores lie in the interval. Two runs are drawn the same lines, which also gives an interval for
their difference.

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

TESTS = ("randomization", "bootstrap")
MIN_SAMPLES = 100
MAX_NUMBERS = 1 << 22
"""Random numbers in memory at a time."""
TOLERANCE = 1e-9
"""Scores that differ by less are equal: sums of floating-point numbers depend on their order."""


class Resampling(NamedTuple):
    """How often lines are drawn, from which seed, and by which test p-values are computed."""

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


def interval(scores: Array) -> tuple[float, float]:
    """The limits between which 95 % of the scores lie."""
    ordered = np.sort(scores)
    outside = len(ordered) // 40
    return float(ordered[outside]), float(ordered[-1 - outside])


def p_value(first: LineStatistics, second: LineStatistics, resampling: Resampling) -> float:
    """How likely a difference at least as large is by chance."""
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
