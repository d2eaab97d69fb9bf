"""Scores by which hypotheses are ranked, the ranked hypotheses of a batch, and what proves that one is the best of all.

    power   log p(y|x) / |y|^α                 α = 0: log-probability alone; α = 1: mean log-probability of a token
    gnmt    log p(y|x) / ((5 + |y|) / 6)^α     Wu et al. 2016, eq. 14
    none    log p(y|x)

and, with a coverage penalty, + β Σ_j log min(Σ_t a_tj, 1): source tokens j with little attention count against a
hypothesis (the same paper). |y| counts the end token, as log p(y|x) does. Where a constraint lowers log p of a token,
as a repetition penalty does, the lowered one counts here; `Hypothesis.log_probability` stays the model's.

**Optimality gaps**: how much better than the outputs of a search any other output could be. The space of outputs is
that of the exact searches (`weft.search.exact`): all sequences of at most L tokens that end with the end token; under
constraints, those that they allow. Every output that a search has not found begins with a prefix that it has discarded.
log p only falls, so that none of them scores higher than the largest bound of a discarded prefix (`Ranking.bound`):

    gap_i = max(0, max_prefixes bound(prefix) − score_i)

for the i-th of the outputs that were found, best first. Where it is 0, no output but those before it scores as high:
those up to the i-th are proven to be the best i. The discarded prefixes are known to each search:

    beam     at each step the extensions after the k best, some of which it may keep where others end; at the end what
             is still in the beam
    greedy   all other tokens together have probability 1 − p(y_t), so none of them has more
    exact    after `search.max_nodes`, the prefixes that still wait to be expanded

The bound is tight where scores are log p and loose where they are divided by the length: a prefix might continue, with
certainty, to the limit. Rounding counts as a gap, and so do equal scores, except in exact search, which orders them.
Sampling, minimum Bayes risk, diverse groups and required phrases rank by something else and know no gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from weft.search.interface import FORBIDDEN, Hypothesis

MIN_COVERAGE = 1e-6
"""The least coverage that a source token counts with, so that no penalty is infinite."""
NO_ATTENTION = "search.coverage_penalty: this model has no attention, so nothing is known of coverage"


class Ranking(NamedTuple):
    """The score of finished hypotheses."""

    normalization: str = "power"
    """"power", "gnmt" or "none"."""
    alpha: float = 1.0
    beta: float = 0.0
    """Weight of the coverage penalty; 0: none."""

    def score(self, log_probability: float, length: int, coverage: float = 0.0) -> float:
        """``coverage``: Σ_j log min(Σ_t a_tj, 1), see `coverage_score`."""
        return log_probability / self.penalty(length) + self.beta * coverage

    def bound(self, log_probability: float, max_length: int) -> float:
        """The best score that any continuation can reach: log p only falls and the coverage penalty is never above 0,
        so it is that of a continuation with probability 1 to the most favorable length."""
        return log_probability / self.penalty(max_length)

    def penalty(self, length: int) -> float:
        """The divisor of log p; it grows with the length."""
        if self.normalization == "power":
            return float(max(length, 1) ** self.alpha)
        return ((5.0 + length) / 6.0) ** self.alpha if self.normalization == "gnmt" else 1.0

    def penalties(self, lengths: Tensor) -> Tensor:
        """`penalty` of several lengths."""
        if self.normalization == "power":
            return lengths.float().clamp(min=1.0) ** self.alpha
        if self.normalization == "gnmt":
            return ((5.0 + lengths.float()) / 6.0) ** self.alpha
        return torch.ones_like(lengths, dtype=torch.float32)


DEFAULT_RANKING = Ranking()


def coverage_score(coverage_XS: Tensor, source_lengths_B: Tensor | None = None) -> Tensor:
    """Σ_j log min(Σ_t a_tj, 1) of a coverage: attention weights summed over t.

    ``source_lengths_B``: for coverages (B, K, S), the number of source tokens j; the rest is padding. None: no padding.
    """
    logs_XS = coverage_XS.clamp(min=MIN_COVERAGE, max=1.0).log()
    if source_lengths_B is not None:
        is_padding_BS = torch.arange(logs_XS.shape[-1], device=logs_XS.device) >= source_lengths_B[:, None]
        logs_XS = logs_XS.masked_fill(is_padding_BS[:, None], 0.0)
    return logs_XS.sum(-1)


TOLERANCE = 1e-5
"""Relative rounding error of a score that was found in another batch."""
PROBABILITY_ERROR = 1e-6
"""Rounding error of a probability."""


def gap(bound: float, score: float) -> float:
    """The optimality gap of a score; ``bound``: an upper bound on the scores of all other outputs."""
    if bound == FORBIDDEN:
        return 0.0
    return max(bound - score + rounding_error(bound), 0.0)


def gaps(bounds: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """`gap` of several."""
    with np.errstate(invalid="ignore"):  # −∞ − −∞, which is replaced
        differences = bounds - scores + TOLERANCE * (1.0 + np.abs(bounds))
    return np.where(bounds == FORBIDDEN, 0.0, np.maximum(differences, 0.0))


def rounding_error(score: float) -> float:
    """The most by which a score may differ in another batch."""
    return TOLERANCE * (1.0 + abs(score))


def greedy_bound(log_probs: Sequence[float], ranking: Ranking, max_length: int) -> float:
    """An upper bound on the scores of all outputs but the one whose tokens have these log-probabilities."""
    log_probs_T = np.array(log_probs, dtype=np.float64)
    others_T = np.log(np.maximum(1.0 - np.exp(log_probs_T), 0.0) + PROBABILITY_ERROR)
    before_T = np.cumsum(log_probs_T) - log_probs_T
    return ranking.bound(float((before_T + others_T).max(initial=FORBIDDEN)), max_length)


def greedy_bounds(
    log_probs_TR: np.ndarray, lengths_R: np.ndarray, ranking: Ranking, max_lengths: Sequence[int]
) -> np.ndarray:
    """`greedy_bound` of several outputs, each with its number of tokens."""
    others_TR = np.log(np.maximum(1.0 - np.exp(log_probs_TR), 0.0) + PROBABILITY_ERROR)
    before_TR = np.cumsum(log_probs_TR, 0) - log_probs_TR
    inside_TR = np.arange(len(log_probs_TR))[:, None] < lengths_R
    best_R = np.where(inside_TR, before_TR + others_TR, FORBIDDEN).max(0, initial=FORBIDDEN)
    return best_R / penalties(ranking, max_lengths)


def penalties(ranking: Ranking, lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """`Ranking.penalty` of several lengths, of which few are different."""
    different, indices = np.unique(np.asarray(lengths, dtype=np.int64), return_inverse=True)
    return np.array([ranking.penalty(length) for length in different.tolist()])[indices]


def beam_bounds(
    following_TB: np.ndarray,
    unfinished_B: np.ndarray,
    stops_B: np.ndarray,
    max_lengths: Sequence[int],
    ranking: Ranking,
) -> np.ndarray:
    """(B,) Of the scores of all outputs that a beam has not set aside.

    log p of the first extension after the k best, by step (``following_TB``), and of the best in the beam at the end.
    ``stops_B``: the last step of each sentence.
    """
    limits_B = np.maximum(np.array(max_lengths), 1)
    penalties_B = penalties(ranking, limits_B)
    steps_T1 = np.arange(len(following_TB))[:, None]
    discarded_B = np.where(steps_T1 <= stops_B, following_TB, FORBIDDEN).max(0)
    unfinished_B = np.where(stops_B + 1 < limits_B, unfinished_B, FORBIDDEN)
    return np.maximum(discarded_B, unfinished_B) / penalties_B


ENDED = ("end", "length", "constraints")
"""The values of `Hypothesis.ended` by their number in `HypothesisArrays.ended_BN`."""
BY_END, BY_LENGTH, BY_CONSTRAINTS = range(3)


class PendingHypotheses(Sequence[list[Hypothesis]]):
    """The hypotheses of a batch, computed when they are first read."""

    def __init__(self, sentences: int, compute: Callable[[], HypothesisArrays]) -> None:
        self._sentences = sentences
        self._compute: Callable[[], HypothesisArrays] | None = compute
        self._arrays: HypothesisArrays | None = None

    @property
    def arrays(self) -> HypothesisArrays:
        if self._arrays is None:
            assert self._compute is not None
            self._arrays, self._compute = self._compute(), None
        return self._arrays

    def __len__(self) -> int:
        return self._sentences

    @overload
    def __getitem__(self, row: int) -> list[Hypothesis]: ...

    @overload
    def __getitem__(self, row: slice) -> list[list[Hypothesis]]: ...

    def __getitem__(self, row: int | slice) -> list[Hypothesis] | list[list[Hypothesis]]:
        return self.arrays[row]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class HypothesisArrays(Sequence[list[Hypothesis]]):
    """The hypotheses of a batch as arrays: for each of B sentences N of them, best first; at least one.

    `Hypothesis` objects are made only of the sentences that are accessed.
    """

    counts_B: np.ndarray
    """The number of hypotheses of each sentence, at most N."""
    tokens_BNT: np.ndarray
    lengths_BN: np.ndarray
    """Number of token scores: its tokens and, if it ended by itself, the end token."""
    ended_BN: np.ndarray
    """The index in `ENDED`."""
    scores_BN: np.ndarray
    log_probabilities_BN: np.ndarray
    token_scores_BNT: np.ndarray
    gaps: np.ndarray | Callable[[], np.ndarray]
    """`gaps_BN`, or what computes them when they are first read."""

    def __len__(self) -> int:
        return len(self.counts_B)

    @overload
    def __getitem__(self, row: int) -> list[Hypothesis]: ...

    @overload
    def __getitem__(self, row: slice) -> list[list[Hypothesis]]: ...

    def __getitem__(self, row: int | slice) -> list[Hypothesis] | list[list[Hypothesis]]:
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(f"sentence {row} of {len(self)}")
        return [self.hypothesis(row, rank) for rank in range(int(self.counts_B[row]))]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def gaps_BN(self) -> np.ndarray:
        """`Hypothesis.gap`; NaN where there is none."""
        return self.gaps() if callable(self.gaps) else self.gaps

    def part(self, sentences: slice) -> HypothesisArrays:
        """The hypotheses of some sentences."""
        names = [each.name for each in fields(self) if each.name != "gaps"]
        parts = {name: getattr(self, name)[sentences] for name in names}
        return HypothesisArrays(**parts, gaps=lambda: self.gaps_BN[sentences])

    def replaced(self, rows: Sequence[int], others: HypothesisArrays) -> HypothesisArrays:
        """The hypotheses with those of some sentences replaced by others, equally many."""
        values: dict[str, np.ndarray] = {}
        for each in fields(self):
            name = "gaps_BN" if each.name == "gaps" else each.name
            own, new = getattr(self, name), getattr(others, name)
            if own.ndim == 3:
                width = max(own.shape[2], new.shape[2])
                own, new = (np.pad(part, ((0, 0), (0, 0), (0, width - part.shape[2]))) for part in (own, new))
            values[each.name] = own.copy()
            values[each.name][list(rows)] = new
        return HypothesisArrays(**values)

    @property
    def token_counts_BN(self) -> np.ndarray:
        """The number of tokens of each hypothesis, the end token not counted."""
        return self.lengths_BN - (self.ended_BN == BY_END)

    def tokens(self, row: int, rank: int = 0) -> list[int]:
        ended = int(self.ended_BN[row, rank]) == BY_END
        tokens: list[int] = self.tokens_BNT[row, rank, : int(self.lengths_BN[row, rank]) - ended].tolist()
        return tokens

    def best_tokens(self) -> list[list[int]]:
        """The tokens of the best hypothesis of every sentence."""
        rows = self.tokens_BNT[:, 0].tolist()
        return [row[:count] for row, count in zip(rows, self.token_counts_BN[:, 0].tolist(), strict=True)]

    def distinct(self, row: int, n_best: int) -> list[int]:
        """The ranks of the best of one sentence, no two of them with the same tokens."""
        chosen: dict[tuple[int, ...], int] = {}
        for rank in range(int(self.counts_B[row])):
            chosen.setdefault(tuple(self.tokens(row, rank)), rank)
            if len(chosen) == n_best:
                break
        return list(chosen.values())

    def token_scores(self, row: int, rank: int = 0) -> list[float]:
        scores: list[float] = self.token_scores_BNT[row, rank, : int(self.lengths_BN[row, rank])].tolist()
        return scores

    def hypothesis(self, row: int, rank: int) -> Hypothesis:
        gap = float(self.gaps_BN[row, rank])
        return Hypothesis(
            tokens=self.tokens(row, rank),
            score=float(self.scores_BN[row, rank]),
            log_probability=float(self.log_probabilities_BN[row, rank]),
            token_scores=self.token_scores(row, rank),
            ended=ENDED[int(self.ended_BN[row, rank])],
            gap=None if np.isnan(gap) else gap,
        )
