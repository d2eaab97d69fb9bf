"""Packing pairs into batches of a token budget. The content of a batch is a pure function of seed and position.

Pairs come in a shuffled order (`weft.data.batching.mixture`) and are taken by pools of some fifty batches. A pool is
sorted by length, so that the rows of a batch end at about the same time and a recurrence wastes no steps, and split
into batches, which are shuffled. Only one pool is computed at a time: starting, or resuming at any batch, takes no
longer in a corpus of a hundred million pairs than in one of a thousand. A background thread makes the
batches of a step while a GPU computes the step before (`prefetch`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from weft.data.batching.mixture import Mixture, Part
from weft.data.store.token_store import Batch, CorpusSize, PairStore, split_by_budget

POOL_BATCHES = 50
"""Batches per pool, about."""


class Position(NamedTuple):
    """The position of a run in its data: the next batch to be read."""

    stage: int = 0
    epoch: int = 0
    pool: int = 0
    batch: int = 0


@dataclass(frozen=True)
class LazyBatch:
    """The size of a batch, and how to make it: other workers' batches are counted but never made."""

    source_tokens: int
    target_tokens: int
    make: Callable[[], Batch]


class BatchStream(Protocol):
    """An endless stream of batches, some for each step."""

    position: Position
    """After the last batch taken."""

    def take(self, step: int, count: int) -> list[LazyBatch]:
        """The batches of a step. Steps are taken in order."""
        ...


class BatchSource(Protocol):
    """A corpus to train on."""

    @property
    def corpus_size(self) -> CorpusSize: ...

    def batches(self, budget: int, *, seed: int, start: Position = Position()) -> BatchStream:
        """The stream of its batches, from a position on."""
        ...


@dataclass(frozen=True)
class StoredCorpus:
    """A token store to train on, as a whole or as a mixture of its parts."""

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
        self.budgets = side_budgets(pairs.corpus_size, budget)
        self.mixture = mixture
        self.position = start
        self.pool_pairs = pool_size(pairs.corpus_size, budget)
        self._cached_pool: tuple[Position, list[np.ndarray]] | None = None

    def take(self, step: int, count: int) -> list[LazyBatch]:
        stage = self.mixture.stage_of(step)
        if stage != self.position.stage:
            self.position = Position(stage)
        return [self._next() for _ in range(count)]

    def _next(self) -> LazyBatch:
        while self.position.batch >= len(batches := self._pool(self.position._replace(batch=0))):
            self._advance(0)  # a pool of a pair or two may be empty by rounding, or the corpus became shorter
        rows = batches[self.position.batch]
        self._advance(len(batches))
        sides = (self.pairs.source, self.pairs.target)
        source_tokens, target_tokens = (int(side.lengths_of(rows).sum()) for side in sides)
        return LazyBatch(source_tokens, target_tokens, lambda: self.pairs.batch(rows))

    def _advance(self, pool_batches: int) -> None:
        """Move to the next batch; the current pool has that many."""
        stage, epoch, pool, batch = self.position
        if batch + 1 < pool_batches:
            self.position = Position(stage, epoch, pool, batch + 1)
        elif (pool + 1) * self.pool_pairs < self.mixture.pairs(stage):
            self.position = Position(stage, epoch, pool + 1)
        else:
            self.position = Position(stage, epoch + 1)

    def _pool(self, position: Position) -> list[np.ndarray]:
        """The rows of every batch of a pool."""
        if self._cached_pool is None or self._cached_pool[0] != position:
            first = position.pool * self.pool_pairs
            last = min(first + self.pool_pairs, self.mixture.pairs(position.stage))
            rows = self.mixture.rows(position.stage, position.epoch, first, last)
            batches = pack_batches(rows, self.pairs, self.budgets, key=(self.mixture.seed, *position))
            self._cached_pool = (position, batches)
        return self._cached_pool[1]


def pool_size(corpus_size: CorpusSize, budget: int) -> int:
    """Pairs per pool."""
    return max(int(POOL_BATCHES * budget / corpus_size.mean_length), 1)


def pack_batches(
    rows: np.ndarray, pairs: PairStore, budgets: tuple[int, int], *, key: tuple[int, ...]
) -> list[np.ndarray]:
    """The rows of a pool as batches: each row once, within the budgets of both sides, in random order.

    A pair that is longer than a budget makes its own batch.
    """
    random = np.random.default_rng(list(key))
    rows = random.permutation(rows)
    order = np.lexsort((pairs.source.lengths_of(rows), pairs.target.lengths_of(rows)))
    batches = split_by_budget(rows[order], pairs, budgets)
    return [batches[index] for index in random.permutation(len(batches))]


def side_budgets(corpus_size: CorpusSize, budget: int) -> tuple[int, int]:
    """The tokens that a batch may have on each side: the whole budget on the side that has more tokens in the corpus,
    and in proportion, plus 5 %, on the other."""
    larger = max(corpus_size.source_tokens, corpus_size.target_tokens, 1)
    source, target = (
        min(-(-budget * tokens * 21 // (larger * 20)), budget)
        for tokens in (corpus_size.source_tokens, corpus_size.target_tokens)
    )
    return source, target


Item = TypeVar("Item")
POLL_SECONDS = 0.002
EXHAUSTED = object()


class StepBatches(NamedTuple):
    """The batches of one step."""

    step: int
    epoch: int
    """Epoch of its first batch."""
    batches: list[Batch]
    """The batches that this worker makes."""
    numbers: list[int]
    """Their indices among all batches of the step."""
    source_tokens: int
    """Source tokens of all batches of the step, whichever worker makes them."""
    target_tokens: int
    position: Position
    """The position after the step."""

    @classmethod
    def of(cls, batches: list[Batch]) -> StepBatches:
        """A first step on the given batches."""
        source_tokens = sum(batch.source.layout.total for batch in batches)
        target_tokens = sum(batch.target.layout.total for batch in batches)
        return cls(1, 0, batches, list(range(len(batches))), source_tokens, target_tokens, Position())


def draw_steps(
    stream: BatchStream, *, first_step: int, batches_per_step: int, rank: int = 0, world_size: int = 1
) -> Iterator[StepBatches]:
    """Endless steps of `batches_per_step` batches each, of which this worker makes every `world_size`-th."""
    for step in count(first_step):
        start = stream.position
        lazy_batches = stream.take(step, batches_per_step)
        numbers = list(range(rank, batches_per_step, world_size))
        yield StepBatches(
            step=step,
            epoch=start.epoch if start.stage == stream.position.stage else 0,
            batches=[lazy_batches[number].make() for number in numbers],
            numbers=numbers,
            source_tokens=sum(batch.source_tokens for batch in lazy_batches),
            target_tokens=sum(batch.target_tokens for batch in lazy_batches),
            position=stream.position,
        )


def prefetch(items: Iterator[Item], depth: int = 8) -> Iterator[Item]:
    """Yield the items, made by a background thread up to `depth` in advance.

    Taking an item does not wake the thread, which polls every `POLL_SECONDS` whether there is space. A queue would
    switch to the thread at that moment, and the GPU would wait while the next batch is made.
    """
    ready: deque[Item] = deque()
    finished: list[BaseException | None] = []
    stopped = threading.Event()

    def work() -> None:
        try:
            while True:
                while len(ready) >= depth:
                    if stopped.wait(POLL_SECONDS):
                        return
                item = next(items, EXHAUSTED)
                if item is EXHAUSTED or stopped.is_set():
                    finished.append(None)
                    return
                ready.append(item)  # type: ignore[arg-type]
        except BaseException as error:
            finished.append(error)

    thread = threading.Thread(target=work, name="weft-batches", daemon=True)
    thread.start()
    try:
        while True:
            while not ready and not finished:
                time.sleep(POLL_SECONDS / 10)
            if ready:
                yield ready.popleft()
            elif finished[0] is not None:
                raise finished[0]
            else:
                return
    finally:
        stopped.set()
        thread.join()
