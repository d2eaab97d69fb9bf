"""Scores by which hypotheses are ranked.

    power   log p(y|x) / |y|^α                 α = 0: log-probability alone; α = 1: mean log-probability of a token
    gnmt    log p(y|x) / ((5 + |y|) / 6)^α     Wu et al. 2016, eq. 14
    none    log p(y|x)

and, with a coverage penalty, + β Σ_j log min(Σ_t a_tj, 1): source tokens j with little attention count against a
hypothesis (the same paper). |y| counts the end token, as log p(y|x) does. Where a constraint lowers log p of a token,
as a repetition penalty does, the lowered one counts here; `Hypothesis.log_probability` stays the model's.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

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
