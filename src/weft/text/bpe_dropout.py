"""BPE-dropout: merges skipped at random (Provilkov et al. 2020, algorithm 1), with the caller's generator.

The paper's step: every possible merge is skipped with probability p, independently; of those that remain the one
learned first is applied; if none remains, the word is done. Nothing depends on the draws for the others, so numbers
are drawn in the order of learning only until one merge remains: the same distribution with fewer draws.

The symbols of a word after some merges, and the merges possible then, do not depend on the draws. So the states of
short words are cached and reused; long words (text without spaces) are merged with a heap.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from random import Random

MAX_CACHED_LENGTH = 32
"""Symbols; the states of longer words are not cached."""
MAX_CACHED_STATES = 1 << 17

Merges = dict[tuple[int, int], tuple[int, int]]
"""Rank in the order of learning and id of the merged symbol, for each pair of ids."""


class _State:
    """A word after some merges: its symbols, and the possible merges in the order of learning."""

    __slots__ = ("candidates", "ids", "successors")

    def __init__(self, ids: list[int], merges: Merges) -> None:
        self.ids = ids
        possible = []
        for position in range(len(ids) - 1):
            merge = merges.get((ids[position], ids[position + 1]))
            if merge is not None:
                possible.append((merge[0], position, merge[1]))
        self.candidates = [(position, merged) for _, position, merged in sorted(possible)]
        self.successors: list[_State | None] = [None] * len(self.candidates)


class BPEDropout:
    """Encodes words with merges skipped at random."""

    def __init__(self, merges: Merges) -> None:
        self.merges = merges
        self._states = 0
        self._words: dict[str, _State] = {}

    def encode(
        self, word: str, to_symbols: Callable[[str], list[int]], probability: float, random: Random
    ) -> list[int]:
        """The ids of one word; ``to_symbols`` gives the ids of its single symbols."""
        state = self._words.get(word)
        if state is None:
            symbols = to_symbols(word)
            if len(symbols) > MAX_CACHED_LENGTH:
                return merge_long(symbols, self.merges, probability, random)
            if self._states > MAX_CACHED_STATES:
                self._words.clear()
                self._states = 0
            state = self._words[word] = _State(symbols, self.merges)
            self._states += 1
        draw = random.random
        while True:
            index, count = 0, len(state.candidates)
            while index < count and draw() < probability:
                index += 1
            if index == count:
                return state.ids
            successor = state.successors[index]
            if successor is None:
                position, merged = state.candidates[index]
                ids = [*state.ids[:position], merged, *state.ids[position + 2 :]]
                successor = state.successors[index] = _State(ids, self.merges)
                self._states += 1
            state = successor


def merge_long(ids: list[int], merges: Merges, probability: float, random: Random) -> list[int]:
    """BPE-dropout of a word of any length: possible merges in a heap, skipped ones put back after the next merge."""
    ids = list(ids)
    following = [*range(1, len(ids)), -1]
    previous = list(range(-1, len(ids) - 1))
    heap: list[tuple[int, int, int, int, int]] = []  # rank, position, the two ids, the id of the merged symbol

    def push(position: int) -> None:
        right = following[position]
        if right >= 0 and (merge := merges.get((ids[position], ids[right]))) is not None:
            heappush(heap, (merge[0], position, ids[position], ids[right], merge[1]))

    for position in range(len(ids)):
        push(position)
    heapify(heap)
    skipped: list[tuple[int, int, int, int, int]] = []
    while heap:
        candidate = heappop(heap)
        _, position, left_id, right_id, merged = candidate
        right = following[position]
        if ids[position] != left_id or right < 0 or ids[right] != right_id:
            continue  # one of the two has been merged since
        if random.random() < probability:
            skipped.append(candidate)
            continue
        ids[position], ids[right] = merged, -1
        following[position] = following[right]
        if following[position] >= 0:
            previous[following[position]] = position
        for entry in skipped:
            heappush(heap, entry)
        skipped.clear()
        push(position)
        if previous[position] >= 0:
            push(previous[position])
    return [id for id in ids if id >= 0]
