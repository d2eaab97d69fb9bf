"""The two ends of a search: the model it steps and the batch it is given; the hypotheses it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
import torch
from torch import Tensor

from weft.runtime.replaceable import replaceable
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
    required: Sequence[Sequence[Sequence[int]]] = ()
    """Phrases that each output contains."""
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


@replaceable
def steps_for(model: StepModel, request: SearchRequest, *, rows: int, return_attention: bool) -> StepModel:
    """The model that a search of a request steps, with ``rows`` hypotheses of each sentence: the model itself.

    Each state is stepped once, and the steps are taken in order: a faster version may rely on that.
    """
    return model


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search."""

    tokens: list[int]
    """Its ids, without the begin and end tokens."""
    score: float
    """The score that hypotheses are ranked by, in every search; see `Ranking`."""
    log_probability: float
    """log p(y|x), the sum of the token scores."""
    token_scores: list[float]
    """log p(y_t | y_<t, x) for every token and, where it ended by itself, for the end token."""
    ended: str
    """Why it ended: "end" (the end token), "length" (the limit was reached), "constraints" (no token may follow) or
    "nodes" (an exact search gave up)."""
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
