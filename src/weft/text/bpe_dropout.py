"""BPE-dropout: merges that are left out by chance (Provilkov et al. 2020, algorithm 1), with the caller's dice.

The paper's step: every merge that could be made now is left out with probability p, each by a throw of its own; of
those that remain the one learned first is made; where none remains, the word is done. Nothing depends on the throws
for the others, so they are only thrown in the order of learning until one remains: the same distribution, with one
throw where there were many.

What a word looks like after some merges, and which merges it then allows, does not depend on the dice. So the states
of short words are kept and walked through; long words (text without spaces) go through a heap.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from random import Random

SHORT = 32  # symbols; the states of longer words are not kept
MOST = 1 << 17  # states kept

Merges = dict[tuple[int, int], tuple[int, int]]
"""For a pair of ids when it was learned, and the id it becomes."""


class _State:
    """A word after some merges: what it is now, and the merges it allows, the earliest-learned first."""

    __slots__ = ("choices", "following", "ids")

    def __init__(self, ids: list[int], merges: Merges) -> None:
        self.ids = ids
        found = []
        for place in range(len(ids) - 1):
            merge = merges.get((ids[place], ids[place + 1]))
            if merge is not None:
                found.append((merge[0], place, merge[1]))
        self.choices = [(place, made) for _, place, made in sorted(found)]
        self.following: list[_State | None] = [None] * len(self.choices)


class Dropout:
    """Words to ids with merges left out."""

    def __init__(self, merges: Merges) -> None:
        self.merges = merges
        self._states = 0
        self._words: dict[str, _State] = {}

    def word(self, word: str, spell: Callable[[str], list[int]], probability: float, throw: Random) -> list[int]:
        """The ids of one word; `spell` gives its single symbols."""
        state = self._words.get(word)
        if state is None:
            symbols = spell(word)
            if len(symbols) > SHORT:
                return merge_long(symbols, self.merges, probability, throw)
            if self._states > MOST:
                self._words.clear()
                self._states = 0
            state = self._words[word] = _State(symbols, self.merges)
            self._states += 1
        throws = throw.random
        while True:
            number, most = 0, len(state.choices)
            while number < most and throws() < probability:
                number += 1
            if number == most:
                return state.ids
            following = state.following[number]
            if following is None:
                place, made = state.choices[number]
                ids = [*state.ids[:place], made, *state.ids[place + 2 :]]
                following = state.following[number] = _State(ids, self.merges)
                self._states += 1
            state = following


def merge_long(ids: list[int], merges: Merges, probability: float, throw: Random) -> list[int]:
    """The same for a word of any length: possible merges in a heap, those left out this time set aside."""
    ids = list(ids)
    after = [*range(1, len(ids)), -1]
    before = list(range(-1, len(ids) - 1))
    heap: list[tuple[int, int, int, int, int]] = []  # when learned, place, the two ids, what they become

    def propose(place: int) -> None:
        other = after[place]
        if other >= 0 and (merge := merges.get((ids[place], ids[other]))) is not None:
            heappush(heap, (merge[0], place, ids[place], ids[other], merge[1]))

    for place in range(len(ids)):
        propose(place)
    heapify(heap)
    aside: list[tuple[int, int, int, int, int]] = []
    while heap:
        entry = heappop(heap)
        _, place, left, right, made = entry
        other = after[place]
        if ids[place] != left or other < 0 or ids[other] != right:
            continue  # one of the two has been merged since
        if throw.random() < probability:
            aside.append(entry)
            continue
        ids[place], ids[other] = made, -1
        after[place] = after[other]
        if after[place] >= 0:
            before[after[place]] = place
        for one in aside:
            heappush(heap, one)
        aside.clear()
        propose(place)
        if before[place] >= 0:
            propose(before[place])
    return [id for id in ids if id >= 0]
