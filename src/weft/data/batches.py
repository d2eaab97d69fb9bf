"""Packing pairs into batches of a token budget. The order is a pure function of seed and epoch.

Pairs are shuffled, then sorted by length within pools of some fifty batches, so that the rows of a batch end at
about the same time and a recurrence wastes no steps; the batches themselves are shuffled again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from weft.data.store import Batch, PairStore
from weft.errors import DataError

POOL = 50
"""Batches a pool."""


class Position(NamedTuple):
    """Where a run stands in its data: the next batch to be read."""

    epoch: int = 0
    batch: int = 0


def plan(pairs: PairStore, budget: int, *, seed: int, epoch: int) -> list[np.ndarray]:
    """The rows of every batch of an epoch: each pair once, at most ``budget`` tokens a side in a batch.

    A pair that is longer than the budget makes a batch of its own.
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(pairs))
    limits = budgets(pairs, budget)
    batches: list[np.ndarray] = []
    for pool in _cut(order, pairs, [limit * POOL for limit in limits]):
        lengths = (pairs.target.lengths[pool], pairs.source.lengths[pool])
        batches += _cut(pool[np.lexsort((lengths[1], lengths[0]))], pairs, limits)
    return [batches[i] for i in random.permutation(len(batches))]


def in_order(pairs: PairStore, budget: int) -> list[np.ndarray]:
    """The rows of every batch when all is only looked at once: by length, for evaluation."""
    return _cut(np.lexsort((pairs.source.lengths, pairs.target.lengths)), pairs, (budget, budget))


def budgets(pairs: PairStore, budget: int) -> tuple[int, int]:
    """The tokens a batch may have on each side: the whole budget on the side that has more of them in the corpus, and
    its share, with a little room, on the other."""
    source, target = int(pairs.source.lengths.sum()), int(pairs.target.lengths.sum())
    most = max(source, target, 1)
    return min(-(-budget * source * 21 // (most * 20)), budget), min(-(-budget * target * 21 // (most * 20)), budget)


def _cut(rows: np.ndarray, pairs: PairStore, limits: Sequence[int]) -> list[np.ndarray]:
    """Consecutive rows, as many together as the budget of each side holds, at least one."""
    ends = [np.cumsum(side.lengths[rows]) for side in (pairs.source, pairs.target)]
    parts: list[np.ndarray] = []
    start = 0
    while start < len(rows):
        spent = [side[start - 1] if start else 0 for side in ends]
        stops = [
            int(np.searchsorted(side, used + limit, side="right"))
            for side, used, limit in zip(ends, spent, limits, strict=True)
        ]
        stop = max(min(stops), start + 1)
        parts.append(rows[start:stop])
        start = stop
    return parts


def endless(
    pairs: PairStore, budget: int, *, seed: int, start: Position = Position()
) -> Iterator[tuple[Position, Batch]]:
    """Batches without end from ``start`` on, each with the position after it."""
    if not len(pairs):
        raise DataError("there are no pairs to make batches of")
    epoch, first = start
    while True:
        batches = plan(pairs, budget, seed=seed, epoch=epoch)
        for index in range(first, len(batches)):
            after = Position(epoch, index + 1) if index + 1 < len(batches) else Position(epoch + 1, 0)
            yield after, pairs.batch(batches[index])
        epoch, first = epoch + 1, 0
