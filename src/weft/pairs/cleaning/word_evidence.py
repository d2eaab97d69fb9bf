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
from collections.abc import Callable, Sequence
from random import Random

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

Evidence = list[list[float]]
"""r(w) of each word of a side, for every pair."""


def word_evidence(
    pairs: Sequence[Pair], *, seed: int = 1, on_progress: Callable[[str], None] = lambda _: None
) -> tuple[Evidence, Evidence]:
    """r(w) of the target words of each pair, and of its source words. ``on_progress``: called before each model."""
    shortened = [Pair(_shortened(pair.source), _shortened(pair.target)) for pair in pairs]
    reversed_pairs = [Pair(pair.target, pair.source) for pair in shortened]
    half_N = np.array([Random(f"{seed} {number}").random() < 0.5 for number in range(len(pairs))])
    directions = []
    for name, directed in (("source to target", shortened), ("target to source", reversed_pairs)):
        evidence: Evidence = [[] for _ in pairs]
        for half in (False, True):
            on_progress(f"{name}, half {1 + half} of 2")
            training = np.flatnonzero(half_N != half)
            if len(training) > MAX_TRAINING_PAIRS:
                training = training[np.linspace(0, len(training) - 1, MAX_TRAINING_PAIRS).astype(int)]
            judge = _Judge([directed[row] for row in training])
            for row in np.flatnonzero(half_N == half):
                evidence[row] = judge.evidence(directed[row])
        directions.append(evidence)
    return directions[0], directions[1]


def _shortened(text: str) -> str:
    return " ".join(words(text.casefold())[:MAX_WORDS])


class _Judge:
    """A model of one half."""

    def __init__(self, training: Sequence[Pair]) -> None:
        counts = Counter(word for pair in training for word in words(pair.target))
        total = sum(counts.values())
        self.frequencies = {word: count / total for word, count in counts.items()}
        self.probabilities = fit_ibm1(training, iterations=ITERATIONS).probabilities if total else {}

    def evidence(self, pair: Pair) -> list[float]:
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
