"""The evidence of one side of a pair about the words of the other, by IBM models 1 that were not trained on the pair.

The pairs are divided into two halves at random; each is judged by a model t of the other. For a word w of one side and
the words e_i of the other, e_0 the empty one,

    r(w) = log( 0.9 · mean_i t(w | e_i) / u(w) + 0.1 )                  u(w): relative frequency of w in that half

is how much more likely the other side makes w: negative for a word that has no counterpart. A word that the half does
not contain says nothing: r(w) = 0. Its mean over the words of a side is the difference of the unconditional and the
conditional cross-entropy. Both directions count (Junczys-Dowmunt 2018, dual conditional cross-entropy): a side that is
cut off lacks counterparts for words of the other alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from weft.data.pairs import Pair
from weft.evaluation.ibm1 import EMPTY, fit_ibm1
from weft.text.words import words

ITERATIONS = 5
MAX_TRAINING_PAIRS = 50_000
"""Pairs that a model is fitted to, at most."""
MAX_WORDS = 100
"""Words of a side that are looked at."""
SMOOTHING = 0.1


class Evidence(NamedTuple):
    """r(w) of each word of a pair."""

    targets: list[float]
    sources: list[float]


class Judge:
    """The models of both directions of one half of the pairs."""

    def __init__(self, training: Sequence[Pair], on_progress: Callable[[], None] = lambda: None) -> None:
        """``on_progress``: called before each model."""
        on_progress()
        self._forward = _Direction(training)
        on_progress()
        self._backward = _Direction([_reversed(pair) for pair in training])

    def evidence(self, pair: Pair) -> Evidence:
        return Evidence(self._forward.ratios(pair), self._backward.ratios(_reversed(pair)))


def judged_halves(
    pairs: Sequence[Pair],
    trusted: Sequence[bool] | np.ndarray,
    *,
    seed: int = 1,
    on_progress: Callable[[], None] = lambda: None,
) -> Iterator[tuple[np.ndarray, Judge]]:
    """The rows of each half, with the judge that was fitted to the pairs of the other that are trusted."""
    half_N = np.array([Random(f"{seed} {number}").random() < 0.5 for number in range(len(pairs))], dtype=bool)
    trusted_N = np.asarray(trusted, dtype=bool)
    for half in (False, True):
        training = np.flatnonzero((half_N != half) & trusted_N)
        if len(training) > MAX_TRAINING_PAIRS:
            training = training[np.linspace(0, len(training) - 1, MAX_TRAINING_PAIRS).astype(int)]
        yield np.flatnonzero(half_N == half), Judge([pairs[row] for row in training.tolist()], on_progress)


def shortened(pair: Pair) -> Pair:
    """The first words of both sides, in lower case."""
    source, target = (" ".join(words(side.casefold())[:MAX_WORDS]) for side in pair[:2])
    return Pair(source, target)


def _reversed(pair: Pair) -> Pair:
    return Pair(pair.target, pair.source)


class _Direction:
    """A model of the targets of one half, given their sources."""

    def __init__(self, training: Sequence[Pair]) -> None:
        counts = Counter(word for pair in training for word in words(pair.target))
        total = sum(counts.values())
        self.frequencies = {word: count / total for word, count in counts.items()}
        self.probabilities = fit_ibm1(training, iterations=ITERATIONS).probabilities if total else {}

    def ratios(self, pair: Pair) -> list[float]:
        """r(w) of the words of the target."""
        sources = [EMPTY, *words(pair.source)]
        ratios: list[float] = []
        for word in words(pair.target):
            frequency = self.frequencies.get(word)
            if frequency is None:
                ratios.append(0.0)
                continue
            mean = sum(self.probabilities.get((source, word), 0.0) for source in sources) / len(sources)
            ratios.append(math.log((1 - SMOOTHING) * mean / frequency + SMOOTHING))
        return ratios
