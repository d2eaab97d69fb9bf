"""A translated unit as it is written in its file: tags and placeholders at their places, breaks, white space."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from weft.apps.texts.pieces import Dialect
from weft.apps.texts.placement import Node, Words, links_of, place
from weft.apps.texts.trees import Span, UnitTree, merged_words


class SentenceOutput(NamedTuple):
    """The translation of a sentence, with the links between the words of both."""

    text: str
    source_words: Sequence[str] = ()
    target_words: Sequence[str] = ()
    links: Sequence[tuple[int, int]] = ()
    flags: tuple[str, ...] = ()
    confidence: float | None = None


class _Break(NamedTuple):
    """A line break in place of white space of a translated unit."""

    gap: Span
    raw: str


class _Event(NamedTuple):
    """A tag at a boundary of target words."""

    boundary: int
    raw: str
    side: int
    """−1: it closes a span that ends here; 1: it opens one that begins here; 0: neither has words here."""
    before: str
    """The character that stood before it in the source; "": it is written without a space whatever stood there."""
    after: str


def render(tree: UnitTree, outputs: Sequence[SentenceOutput | None], dialect: Dialect) -> str:
    """The translated unit; ``outputs``: of each of the tree's parts, None where it is copied."""
    text, target, words = _join(tree, outputs)
    placed = place(tree.nodes, words)
    return _Writer(tree, text, target, dialect).written(list(_events(tree, placed)))


def _join(tree: UnitTree, outputs: Sequence[SentenceOutput | None]) -> tuple[str, list[Span], Words]:
    """The text of a translated unit without tags, its words, and their links."""
    text = ""
    target: list[Span] = []
    pairs: list[tuple[int, int]] = []
    boundaries = {0: 0}
    for (span, _), output in zip(tree.parts, outputs, strict=True):
        part = tree.text[slice(*span)] if output is None else " ".join(output.text.split())
        part = re.sub(" {2,}", " ", part) if tree.has_gaps else part
        spans = merged_words(part, [match.span() for match in _occurrences(tree, part)])
        first, last = tree.words_in(span)
        local = _local_links(tree, output, (first, last), [part[slice(*word)] for word in spans])
        for source, targets in enumerate(local):
            pairs += [(first + source, len(target) + word) for word in targets]
        target += [(len(text) + start, len(text) + end) for start, end in spans]
        text += part
        boundaries[last] = len(target)
    words = Words(len(tree.words), len(target), links_of(pairs, len(tree.words), len(target)), boundaries)
    return text, target, words


def _local_links(tree: UnitTree, output: SentenceOutput | None, span: Span, target: Sequence[str]) -> list[list[int]]:
    """The links between the words of a sentence and those of its output, in the words of this module."""
    source = [tree.text[slice(*word)] for word in tree.words[slice(*span)]]
    if output is None or not output.links:
        return links_of([], len(source), len(target))
    sources = _indices(output.source_words, source)
    targets = _indices(output.target_words, target)
    pairs = [
        (sources[left], targets[right]) for left, right in output.links if left < len(sources) and right < len(targets)
    ]
    return links_of(_by_equal_words(pairs, source, target), len(source), len(target))


def _by_equal_words(
    pairs: Sequence[tuple[int, int]], source: Sequence[str], target: Sequence[str]
) -> list[tuple[int, int]]:
    """Links, where a number or a placeholder that both sides have once is linked to itself alone."""
    counts, target_counts = Counter(source), Counter(target)
    at = {word: index for index, word in enumerate(target)}
    equal = {
        index: at[word]
        for index, word in enumerate(source)
        if counts[word] == target_counts[word] == 1 and len(word) > 1 and not word.isalpha()
    }
    taken = set(equal.values())
    return [pair for pair in pairs if pair[0] not in equal and pair[1] not in taken] + list(equal.items())


def _indices(words: Sequence[str], others: Sequence[str]) -> list[int]:
    """For each of the words of a text, the one of another division of it that has its middle character."""
    ends: list[int] = []
    for word in others:
        ends.append(len(word.replace(" ", "")) + (ends[-1] if ends else 0))
    total = sum(map(len, words))
    if not ends or not total:
        return []
    indices, start = [], 0
    for word in words:
        middle = (start + len(word) / 2) * ends[-1] / total
        indices.append(min(bisect_left(ends, middle), len(ends) - 1))
        start += len(word)
    return indices


def _occurrences(tree: UnitTree, text: str) -> Iterator[re.Match[str]]:
    """The tree's placeholders in a text."""
    if not tree.placeholders:
        return iter(())
    longest_first = sorted(tree.placeholders, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))).finditer(text)


def _events(tree: UnitTree, placed: Sequence[Span]) -> Iterator[_Event]:
    """All tags in the order in which they are written."""

    def ordered(index: int) -> Iterator[int]:
        children = tree.nodes[index].children
        return iter(sorted(children, key=lambda child: (placed[child][0], placed[child][0] < placed[child][1], child)))

    stack = [(0, ordered(0))]
    while stack:
        index, children = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            if index:
                yield _closing(tree.nodes[index], tree.tags[index].closing, placed[index])
        elif tree.nodes[child].is_point:
            node = tree.nodes[child]
            yield _Event(placed[child][0], tree.tags[child].opening, 0, node.left, node.right)
        else:
            node, (start, end) = tree.nodes[child], placed[child]
            before = node.left if node.is_empty else ""
            yield _Event(start, tree.tags[child].opening, int(start < end), before, "")
            stack.append((child, ordered(child)))


def _closing(node: Node, raw: str, span: Span) -> _Event:
    return _Event(span[1], raw, -int(span[0] < span[1]), "", node.right if node.is_empty else "")


class _Writer:
    """Writes the text of a unit with its tags."""

    def __init__(self, tree: UnitTree, text: str, words: Sequence[Span], dialect: Dialect) -> None:
        self.text, self.words, self.dialect = text, words, dialect
        self.raws = {placeholder: iter(raws) for placeholder, raws in tree.placeholders.items()}
        self.occurrences = list(_occurrences(tree, text))
        self.next_occurrence = 0
        self.breaks = self._chosen_breaks(tree)
        self.written_parts: list[str] = []
        self.position = 0
        self.at_start = True

    def written(self, events: Sequence[_Event]) -> str:
        for boundary, group in groupby(events, key=lambda event: event.boundary):
            self._write_until(self._gap(boundary)[0])
            self._write_group(boundary, list(group))
        self._write_until(len(self.text))
        return "".join(self.written_parts)

    def _gap(self, boundary: int) -> Span:
        """The white space at a boundary of words."""
        start = self.words[boundary - 1][1] if boundary else 0
        return start, self.words[boundary][0] if boundary < len(self.words) else len(self.text)

    def _write_group(self, boundary: int, group: Sequence[_Event]) -> None:
        """The tags at a boundary: those that close before its white space, those that open after it."""
        start, end = self._gap(boundary)
        last_left = max((index for index, event in enumerate(group) if event.side < 0), default=-1)
        first_right = min((index for index, event in enumerate(group) if event.side > 0), default=len(group))
        left, right = self.text[start - 1 : start] if start else "", self.text[end : end + 1]
        spaced = False
        for index, event in enumerate(group):
            is_inside_left, is_inside_right = index <= last_left, index >= first_right
            if index == first_right:
                self._write_until(end)
                spaced = True
            if not spaced and not is_inside_right and left and _needs_space(event.before, left):
                self._write_space(0 if is_inside_left else end)
            self.written_parts.append(event.raw)
            spaced = False
            if not is_inside_left and right and _needs_space(event.after, right):
                self._write_space(end)
                spaced = True
        self._write_until(end)

    def _write_space(self, end: int) -> None:
        """White space: what stands in the text up to ``end``, else a space."""
        if self.position < end:
            self._write_until(end)
        else:
            self.written_parts.append(" ")

    def _write_until(self, end: int) -> None:
        """The text up to there, encoded, with breaks and the placeholders as they stand in the file."""
        while self.position < end:
            stop = end
            occurrence = None
            if self.next_occurrence < len(self.occurrences):
                occurrence = self.occurrences[self.next_occurrence]
                stop = min(stop, max(occurrence.start(), self.position))
            if occurrence is not None and occurrence.start() <= self.position and occurrence.end() <= end:
                self.written_parts.append(next(self.raws[occurrence[0]], occurrence[0]))
                self.position, self.next_occurrence = occurrence.end(), self.next_occurrence + 1
                self.at_start = False
                continue
            stop = end if stop == self.position else stop
            if self.breaks and self.breaks[-1].gap[0] < stop:
                (start, after), raw = self.breaks.pop()
                self._write_plain(start)
                self.written_parts.append(raw)
                self.position = max(self.position, after)
            else:
                self._write_plain(stop)
        self.position = max(self.position, end)

    def _write_plain(self, end: int) -> None:
        if self.position < end:
            plain = self.dialect.encode(self.text[self.position : end])
            self.written_parts.append(self.dialect.at_beginning(plain) if self.at_start else plain)
            self.at_start = self.at_start and not plain.strip()
        self.position = max(self.position, end)

    def _chosen_breaks(self, tree: UnitTree) -> list[_Break]:
        """The unit's line breaks at the gaps nearest to their places in the source, the last one first."""
        chosen: list[_Break] = []
        gaps = [self._gap(boundary) for boundary in range(1, len(self.words))] if tree.breaks else []
        cannot = self.dialect.cannot_begin
        gaps = [gap for gap in gaps if gap[0] < gap[1] and not (cannot and cannot.match(self.text, gap[1]))]
        starts = [start for start, _ in gaps]
        free = 0
        for number, (offset, raw) in enumerate(tree.breaks):
            wish = offset * len(self.text) / max(len(tree.text), 1)
            limit = len(gaps) - (len(tree.breaks) - number - 1)
            if free >= len(gaps):
                break
            index = min(max(bisect_left(starts, wish), free), max(limit - 1, free))
            if index > free and wish - starts[index - 1] < starts[index] - wish:
                index -= 1
            chosen.append(_Break(gaps[index], raw))
            free = index + 1
        return chosen[::-1]


def _needs_space(beside: str, now: str) -> bool:
    """Whether a tag that stood beside one character is written with a space beside another."""
    return bool(beside) and (beside.isspace() or (not beside.isalnum() and now.isalnum()))
