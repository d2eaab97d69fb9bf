"""Reservoir sampling: a uniform sample of a stream of any length, in bounded memory.

Every item draws a priority, a uniform number from a generator seeded once; the items with the lowest priorities are
kept as long as their sizes fit the bound together. So the sample depends on the order of the items only through the
draws, and items of equal size have equal probability. If all items fit, all are kept, in order.

The rule: sort the items by priority and take them from the lowest up until the next one would exceed the bound; it and
all after it are dropped. An item never comes back once it is above that threshold, because the threshold only falls as
items arrive, so what is kept at any time is all that has to be in memory: at most the bound and one item. A long item
is as likely to be drawn as a short one, but more likely to be the one that does not fit, so items as long as a good
part of the bound are underrepresented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from random import Random
from typing import TypeVar

from weft.errors import DataError

Item = TypeVar("Item")


def sample(
    items: Iterable[Item],
    *,
    characters: int,
    seed: int,
    size: Callable[[Item], int] = len,  # type: ignore[assignment]
) -> list[Item]:
    """A uniform sample of at most ``characters`` characters, in stream order; ``size``: the characters of an item."""
    if characters < 1:
        raise DataError(f"a sample of {characters} characters; expected 1 or more")
    draw = Random(seed).random
    threshold = 2.0  # items with a priority from here on are dropped; priorities are below 1
    total = 0
    kept: list[tuple[float, int, int, Item]] = []  # a heap, highest priority first: (-priority, index, size, item)
    for index, item in enumerate(items):
        priority = draw()
        if priority >= threshold:
            continue
        length = size(item)
        heappush(kept, (-priority, index, length, item))
        total += length
        while total > characters:
            negative, _, length, _ = heappop(kept)
            total -= length
            threshold = -negative
    return [item for _, _, _, item in sorted(kept, key=_index)]


def _index(entry: tuple[float, int, int, object]) -> int:
    return entry[1]
