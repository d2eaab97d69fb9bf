"""Utility functions for minimum Bayes risk: how good a hypothesis is if the reference were right.

    chrf    F-score of character n-grams, n = 1 … 6, recall weighted twice (chrF2)        Popović 2015
    bleu    sentence BLEU over words as sacrebleu tokenizes them (13a), "exp"             Papineni et al. 2002,
            smoothing and effective order                                                 Chen & Cherry 2014, method 3
    edit    1 − edit distance / length of the longer, in Unicode code points
    exact   1 if both are equal, else 0: minimum Bayes risk with it is the majority vote

All are between 0 and 1; chrf and bleu times 100 are sacrebleu's sentence_chrf and sentence_bleu. As there, an empty
sentence has a utility of 0 in both, even against itself. The n-grams of a sentence are cached, since minimum Bayes risk
compares every pair of some tens of sentences.

To add one: write the function and add its line to `weft.recipe.choices.UTILITIES`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from weft.text.string_distance import edit_distance

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

CHARACTER_ORDER, WORD_ORDER = 6, 4
"""The longest n-grams of chrF and BLEU."""
BETA = 2
"""β of chrF: the weight of recall relative to precision."""
CACHED = 256
"""Sentences whose n-grams are cached."""

Bag = frozenset[Hashable]
"""A multiset: the first of several equal items as it is, the others numbered. So |A ∩ B| = Σ min(count_A, count_B)."""


def chrf(hypothesis: str, reference: str) -> float:
    """(1 + β²) P R / (β² P + R); P and R are means over the lengths n that both sentences reach."""
    pairs = [pair for pair in zip(_characters(hypothesis), _characters(reference), strict=True) if all(pair)]
    matches = [len(ours & theirs) for ours, theirs in pairs]
    if not any(matches):
        return 0.0
    precision = sum(count / len(ours) for count, (ours, _) in zip(matches, pairs, strict=True)) / len(pairs)
    recall = sum(count / len(theirs) for count, (_, theirs) in zip(matches, pairs, strict=True)) / len(pairs)
    return (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)


def bleu(hypothesis: str, reference: str) -> float:
    """Brevity penalty times the geometric mean of the precisions, smoothed by sacrebleu."""
    output_ngrams, reference_ngrams = _words(hypothesis), _words(reference)
    score = _sacrebleu().compute_bleu(
        [
            len(hypothesis_bag & reference_bag)
            for hypothesis_bag, reference_bag in zip(output_ngrams, reference_ngrams, strict=True)
        ],
        [len(bag) for bag in output_ngrams],
        len(output_ngrams[0]),
        len(reference_ngrams[0]),
        smooth_method="exp",
        effective_order=True,
    )
    return float(score.score) / 100.0


def exact(hypothesis: str, reference: str) -> float:
    """Whether both are equal."""
    return float(hypothesis == reference)


def edit(hypothesis: str, reference: str) -> float:
    """1 if nothing has to change, 0 if everything does."""
    longer = max(len(hypothesis), len(reference))
    return 1.0 - edit_distance(hypothesis, reference) / longer if longer else 1.0


@lru_cache(CACHED)
def _characters(text: str) -> list[Bag]:
    """Character n-grams for n = 1 … 6; white space does not count."""
    return _ngrams("".join(text.split()), CHARACTER_ORDER)


@lru_cache(CACHED)
def _words(text: str) -> list[Bag]:
    """Word n-grams for n = 1 … 4."""
    return _ngrams(tuple(_sacrebleu().tokenizer(text.rstrip()).split()), WORD_ORDER)


def _ngrams(items: Sequence[Hashable], longest: int) -> list[Bag]:
    """A bag of n-grams for every n."""
    bags = []
    for length in range(1, longest + 1):
        counts: dict[Hashable, int] = {}
        bag: set[Hashable] = set()
        for start in range(len(items) - length + 1):
            ngram = items[start : start + length]
            count = counts[ngram] = counts.get(ngram, 0) + 1
            bag.add(ngram if count == 1 else (count, ngram))
        bags.append(frozenset(bag))
    return bags


@cache
def _sacrebleu() -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(effective_order=True)
