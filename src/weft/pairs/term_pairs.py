"""Terms found in pairs: words and what they are translated as, by word alignment in both directions.

A word of a source is linked to a word of its target if IBM model 1 links them in both directions (`weft.evaluation.
ibm1`). The target words that a source word is linked to often enough are its variants, the most frequent first: its
inflected forms, and its other translations. The result is a glossary to edit, and one for `data.terms`, where a model
sees which of the variants to use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from weft.data.pairs import Pair
from weft.evaluation.ibm1 import fit_ibm1
from weft.text.words import words

MAX_PAIRS = 50_000
"""Pairs that are aligned: of more, a random sample."""
SHORTEST = 3
"""Characters of a word of a term: shorter ones are mostly function words."""
MAX_VARIANTS = 6
MIN_SHARE = 0.05
"""The least share of the links of a source word that a variant has."""
FREQUENT = 0.02
"""The share of pairs from which on a source word is none to look up: function words."""


class TermPair(NamedTuple):
    """A source word and the words that it is translated as."""

    source: str
    variants: tuple[str, ...]
    links: int
    """How often the source word is linked to one of them."""


def find_terms(pairs: Sequence[Pair], *, min_count: int = 3, seed: int = 1) -> list[TermPair]:
    """The terms with at least ``min_count`` links to each variant, the most frequent first."""
    if len(pairs) > MAX_PAIRS:
        pairs = Random(seed).sample(list(pairs), MAX_PAIRS)
    forward = fit_ibm1(pairs)
    backward = fit_ibm1([Pair(pair.target, pair.source) for pair in pairs])
    linked: dict[str, Counter[str]] = defaultdict(Counter)
    occurrences: Counter[str] = Counter()
    for pair in pairs:
        sources, targets = words(pair.source), words(pair.target)
        occurrences.update({source.casefold() for source in sources})
        reverse = {(source, target) for target, source in backward.links(Pair(pair.target, pair.source))}
        for a, b in forward.links(pair):
            if (a, b) in reverse and _is_word(sources[a]) and _is_word(targets[b]):
                linked[sources[a].casefold()][targets[b]] += 1
    terms: list[TermPair] = []
    for source, counts in linked.items():
        if occurrences[source] > max(FREQUENT * len(pairs), min_count):
            continue
        least = max(min_count, MIN_SHARE * counts.total())
        variants = [(target, count) for target, count in counts.most_common(MAX_VARIANTS) if count >= least]
        if variants:
            terms.append(TermPair(source, tuple(target for target, _ in variants), sum(count for _, count in variants)))
    return sorted(terms, key=lambda term: (-term.links, term.source))


def _is_word(text: str) -> bool:
    return len(text) >= SHORTEST and text.isalpha()
