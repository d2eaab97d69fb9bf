"""Where the tags of a sentence belong in its translation.

A unit is a tree: its tags that open and close are spans, all others points. The words of the translation that are
linked to the words of a span say where it goes: to the stretch with the largest difference between its own linked words
and those of others (a maximum sum, found in one pass). A span stays inside the span around it and beside its siblings,
so that the result is well nested whatever the links are; one without linked words takes the free word nearest to its
place. A point goes to the boundary beside the word that it stood beside.

Everything is iterative and almost linear in tags, words and links: a stranger's document may be nested deeply.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass
class Node:
    """A span or a point of a unit; the first node is the whole unit."""

    parent: int
    first: int
    """Its source words: from the first to before the last. Of a point, the word that it stands before."""
    last: int
    is_point: bool = False
    left: str = " "
    """The character before it, by which `weft.apps.texts.rendering` decides on spaces; empty between tags."""
    right: str = " "
    is_unpaired: bool = False
    """Whether it is a tag whose partner is in another unit, or nowhere."""
    children: list[int] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return self.is_point or self.first >= self.last


class Words(NamedTuple):
    """The words of a unit and of its translation, and how they are linked."""

    source: int
    """How many."""
    target: int
    links: list[list[int]]
    """For every source word, the target words that are linked to it, ascending."""
    boundaries: dict[int, int]
    """The boundaries between sentences: of source words to those of target words, the ends among them."""


def links_of(pairs: Sequence[tuple[int, int]], source: int, target: int) -> list[list[int]]:
    """Links by source word; along the diagonal if there are none."""
    if not pairs and source and target:
        pairs = [(word * source // target, word) for word in range(target)]
    links: list[list[int]] = [[] for _ in range(source)]
    for left, right in sorted(set(pairs)):
        links[left].append(right)
    return links


def place(nodes: Sequence[Node], words: Words) -> list[tuple[int, int]]:
    """The target words (from, to) of every node: of a point, twice the boundary at which it stands."""
    linked_before = _linked_before(words)
    nearest_left, nearest_right = _nearest_linked(words.links)
    placed = [(0, words.target)] * len(nodes)
    for index, node in enumerate(nodes):
        if not node.children:
            continue
        spans = [child for child in node.children if not nodes[child].is_empty]
        taken = _Taken(*placed[index])
        wishes = []
        for child in spans:
            if (nodes[child].first, nodes[child].last) == (node.first, node.last):
                wishes.append((words.target + 1, child, placed[index]))
            else:
                stretch, score = _stretch(nodes[child], words, linked_before, taken)
                wishes.append((score, child, stretch))
        for score, child, stretch in sorted(wishes, key=lambda wish: (-wish[0], wish[1])):
            if score <= 0 or taken.overlaps(*stretch):
                stretch, _ = _stretch(nodes[child], words, linked_before, taken)
            if stretch[0] >= stretch[1]:
                stretch = taken.free_word(_anchor(nodes[child].first, words, nearest_left, nearest_right))
            placed[child] = stretch
            taken.add(*stretch)
        for child in node.children:
            if nodes[child].is_empty:
                boundary = _boundary(nodes[child], node, placed[index], words, (nearest_left, nearest_right))
                placed[child] = (taken.outside(boundary),) * 2
    _keep_order(nodes, placed)
    return placed


def _keep_order(nodes: Sequence[Node], placed: list[tuple[int, int]]) -> None:
    """Put unpaired tags in the order of the source: their partners in other units have theirs."""
    for node in nodes:
        unpaired = [child for child in node.children if nodes[child].is_unpaired]
        for child, span in zip(unpaired, sorted(placed[child] for child in unpaired), strict=True):
            placed[child] = span


def _linked_before(words: Words) -> list[int]:
    """How many target words before each one are linked to any source word."""
    linked = [0] * (words.target + 1)
    for targets in words.links:
        for target in targets:
            linked[target + 1] = 1
    for index in range(1, len(linked)):
        linked[index] += linked[index - 1]
    return linked


def _nearest_linked(links: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """For every source word, the nearest one with links at it or before it, and at it or after it; −1 if none."""
    left, right = [-1] * len(links), [-1] * len(links)
    for index in range(len(links)):
        left[index] = index if links[index] else left[index - 1] if index else -1
    for index in reversed(range(len(links))):
        right[index] = index if links[index] else right[index + 1] if index + 1 < len(links) else -1
    return left, right


class _Taken:
    """The stretch of a parent, and the parts of it that its children have taken."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.free = end - start
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.run_starts: list[int] = []
        """Those of parts with nothing between them, as one."""
        self.run_ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        if start < end:
            position = bisect_left(self.starts, start)
            self.starts.insert(position, start)
            self.ends.insert(position, end)
            self.free -= end - start
            self._join(start, end)

    def _join(self, start: int, end: int) -> None:
        """Add a part to the runs beside it."""
        first = last = bisect_left(self.run_starts, start)
        if first and self.run_ends[first - 1] == start:
            first -= 1
            start = self.run_starts[first]
        if last < len(self.run_starts) and self.run_starts[last] == end:
            end = self.run_ends[last]
            last += 1
        self.run_starts[first:last], self.run_ends[first:last] = [start], [end]

    def overlaps(self, start: int, end: int) -> bool:
        position = bisect_right(self.ends, start)
        return start < self.start or end > self.end or (position < len(self.starts) and self.starts[position] < end)

    def outside(self, boundary: int) -> int:
        """The boundary, or the nearest one that is not within a part that is taken."""
        boundary = min(max(boundary, self.start), self.end)
        position = bisect_right(self.ends, boundary)
        if position < len(self.starts) and self.starts[position] < boundary:
            start, end = self.starts[position], self.ends[position]
            return start if boundary - start < end - boundary else end
        return boundary

    def free_word(self, wish: int) -> tuple[int, int]:
        """The free word nearest to one; an empty stretch if there is none."""
        if not self.free:
            return (self.outside(wish),) * 2
        wish = min(max(wish, self.start), self.end - 1)
        position = bisect_right(self.run_ends, wish)
        if position == len(self.run_starts) or self.run_starts[position] > wish:
            return wish, wish + 1
        after, before = self.run_ends[position], self.run_starts[position] - 1
        if after < self.end and (before < self.start or after - wish <= wish - before):
            return after, after + 1
        return (before, before + 1) if before >= self.start else (self.outside(wish),) * 2


def _stretch(node: Node, words: Words, linked_before: Sequence[int], taken: _Taken) -> tuple[tuple[int, int], int]:
    """The stretch of free target words with the most words that are linked to the node and the fewest of others."""
    own = sorted({target for word in range(node.first, node.last) for target in words.links[word]})
    best, best_sum = (0, 0), 0
    start, current = -1, 0
    previous = -1
    for target in own:
        if taken.overlaps(target, target + 1):
            start = -1
            continue
        foreign = linked_before[target] - linked_before[previous + 1] if start >= 0 else 0
        if start < 0 or current - foreign <= 0 or taken.overlaps(start, target + 1):
            start, current = target, 1
        else:
            current += 1 - foreign
        previous = target
        if current > best_sum:
            best, best_sum = (start, target + 1), current
    if not best_sum:
        return best, 0
    return _to_sentence_ends(node, best, words, linked_before, taken), best_sum


def _to_sentence_ends(
    node: Node, stretch: tuple[int, int], words: Words, linked_before: Sequence[int], taken: _Taken
) -> tuple[int, int]:
    """A stretch whose source begins or ends with a sentence, with the unlinked words up to there."""
    start, end = stretch
    first, last = words.boundaries.get(node.first), words.boundaries.get(node.last)
    if first is not None and first < start and linked_before[start] == linked_before[first]:
        start = start if taken.overlaps(first, start) else first
    if last is not None and last > end and linked_before[last] == linked_before[end]:
        end = end if taken.overlaps(end, last) else last
    return start, end


def _anchor(word: int, words: Words, nearest_left: Sequence[int], nearest_right: Sequence[int]) -> int:
    """Where an unlinked source word would stand in the target: after the nearest linked one, or before it."""
    left = nearest_left[word - 1] if word else -1
    right = nearest_right[word] if word < words.source else -1
    if left >= 0:
        return words.links[left][-1] + 1
    return words.links[right][0] - 1 if right >= 0 else word * words.target // max(words.source, 1)


def _boundary(
    node: Node,
    parent: Node,
    stretch: tuple[int, int],
    words: Words,
    nearest: tuple[Sequence[int], Sequence[int]],
) -> int:
    """The boundary of target words for a point or an empty span."""
    position = node.first
    if position <= parent.first:
        return stretch[0]
    if position >= parent.last:
        return stretch[1]
    if position in words.boundaries:
        return words.boundaries[position]
    before, after = words.links[position - 1], words.links[position]
    if after and (not before or ((node.left.isspace() or not node.left) and node.right.isalnum())):
        return after[0]
    if before:
        return before[-1] + 1
    left, right = nearest[0][position - 1], nearest[1][position]
    if left >= 0:
        return words.links[left][-1] + 1
    return words.links[right][0] if right >= 0 else position * words.target // max(words.source, 1)
