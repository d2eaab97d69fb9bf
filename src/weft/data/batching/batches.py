"""Compression pairs into batches of a token budget. What is in a batch is a pure function of seed and position.

Pairs come in a shuffled order (mixture.py) and are taken by pools of some fifty batches; a pool is sorted by length,
so that the rows of a batch end at about the same time and a recurrence wastes no steps, and cut into batches, which
are shuffled. Only one pool is looked at at a time: it takes no longer to begin, or to go on from any batch, in a corpus
of a hundred million pairs than in one of a thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from weft.data.batching.mixture import Mixture, Part
from weft.data.store.token_store import Batch, CorpusSize, PairStore, split_by_budget

POOL = 50
"""Batches a pool."""


class Position(NamedTuple):
    """Where a run stands in its data: the next batch to be read."""

    stage: int = 0
    epoch: int = 0
    pool: int = 0
    batch: int = 0


@dataclass(frozen=True)
class LazyBatch:
    """A batch that can be made, and its size: of batches that others make, that is all one needs to know."""

    source_tokens: int
    target_tokens: int
    make: Callable[[], Batch]


class BatchStream(Protocol):
    """Batches without end, a few for each step."""

    position: Position
    """After the last batch that was taken."""

    def take(self, step: int, count: int) -> list[LazyBatch]:
        """The batches of a step. Steps are asked for in their order."""
        ...


class BatchSource(Protocol):
    """A corpus to train on."""

    @property
    def corpus_size(self) -> CorpusSize: ...

    def batches(self, budget: int, *, seed: int, start: Position = Position()) -> BatchStream:
        """Its batches from a position on."""
        ...


@dataclass(frozen=True)
class StoredCorpus:
    """A token store to train on: all of it alike, or its parts mixed."""

    pairs: PairStore
    parts: tuple[Part, ...] = ()
    temperature: float = 1.0

    @property
    def corpus_size(self) -> CorpusSize:
        return self.pairs.corpus_size

    def batches(self, budget: int, *, seed: int, start: Position = Position()) -> StoredBatchStream:
        parts = self.parts or (Part(0, len(self.pairs)),)
        return StoredBatchStream(
            self.pairs, budget, mixture=Mixture(parts, temperature=self.temperature, seed=seed), start=start
        )


class StoredBatchStream:
    """Batches of a token store."""

    def __init__(self, pairs: PairStore, budget: int, *, mixture: Mixture, start: Position = Position()) -> None:
        self.pairs = pairs
        self.budget = budget
        self.mixture = mixture
        self.position = start
        self.size = pool_size(pairs.corpus_size, budget)
        self._planned: tuple[Position, list[np.ndarray]] | None = None

    def take(self, step: int, count: int) -> list[LazyBatch]:
        stage = self.mixture.stage_of(step)
        if stage != self.position.stage:
            self.position = Position(stage)
        return [self._next() for _ in range(count)]

    def _next(self) -> LazyBatch:
        while self.position.batch >= len(batches := self._pool(self.position._replace(batch=0))):
            self._go_on(0)  # a pool of a pair or two may be nothing by rounding, or the corpus is shorter than it was
        rows = batches[self.position.batch]
        self._go_on(len(batches))
        sides = (self.pairs.source, self.pairs.target)
        source_tokens, target_tokens = (int(side.lengths_of(rows).sum()) for side in sides)
        return LazyBatch(source_tokens, target_tokens, lambda: self.pairs.batch(rows))

    def _go_on(self, batches: int) -> None:
        """Step over a batch of a pool that has so many."""
        stage, epoch, pool, batch = self.position
        if batch + 1 < batches:
            self.position = Position(stage, epoch, pool, batch + 1)
        elif (pool + 1) * self.size < self.mixture.pairs(stage):
            self.position = Position(stage, epoch, pool + 1)
        else:
            self.position = Position(stage, epoch + 1)

    def _pool(self, at: Position) -> list[np.ndarray]:
        """The rows of every batch of a pool."""
        if self._planned is None or self._planned[0] != at:
            first = at.pool * self.size
            last = min(first + self.size, self.mixture.pairs(at.stage))
            rows = self.mixture.rows(at.stage, at.epoch, first, last)
            self._planned = (
                at,
                packed(rows, self.pairs, self.budget, key=(self.mixture.seed, *at), corpus_size=self.pairs.corpus_size),
            )
        return self._planned[1]


def pool_size(corpus_size: CorpusSize, budget: int) -> int:
    """Pairs a pool."""
    return max(int(POOL * budget / corpus_size.mean), 1)


def packed(
    rows: np.ndarray, pairs: PairStore, budget: int, *, key: tuple[int, ...], corpus_size: CorpusSize
) -> list[np.ndarray]:
    """The rows of a pool as batches: each once, at most ``budget`` tokens a side in a batch, in random order.

    A pair that is longer than the budget makes a batch of its own.
    """
    random = np.random.default_rng(list(key))
    rows = random.permutation(rows)
    order = np.lexsort((pairs.source.lengths_of(rows), pairs.target.lengths_of(rows)))
    batches = split_by_budget(rows[order], pairs, side_budgets(corpus_size, budget))
    return [batches[place] for place in random.permutation(len(batches))]


def side_budgets(corpus_size: CorpusSize, budget: int) -> tuple[int, int]:
    """The tokens a batch may have on each side: the whole budget on the side that has more of them in the corpus, and
    its share, with a little room, on the other."""
    most = max(corpus_size.source_tokens, corpus_size.target_tokens, 1)
    source, target = (
        min(-(-budget * tokens * 21 // (most * 20)), budget)
        for tokens in (corpus_size.source_tokens, corpus_size.target_tokens)
    )
    return source, target
