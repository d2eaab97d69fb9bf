"""Byte-pair encoding learned literally, with the rule for ties as a parameter.

In "low lower newest widest", six pairs of symbols occur twice and none more often. Which of them is merged first is not
determined by the algorithm of Sennrich et al. 2016 but by the rule for ties: that of `weft.text.bpe` is in its
docstring; others take the first pair in the text, or the last in the alphabet. The merges differ from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

LECTURE = "low lower newest widest"
END_OF_WORD = "</w>"
Symbols = tuple[str, str]
Rule = Callable[[Sequence[Symbols]], Symbols]
"""Chooses one of the pairs that occur most often; they are given in the order of the text."""


def first_in_text(tied: Sequence[Symbols]) -> Symbols:
    return tied[0]


def count_pairs(words: Sequence[Sequence[str]]) -> Counter[Symbols]:
    """The frequency of each pair of neighbors."""
    return Counter(pair for word in words for pair in pairwise(word))


def tied_pairs(text: str = LECTURE) -> tuple[list[Symbols], int]:
    """The pairs that occur most often, in the order of the text, and how often."""
    counts = count_pairs([[*word, END_OF_WORD] for word in text.split()])
    most = max(counts.values())
    return [pair for pair, count in counts.items() if count == most], most


def learn_merges(text: str, number: int, rule: Rule) -> list[Symbols]:
    """The first ``number`` merges; each joins the most frequent pair of symbols everywhere."""
    words, merges = [[*word, END_OF_WORD] for word in text.split()], []
    for _ in range(number):
        counts = count_pairs(words)
        merges.append(rule([pair for pair, count in counts.items() if count == max(counts.values())]))
        words = [join(word, merges[-1]) for word in words]
    return merges


def join(word: Sequence[str], pair: Symbols) -> list[str]:
    """The word with every occurrence of the pair as one symbol, from left to right."""
    symbols: list[str] = []
    for symbol in word:
        if symbols and (symbols[-1], symbol) == pair:
            symbols[-1] += symbol
        else:
            symbols.append(symbol)
    return symbols
