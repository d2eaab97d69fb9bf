"""The two ends of a search: the model it steps and the batch it is given; the hypotheses it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from weft.tree import Tree

if TYPE_CHECKING:
    from weft.search.constraints import LogitsConstraint
    from weft.search.loop import StepLoop
    from weft.search.trace import Trace

FORBIDDEN = float("-inf")
"""The score of a token that may not follow, and of an empty slot of a beam."""
NO_TOKEN = -1
"""Fills a history before its first token, and a forced prefix after its last."""

TRACED_CANDIDATES = 12
"""Candidates of a step of greedy search or sampling that a trace contains, unless more are requested."""


class StepModel(Protocol):
    """The model interface that a search needs. An ensemble is one, and so is a table in a test."""

    def start(self, memory: Any) -> Tree:
        """The state before the first token; a row for every row of the memory."""

    def step(self, tokens_R: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any, Tensor | None]:
        """Logits of the next token, the new state, attention weights over the source. The logits may be overwritten.

        Rows are hypotheses; those of one sentence stand side by side, equally many for each row of the memory.
        """


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """One batch to search, and what to return. Sequences have an item for every sentence; an empty one: no limits."""

    memory: Any
    """The encoder output of the batch."""
    max_lengths: Sequence[int]
    """The most tokens of each output, the end token counted."""
    begin: int
    end: int
    """The ids of the special tokens."""
    source_lengths: Sequence[int] = ()
    """The number of tokens of each source: further attention weights are padding, which a coverage penalty leaves out;
    empty: there is no padding."""
    min_lengths: Sequence[int] = ()
    """The fewest tokens of each output, the end token not counted."""
    prefixes: Sequence[Sequence[int]] = ()
    """Forced first tokens of each output."""
    required: Sequence[Sequence[Sequence[Sequence[int]]]] = ()
    """Terms that each output contains: each is a list of phrases, its variants, one of which has to occur."""
    banned: Sequence[Sequence[int]] = ()
    """Phrases that no output contains."""
    constraints: tuple[LogitsConstraint, ...] = ()
    rng_keys: Sequence[int] = ()
    """A number for each sentence, by which its random draws differ from others; empty: its position in the batch."""
    seed: int = 1
    decode: Callable[[int, list[int]], str] = lambda sentence, ids: str(ids)
    """The text of ids, for the sentence of this number: what minimum Bayes risk compares."""
    n_best: int = 1
    """Hypotheses to return for each sentence."""
    return_attention: bool = False
    return_trace: bool = False
    traced_candidates: int = TRACED_CANDIDATES
    """Candidates of a step of greedy search or sampling that a trace contains."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    loop: StepLoop | None = None
    """Takes the steps; None: a plain loop."""

    def source_length(self, sentence: int) -> int | None:
        """The number of its source tokens; None: it has no padding."""
        return self.source_lengths[sentence] if self.source_lengths else None


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search."""

    tokens: list[int]
    """Token ids, without the begin and end tokens."""
    score: float
    """The score that hypotheses are ranked by, in every search; see `Ranking`."""
    log_probability: float
    """log p(y|x), the sum of the token scores."""
    token_scores: list[float]
    """log p(y_t | y_<t, x) for every token and, where it ended by itself, for the end token."""
    ended: str
    """The reason why it ended: "end" (the end token), "length" (the limit was reached), "constraints" (no token may
    follow) or "nodes" (an exact search gave up)."""
    attention_TS: Tensor | None = None
    """Attention weights, a row for every token score; None where not requested or the model has none."""
    gap: float | None = None
    """Optimality gap: an upper bound on (the best score of an output that is not returned before this one − this
    score). 0: proven optimal; None: the search knows no bound, or the hypothesis did not end by itself. See
    `weft.search.ranking`."""
    trace: Trace | None = None
    """The steps of the search, on request and on the best hypothesis only."""

    @property
    def proven(self) -> bool:
        """Whether it is proven that no output but those returned before this one has a higher score."""
        return self.gap == 0.0
