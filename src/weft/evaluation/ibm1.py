"""IBM Model 1, a word alignment without a neural network (Brown et al. 1993, section 4.1).

It explains each target word f_j by one source word e_i, in any order:

    p(f | e) ∝ Π_j Σ_i t(f_j | e_i)                                     e_0 is the empty word, which explains the rest
    c(f | e) = Σ over all j with f_j = f, i with e_i = e:  t(f_j | e_i) / Σ_k t(f_j | e_k)                      E-step
    t(f | e) = c(f | e) / Σ_f' c(f' | e)                                                                        M-step

The likelihood has a single maximum, so that training starts from t uniform. A target word is linked to the source word
with the largest t, or to none if that is the empty word: one link at most, as attention gives. Simpler still is the
diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.data.pairs import Pair
from weft.text.words import words

EMPTY = ""
"""e_0, before the first source word."""
ITERATIONS = 10
Links = list[tuple[int, int]]


class IBM1(NamedTuple):
    """A fitted model."""

    probabilities: dict[tuple[str, str], float]
    """t(f | e) by (e, f); pairs of words that never occurred together are not in it."""

    def links(self, pair: Pair) -> Links:
        """The most probable source word of each target word; ties go to the first."""
        sources = [EMPTY, *words(pair.source)]
        links: Links = []
        for target, word in enumerate(words(pair.target)):
            scores = [self.probabilities.get((source, word), 0.0) for source in sources]
            best = max(range(len(sources)), key=scores.__getitem__)
            if best and scores[best] > 0:
                links.append((best - 1, target))
        return links


class _Cells(NamedTuple):
    """Every source word with every target word of its pair, one after the other."""

    source_N: np.ndarray
    target_N: np.ndarray
    position_N: np.ndarray
    """The number of the target word in the corpus."""


def fit_ibm1(pairs: Sequence[Pair], *, iterations: int = ITERATIONS) -> IBM1:
    """Fit t by expectation maximization."""
    source_ids: dict[str, int] = {}
    target_ids: dict[str, int] = {}
    cells = _cells(pairs, source_ids, target_ids)
    keys, entry_N = np.unique(cells.source_N * len(target_ids) + cells.target_N, return_inverse=True)
    source_E = keys // len(target_ids)
    t_E = np.ones(len(keys))
    for _ in range(iterations):
        share_N = t_E[entry_N]
        share_N = share_N / np.bincount(cells.position_N, share_N)[cells.position_N]
        counts_E = np.bincount(entry_N, share_N)
        t_E = counts_E / np.bincount(source_E, counts_E)[source_E]
    sources, targets = list(source_ids), list(target_ids)
    entries = zip(source_E.tolist(), (keys % len(target_ids)).tolist(), t_E.tolist(), strict=True)
    return IBM1({(sources[source], targets[target]): value for source, target, value in entries})


def _cells(pairs: Sequence[Pair], source_ids: dict[str, int], target_ids: dict[str, int]) -> _Cells:
    """All cells; new words are given the next ids."""
    sources: list[int] = []
    targets: list[int] = []
    positions: list[int] = []
    position = 0
    for pair in pairs:
        row = [source_ids.setdefault(word, len(source_ids)) for word in (EMPTY, *words(pair.source))]
        for word in words(pair.target):
            sources += row
            targets += [target_ids.setdefault(word, len(target_ids))] * len(row)
            positions += [position] * len(row)
            position += 1
    return _Cells(np.array(sources), np.array(targets), np.array(positions))


def diagonal_links(pair: Pair) -> Links:
    """Each target word linked to the source word at the same place of its sentence."""
    sources, targets = len(words(pair.source)), len(words(pair.target))
    return [((2 * target + 1) * sources // (2 * targets), target) for target in range(targets)]
