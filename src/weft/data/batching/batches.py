"""Batches: which pairs come next, and which of them are together. Their content is a function of seed and position.

**The order of pairs** is that of a mixture of corpora. Every part of it is read in a shuffled order, repeatedly, each
time in another order. After g pairs of the mixture, ⌊g·w/W⌋ pairs of a part with weight w out of W have been read: a
part with twice the weight is read twice as fast, and the position in each part is a function of g.

    by size        w = n             every pair once per epoch (the default)
    by weight      w as given        small parts are repeated, large ones are not finished in an epoch
    by temperature w = n^(1/T)       T = 1: by size; T → ∞: uniform                  Arivazhagan et al. 2019

An epoch is as many pairs as the parts have together. A curriculum gives parts a first or a last step: these steps
divide a run into stages, and each stage reads its parts from the beginning, in new orders.

**Shuffled orders** are pseudorandom permutations without a table: the row at any position of a shuffled corpus is
computed from the position. A table of a billion positions takes eight gigabytes and a minute; a run would have to make
it before its first step, and again when it is resumed. `Permutation` computes only the rows at the positions needed. Up
to `MAX_TABLE` rows it is a table, every order equally likely. Beyond, it is a Feistel network over the next power of
two, whose rounds mix one half of a position's bits into the other with a keyed hash; a result outside of the corpus is
permuted again until it is inside (Luby & Rackoff 1988; Black & Rogaway 2002, cycle walking). The network is a bijection
for any hash.

**Batches.** Pairs are taken by pools of some fifty batches. A pool is sorted by length, so that the rows of a batch end
at about the same time and a recurrence wastes no steps, and split into batches of a token budget, which are shuffled.
Only one pool is computed at a time: starting, or resuming at any batch, takes no longer in a corpus of a hundred
million pairs than in one of a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from typing import NamedTuple, Protocol

import numpy as np

from weft.data.store.token_store import Batch, CorpusSize, PairStore, split_by_budget
from weft.errors import DataError

POOL_BATCHES = 50
"""Batches per pool, about."""
RESOLUTION = 1 << 40
"""Real-valued weights are rounded to multiples of 1 / RESOLUTION."""
MAX_TABLE = 1 << 16
"""The most rows of a permutation that is a table."""
ROUNDS = 6
"""Rounds of the Feistel network of a larger one."""


class Part(NamedTuple):
    """One corpus of a mixture."""

    start: int
    """The first row of the part in the store."""
    pairs: int
    variants: int = 1
    """Number of stored copies, each tokenized differently (BPE-dropout); variant v starts at start + v · pairs."""
    weight: float | None = None
    first_step: int = 1
    last_step: int | None = None

    def is_active(self, step: int) -> bool:
        return self.first_step <= step and (self.last_step is None or step <= self.last_step)


class Mixture:
    """Parts of a corpus and their weights. Everything is a pure function of the arguments."""

    def __init__(self, parts: Sequence[Part], *, temperature: float = 1.0, seed: int) -> None:
        self.parts = tuple(part for part in parts if part.pairs)
        self.temperature = temperature
        self.seed = seed
        if not self.parts:
            raise DataError("there are no pairs to make batches of")

    @cached_property
    def stages(self) -> list[int]:
        """The first step of each stage."""
        ends = {part.last_step + 1 for part in self.parts if part.last_step is not None}
        return sorted({1, *(part.first_step for part in self.parts), *ends})

    def stage_of(self, step: int) -> int:
        return sum(first <= step for first in self.stages) - 1

    def active_parts(self, stage: int) -> list[tuple[int, Part]]:
        """The parts of a stage, with their numbers."""
        first = self.stages[stage]
        active = [(number, part) for number, part in enumerate(self.parts) if part.is_active(first)]
        if not active:
            raise DataError(f"data.train: at step {first} no corpus is left to train on; see first_step and last_step")
        return active

    def check(self, steps: int) -> None:
        """Raise if a run of that many steps would have a stage without parts."""
        for stage, first in enumerate(self.stages):
            if first <= steps:
                self.active_parts(stage)

    def pairs(self, stage: int) -> int:
        """Pairs per epoch."""
        return sum(part.pairs for _, part in self.active_parts(stage))

    def weights(self, stage: int) -> list[int]:
        """Integers in proportion to the weights of the parts of a stage."""
        parts = [part for _, part in self.active_parts(stage)]
        if any(part.weight is not None for part in parts):
            weights = [1.0 if part.weight is None else part.weight for part in parts]
        elif self.temperature != 1.0:
            weights = [part.pairs ** (1 / self.temperature) for part in parts]
        else:
            return [part.pairs for part in parts]
        return [max(round(weight / sum(weights) * RESOLUTION), 1) for weight in weights]

    def rows(self, stage: int, epoch: int, first: int, last: int) -> np.ndarray:
        """The rows of the pairs `first` to `last` (exclusive) of an epoch, part after part."""
        weights = self.weights(stage)
        epoch_start = epoch * self.pairs(stage)
        rows: list[np.ndarray] = []
        for (number, part), weight in zip(self.active_parts(stage), weights, strict=True):
            start, stop = ((epoch_start + pair) * weight // sum(weights) for pair in (first, last))
            for repetition in range(start // part.pairs, -(-stop // part.pairs)):
                base = repetition * part.pairs
                positions = np.arange(max(start - base, 0), min(stop - base, part.pairs))
                order = Permutation(part.pairs, (self.seed, stage, number, repetition))
                rows.append(order[positions] + part.start + repetition % part.variants * part.pairs)
        return np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


class Permutation:
    """A bijection of 0 … size − 1, which depends on the key alone."""

    def __init__(self, size: int, key: tuple[int, ...]) -> None:
        self.size = size
        self.key = key
        bits = max((size - 1).bit_length(), 2)
        self.widths = (bits // 2, bits - bits // 2)

    def __getitem__(self, positions: np.ndarray) -> np.ndarray:
        """The rows at these positions."""
        if self.size <= MAX_TABLE:
            return _table(self.size, self.key)[positions]
        rows = self._feistel(positions.astype(np.uint64))
        while (outside := np.flatnonzero(rows >= self.size)).size:
            rows[outside] = self._feistel(rows[outside])
        return rows.astype(np.int64)

    def _feistel(self, positions: np.ndarray) -> np.ndarray:
        """Six rounds of the network; the halves may differ by one bit in width, and change roles each round."""
        widths = self.widths
        masks = [np.uint64((1 << width) - 1) for width in widths]
        left, right = positions >> np.uint64(widths[0]), positions & masks[0]  # widths[1] and widths[0] bits
        for number, key in enumerate(_round_keys(self.key)):
            left, right = right, left ^ (_hash(right, key) & masks[1 - number % 2])
        # After an even number of rounds each half is as wide as it was.
        return (left << np.uint64(widths[0])) | right


@lru_cache(maxsize=64)
def _table(size: int, key: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(list(key)).permutation(size)


@lru_cache(maxsize=64)
def _round_keys(key: tuple[int, ...]) -> tuple[np.uint64, ...]:
    return tuple(np.random.SeedSequence(list(key)).generate_state(ROUNDS, np.uint64))


def _hash(values: np.ndarray, key: np.uint64) -> np.ndarray:
    """A 64-bit hash of multiplications and shifts; every input bit affects every output bit."""
    hashed = values + key
    for shift, factor in ((32, 0xD6E8FEB86659FD93), (32, 0xD6E8FEB86659FD93), (32, 0)):
        hashed = hashed ^ (hashed >> np.uint64(shift))
        hashed = hashed * np.uint64(factor) if factor else hashed
    return hashed


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
    """Position after the last batch taken."""

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
