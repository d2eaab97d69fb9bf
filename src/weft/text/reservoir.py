"""A uniform sample of a stream of any length, in bounded memory.

Every item draws a priority, a uniform number from a generator seeded once; the items with the lowest priorities are
kept as long as their sizes fit in the bound together. Which items are kept therefore does not depend on their order
except through the draws, and every item of a size has the same chance. All are kept, in their order, if all fit.

The rule, stated once: order the items by priority and take them from the lowest up until the next one would pass the
bound; it and all after it are left out. An item never comes back once it is above that line, because the line only
falls as items arrive, so what is kept at any time is all that has to be in memory: at most the bound and one item.
A long item is as likely to be drawn as a short one, but more likely to be the one that does not fit: the share of very
long items (as long as a good part of the bound) is smaller than in the stream.

Where nothing is kept of an item it costs one draw and one comparison.
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
    """At most so many characters of a stream (what `size` says of an item), drawn without favor, in stream order."""
    if characters < 1:
        raise DataError(f"a sample of {characters} characters; expected 1 or more")
    draw = Random(seed).random
    line = 2.0  # items of a higher priority than this are left out; priorities are below 1
    held = 0
    kept: list[tuple[float, int, int, Item]] = []  # a heap, the highest priority on top: (-priority, place, size, item)
    for place, item in enumerate(items):
        priority = draw()
        if priority >= line:
            continue
        length = size(item)
        heappush(kept, (-priority, place, length, item))
        held += length
        while held > characters:
            negative, _, length, _ = heappop(kept)
            held -= length
            line = -negative
    return [item for _, _, _, item in sorted(kept, key=_place)]


def _place(entry: tuple[float, int, int, object]) -> int:
    return entry[1]
