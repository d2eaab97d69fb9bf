"""Utilities: how good one sentence is if another were right. For minimum Bayes risk (search/risk.py).

    chrf    F-score of character n-grams, n = 1 … 6, recall weighted twice (chrF2)        Popović 2015
    bleu    sentence BLEU over words as sacrebleu cuts them (13a), "exp" smoothing        Papineni et al. 2002,
            and effective order                                                           Chen & Cherry 2014, method 3
    exact   1 if both are the same, else 0: minimum risk with it is the majority vote
    edit    1 − edit distance / length of the longer, in Unicode code points

All are between 0 and 1; chrf and bleu times 100 are what sacrebleu's sentence_chrf and sentence_bleu say. As there, an
empty sentence is worth 0 to both, even against itself. A sentence's n-grams are worked out once and kept for a while,
since minimum risk asks for every pair of some tens of sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from weft.evaluation.string_distance import edit_distance

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

CHARACTERS, WORDS = 6, 4
"""The longest n-grams of chrF and BLEU."""
BETA = 2
"""How much more recall matters than precision to chrF."""
KEPT = 256
"""Sentences whose n-grams are kept."""

Bag = frozenset[Hashable]
"""A multiset: the first of several equal items as it is, the others numbered. So |A ∩ B| = Σ min(count_A, count_B)."""


def chrf(hypothesis: str, reference: str) -> float:
    """(1 + β²) P R / (β² P + R); P and R are means over the lengths n that both sentences reach."""
    pairs = [pair for pair in zip(_characters(hypothesis), _characters(reference), strict=True) if all(pair)]
    shared = [len(ours & theirs) for ours, theirs in pairs]
    if not any(shared):
        return 0.0
    precision = sum(same / len(ours) for same, (ours, _) in zip(shared, pairs, strict=True)) / len(pairs)
    recall = sum(same / len(theirs) for same, (_, theirs) in zip(shared, pairs, strict=True)) / len(pairs)
    return (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)


def bleu(hypothesis: str, reference: str) -> float:
    """Brevity penalty times the geometric mean of the precisions, smoothed by sacrebleu."""
    ours, theirs = _words(hypothesis), _words(reference)
    score = _sacrebleu().compute_bleu(
        [len(one & other) for one, other in zip(ours, theirs, strict=True)],
        [len(one) for one in ours],
        len(ours[0]),
        len(theirs[0]),
        smooth_method="exp",
        effective_order=True,
    )
    return float(score.score) / 100.0


def exact(hypothesis: str, reference: str) -> float:
    """Whether both are the same."""
    return float(hypothesis == reference)


def edit(hypothesis: str, reference: str) -> float:
    """1 where nothing has to change, 0 where everything has."""
    longer = max(len(hypothesis), len(reference))
    return 1.0 - edit_distance(hypothesis, reference) / longer if longer else 1.0


UTILITIES: dict[str, Callable[[str, str], float]] = {"chrf": chrf, "bleu": bleu, "exact": exact, "edit": edit}


@lru_cache(KEPT)
def _characters(text: str) -> list[Bag]:
    """Character n-grams for n = 1 … 6; white space does not count."""
    return _ngrams("".join(text.split()), CHARACTERS)


@lru_cache(KEPT)
def _words(text: str) -> list[Bag]:
    """Word n-grams for n = 1 … 4."""
    return _ngrams(tuple(_sacrebleu().tokenizer(text.rstrip()).split()), WORDS)


def _ngrams(items: Sequence[Hashable], longest: int) -> list[Bag]:
    """A bag of n-grams for every n."""
    bags = []
    for length in range(1, longest + 1):
        counts: dict[Hashable, int] = {}
        bag: set[Hashable] = set()
        for place in range(len(items) - length + 1):
            gram = items[place : place + length]
            count = counts[gram] = counts.get(gram, 0) + 1
            bag.add(gram if count == 1 else (count, gram))
        bags.append(frozenset(bag))
    return bags


@cache
def _sacrebleu() -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(effective_order=True)
