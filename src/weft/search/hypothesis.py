"""What a search is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from weft.search.trace import Trace
from weft.tree import Tree


class Steps(Protocol):
    """The one thing a search needs: a model, an ensemble, a table in a test."""

    def start(self, memory: Any) -> Tree: ...

    def step(self, tokens_R: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any, Tensor | None]:
        """Logits, the new state, attention weights. The logits are the search's own: it may overwrite them."""


@dataclass(frozen=True)
class Hypothesis:
    """One answer of a search."""

    tokens: list[int]
    """The ids said, without the begin and end marks."""
    score: float
    """What hypotheses are ranked by; see `Ranking`."""
    log_probability: float
    """log p(y|x), the sum of the token scores."""
    token_scores: list[float]
    """log p(y_t | y_<t, x) for every token and, where it ended by itself, for the end mark."""
    ended: str
    """Why it ended: "end" (the model said so), "length" (the limit was reached) or "rules" (nothing may follow)."""
    weights_TS: Tensor | None = None
    """Attention weights, a row for every token score; None where not asked for or there is no attention."""
    proven: bool = False
    """Whether there is certainly no better one: said by the exact searches."""
    trace: Trace | None = None
    """What the search did, on the best hypothesis alone and where it was asked for."""
