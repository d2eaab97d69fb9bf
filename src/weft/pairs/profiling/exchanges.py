"""Symbols and phrases that are interchangeable in a language of strict rules, as far as its pairs can tell.

A symbol a belongs to a target symbol a' if exactly the pairs with a in their source have a' in their target. Two such
entries are interchangeable if swapping them in pairs never contradicts the pairs (a new source that is among them has
the new target), and leads to at least one of them: ``jump`` and ``walk`` if *jump* and *walk* are pairs alone.

A phrase is a pair that is part of other pairs, on both sides. Phrases that are the same but for interchangeable symbols
have one form: *walk left*, *run right*. Two forms are interchangeable if putting a phrase of one in the place of one of
the other never contradicts the pairs, leads to several of them, and makes no two tokens neighbors that no source has:
after *walk twice* no source has *twice*, so *walk twice* does not fit wherever *walk* does. A form may be in several
groups.

These are the groups of the steps ``exchange`` and ``substitute`` (`weft.data.filtering.exchange`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple, TypeVar

from weft.data.filtering.exchange import Parts, Phrase, Phrases, Tokens, rename, split_entry

MAX_SYMBOLS = 50
"""Different symbols of a side of a language of strict rules."""
MAX_PAIRS = 50_000
"""Different pairs that are kept: the first of a corpus."""
MAX_FORMS = 40
"""Forms of phrases that are compared: those that are part of the most pairs."""
MAX_PHRASE_TOKENS = 4
"""Tokens of the source of a phrase."""
MIN_USES = 10
"""Pairs that the phrases of a form are part of, at least."""
MAX_TRIED = 30
"""Pairs with a phrase in which another one is tried."""
MIN_AGREEMENTS = 5
"""Pairs that a substitution must lead to."""


CONTRADICTION = -1
"""In place of a number of agreements: an exchange leads to a pair that contradicts the corpus."""
Entry = tuple[str, str]
T = TypeVar("T")


class Interchangeable(NamedTuple):
    """Groups of symbols and of phrases that can take each other's place."""

    symbols: tuple[tuple[Entry, ...], ...] = ()
    phrases: tuple[tuple[Entry, ...], ...] = ()


class StrictPairs:
    """The different pairs of a corpus, as long as it may be a language of strict rules: with few different symbols."""

    def __init__(self) -> None:
        self.pairs: dict[Phrase, None] = {}
        self.symbols: tuple[set[str], set[str]] = set(), set()
        self.is_strict = True

    def add(self, source: str, target: str) -> None:
        if not self.is_strict or len(self.pairs) >= MAX_PAIRS:
            return
        pair = split_entry((source, target))
        self.pairs[pair] = None
        for symbols, tokens in zip(self.symbols, pair, strict=True):
            symbols.update(tokens)
        if max(map(len, self.symbols)) > MAX_SYMBOLS:
            self.is_strict = False
            self.pairs.clear()

    def interchangeable(self) -> Interchangeable:
        """The groups for these pairs."""
        pairs = [*self.pairs]
        targets: Targets = defaultdict(set)
        for pair in pairs:
            targets[" ".join(pair.source)].add(" ".join(pair.target))
        symbols = _symbols(pairs, targets)
        return Interchangeable(symbols, _phrases(pairs, targets, symbols))


Targets = dict[str, set[str]]
"""The targets of each source."""


def _symbols(pairs: Sequence[Phrase], targets: Targets) -> tuple[tuple[Entry, ...], ...]:
    """Groups of entries that can be swapped."""
    source_uses, target_uses = _uses(pairs, 0), _uses(pairs, 1)
    entries = {}
    for symbol, numbers in source_uses.items():
        targets_of_symbol = [other for other, uses in target_uses.items() if uses == numbers]
        if len(targets_of_symbol) == 1 and [*source_uses.values()].count(numbers) == 1:
            entries[symbol, targets_of_symbol[0]] = numbers

    def swapped(first: Entry, second: Entry) -> int:
        names = [{first[side]: second[side], second[side]: first[side]} for side in (0, 1)]
        led = 0
        for number in entries[first] | entries[second]:
            source, target = (rename(" ".join(pairs[number][side]), names[side]) for side in (0, 1))
            if source in targets:
                if target not in targets[source]:
                    return CONTRADICTION
                led += 1
        return led

    return tuple(map(tuple, _groups(entries, swapped)))


def _uses(pairs: Sequence[Phrase], side: int) -> dict[str, set[int]]:
    """The numbers of the pairs with each symbol on a side."""
    uses: dict[str, set[int]] = defaultdict(set)
    for number, pair in enumerate(pairs):
        for token in pair[side]:
            uses[token].add(number)
    return uses


def _phrases(
    pairs: Sequence[Phrase], targets: Targets, symbols: Sequence[Sequence[Entry]]
) -> tuple[tuple[Entry, ...], ...]:
    """Groups of phrases that fit in the place of each other, those of the longest phrases first."""
    uses = _phrase_uses(pairs, targets)
    forms: dict[Phrase, list[Phrase]] = defaultdict(list)
    for phrase in sorted(uses, key=lambda phrase: (-len(uses[phrase]), phrase)):
        forms[_form(phrase, symbols)].append(phrase)
    count = {phrases[0]: sum(len(uses[phrase]) for phrase in phrases) for phrases in forms.values()}
    used = [phrases for phrases in forms.values() if count[phrases[0]] >= MIN_USES]
    used.sort(key=lambda phrases: -count[phrases[0]])
    members = {phrases[0]: phrases for phrases in used[:MAX_FORMS]}
    """The phrases of each form, by the one that is part of the most pairs."""
    neighbors = {neighbor for pair in pairs for neighbor in pairwise(("", *pair.source, ""))}
    divided = {phrase: _divided_pairs(phrase, uses[phrase]) for phrase in members}

    def replaced(first: Phrase, second: Phrase) -> int:
        led = 0
        for parts in divided[first]:
            if not _fits(parts, first, second, neighbors):
                return CONTRADICTION
            source, target = parts.replaced({first: second})
            if source in targets:
                if target not in targets[source]:
                    return CONTRADICTION
                led += 1
        return led if led >= MIN_AGREEMENTS else 0

    @cache
    def agreements(first: Phrase, second: Phrase) -> int:
        return min(replaced(first, second), replaced(second, first))

    groups = _groups(members, agreements)
    for group in groups:  # a form may be in several: "run around left" is replaced like "run left" and "run left twice"
        group += [form for form in members if form not in group and _agrees(form, group, agreements)]
    groups.sort(key=lambda group: -fmean(len(form.source) for form in group))
    return tuple(
        tuple((" ".join(phrase.source), " ".join(phrase.target)) for form in group for phrase in sorted(members[form]))
        for group in groups
    )


def _phrase_uses(pairs: Sequence[Phrase], targets: Targets) -> dict[Phrase, list[Phrase]]:
    """Phrases, and the pairs that each is part of."""
    known = {pair.source: pair for pair in pairs if len(pair.source) > 1 and len(targets[" ".join(pair.source)]) == 1}
    uses: dict[Phrase, list[Phrase]] = defaultdict(list)
    for pair in pairs:
        for span in _spans(pair.source):
            if span in known and _contains(pair.target, known[span].target):
                uses[known[span]].append(pair)
    return uses


def _form(phrase: Phrase, symbols: Sequence[Sequence[Entry]]) -> Phrase:
    """A phrase with the first symbols of each group in place of its own, in the order in which they appear."""
    sides: tuple[dict[str, str], dict[str, str]] = {}, {}
    for group in symbols:
        entries = dict(group)
        present = [token for token in dict.fromkeys(phrase.source) if token in entries]
        for token, (source, target) in zip(present, group, strict=False):
            sides[0][token], sides[1][entries[token]] = source, target
    return split_entry([rename(" ".join(tokens), names) for tokens, names in zip(phrase, sides, strict=True)])


def _divided_pairs(phrase: Phrase, pairs: Sequence[Phrase]) -> list[Parts]:
    """Pairs with a phrase, evenly spaced, in which it is clear where its target is."""
    phrases = Phrases([phrase])
    divided = (phrases.parts(pair) for pair in pairs[:: -(-len(pairs) // MAX_TRIED)])
    return [parts for parts in divided if parts.phrases]


def _fits(parts: Parts, first: Phrase, second: Phrase, neighbors: set[tuple[str, str]]) -> bool:
    """Whether the second phrase, in the place of the first, has neighbors that its tokens have in some source."""
    before, after = ["", *parts.source], [*parts.source[1:], ""]
    for index, part in enumerate(parts.source):
        if part == first:
            left = before[index]
            right = after[index]
            left_token = second.source[-1] if isinstance(left, Phrase) else left
            right_token = second.source[0] if isinstance(right, Phrase) else right
            if not {(left_token, second.source[0]), (second.source[-1], right_token)} <= neighbors:
                return False
    return True


def _groups(entries: Iterable[T], agreements: Callable[[T, T], int]) -> list[list[T]]:
    """Groups of two or more entries, of which each agrees with one of those before it and contradicts none."""
    groups: list[list[T]] = []
    for entry in entries:
        for group in groups:
            if _agrees(entry, group, agreements):
                group.append(entry)
                break
        else:
            groups.append([entry])
    return [group for group in groups if len(group) > 1]


def _agrees(entry: T, group: Iterable[T], agreements: Callable[[T, T], int]) -> bool:
    """Whether an entry agrees with one of a group and contradicts none of it."""
    most = 0
    for other in group:
        if (count := agreements(entry, other)) == CONTRADICTION:
            return False
        most = max(most, count)
    return most > 0


def _spans(tokens: Tokens) -> set[Tokens]:
    """The parts of a text, of two tokens or more, that are not the whole."""
    sizes = range(2, min(len(tokens) - 1, MAX_PHRASE_TOKENS) + 1)
    return {tokens[start : start + size] for size in sizes for start in range(len(tokens) - size + 1)}


def _contains(tokens: Tokens, part: Tokens) -> bool:
    return any(tokens[start : start + len(part)] == part for start in range(len(tokens) - len(part) + 1))
