"""Loops: a phrase repeated over and over, as degenerate models produce it (Holtzman et al. 2020), defined here only.

A run of period n is a stretch of tokens in which y_t = y_{t−n} from its (n+1)-th token on; it is a loop if n is at most
``longest`` and the run has at least

    L_n = max(copies · n, tokens)

tokens. So a phrase of n tokens may occur any number of times below ``copies`` in a row, and a short one more often,
until the run has ``tokens`` tokens: "very very very very", "10000000" and a stutter of letters are not loops.

tests/search/test_repetition.py compares the constraint (`weft.search.constraints.NoLoops`), its kernel
(`weft.fast.triton.top_k`) and `has_loop` with it. The metric (`weft.evaluation.repetition.find_loop`) counts whole
copies of a phrase in the same `runs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np


class LoopLimits(NamedTuple):
    """The limits above which a run is a loop."""

    longest: int = 16
    """The longest phrase, in tokens."""
    copies: int = 3
    tokens: int = 10

    def length(self, period: int) -> int:
        """L_n: the fewest tokens of a loop."""
        return max(self.copies * period, self.tokens)


def runs(tokens: Sequence[Any], period: int) -> Iterator[tuple[int, int]]:
    """The maximal runs of a period as (start, stop); runs of ``period`` tokens repeat nothing."""
    start = 0
    for position in range(period, len(tokens) + 1):
        if position == len(tokens) or tokens[position] != tokens[position - period]:
            yield start, position
            start = position - period + 1


def has_loop(tokens_N: np.ndarray, lengths_R: np.ndarray, limits: LoopLimits = LoopLimits()) -> np.ndarray:
    """Whether each sequence contains a loop. ``tokens_N``: sequences of ``lengths_R`` tokens, end to end."""
    rows_N = np.repeat(np.arange(len(lengths_R)), lengths_R)
    loops_R = np.zeros(len(lengths_R), dtype=bool)
    for period in range(1, min(limits.longest, len(tokens_N) - 1) + 1):
        same = (tokens_N[period:] == tokens_N[:-period]) & (rows_N[period:] == rows_N[:-period])
        ends = period + np.flatnonzero(same)
        needed = limits.length(period) - period  # consecutive matches
        if len(ends) >= needed:
            consecutive = ends[needed - 1 :] - ends[: len(ends) - needed + 1] == needed - 1
            loops_R[rows_N[ends[needed - 1 :][consecutive]]] = True
    return loops_R
