"""What hypotheses are ranked by.

    power   log p(y|x) / |y|^α                 α = 0: probability alone; α = 1: the mean log-probability of a token
    gnmt    log p(y|x) / ((5 + |y|) / 6)^α     Wu et al. 2016, eq. 14
    none    log p(y|x)

and, with a coverage penalty, + β Σ_j log min(Σ_t a_tj, 1): source tokens j that were hardly looked at count against a
hypothesis (the same paper). |y| counts the end mark, as log p(y|x) does.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

LEAST = 1e-6
"""A source token that was looked at less than this counts as this much, so that no penalty is infinite."""


class Ranking(NamedTuple):
    """How a finished hypothesis is scored."""

    normalization: Literal["power", "gnmt", "none"] = "power"
    alpha: float = 1.0
    beta: float = 0.0
    """Of the coverage penalty; 0: none."""

    def score(self, log_probability: float, length: int, coverage: float = 0.0) -> float:
        """``coverage``: Σ_j log min(Σ_t a_tj, 1), as `coverage` gives it."""
        return log_probability / self.penalty(length) + self.beta * coverage

    def bound(self, log_probability: float, limit: int) -> float:
        """The best score that anything going on from here can reach: log p only falls, and the coverage penalty is
        never above 0, so it is what would be reached by saying the rest with certainty at the kindest length."""
        return log_probability / self.penalty(limit)

    def penalty(self, length: int) -> float:
        """What log p is divided by; it grows with the length."""
        if self.normalization == "power":
            return float(max(length, 1) ** self.alpha)
        return ((5.0 + length) / 6.0) ** self.alpha if self.normalization == "gnmt" else 1.0

    def penalties(self, lengths: Tensor) -> Tensor:
        """`penalty` of many lengths."""
        if self.normalization == "power":
            return lengths.float().clamp(min=1.0) ** self.alpha
        if self.normalization == "gnmt":
            return ((5.0 + lengths.float()) / 6.0) ** self.alpha
        return torch.ones_like(lengths, dtype=torch.float32)


def coverage(looked_XS: Tensor) -> Tensor:
    """Σ_j log min(Σ_t a_tj, 1) of weights that were summed over t. What no weight ever fell on is padding."""
    return looked_XS.clamp(min=LEAST, max=1.0).log().masked_fill(looked_XS == 0.0, 0.0).sum(-1)
