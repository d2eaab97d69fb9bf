"""Exercise: byte-pair encoding   (chapter 10; Sennrich et al. 2016)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from weft.apps.course.exercise import NONE, Case, Exercise, Mistakes

END_OF_WORD = "</w>"
Pair = tuple[str, str]
STUB = '''\
"""Byte-pair encoding: merge the most frequent pair of neighbors, again and again.

Write the functions, then run:  weft course check bpe.py
"""


def learn_merges(words, count):
    """The first merges that byte-pair encoding learns.

    words: a dict from words to their frequencies
    count: how many merges to learn

    Every word starts as its characters, followed by the unit "</w>". At each step:
    1. Count all pairs of neighboring units inside words; a word that occurs n times counts n times.
    2. Choose the pair with the highest count; of tied pairs, the smallest one as Python compares tuples.
    3. Replace this pair in all words, from left to right, by the joined unit.
    Stop early if no pair is left.

    Returns the list of merges: tuples of two units, in the order in which they were learned.
    """
    raise NotImplementedError


def segment(word, merges):
    """The units of a word: its characters and "</w>", with the merges applied in the order of the list."""
    raise NotImplementedError
'''


def learn_merges(words: dict[str, int], count: int, *, mistakes: Mistakes = NONE) -> list[Pair]:
    """(u, u')* = argmax count(u, u'), `count` times"""
    end = [] if "end of word" in mistakes else [END_OF_WORD]
    units = {word: [*word, *end] for word in words}
    merges: list[Pair] = []
    for _ in range(count + ("one more" in mistakes) - ("one fewer" in mistakes)):
        counts: Counter[Pair] = Counter()
        for word, frequency in words.items():
            for pair in pairwise(units[word]):
                counts[pair] += 1 if "frequencies" in mistakes else frequency
        if "across" in mistakes:
            text = [unit for word, frequency in words.items() for unit in units[word] * frequency]
            counts = Counter(pairwise(text))
        if "counted once" in mistakes:
            ordered = sorted(counts, key=lambda pair: (-counts[pair], pair))
            return ordered[:count]
        if not counts:
            break
        merges.append(_choice(counts, mistakes))
        if "replaced" not in mistakes:
            units = {word: _merged(parts, merges[-1], mistakes) for word, parts in units.items()}
    return merges


def _choice(counts: Counter[Pair], mistakes: Mistakes) -> Pair:
    if "first tie" in mistakes:
        return max(counts, key=lambda pair: counts[pair])
    if "last tie" in mistakes:
        return max(counts, key=lambda pair: (counts[pair], pair))
    if "longest" in mistakes:
        return min(counts, key=lambda pair: (-counts[pair], -len("".join(pair)), pair))
    if "rarest" in mistakes:
        return min(counts, key=lambda pair: (counts[pair], pair))
    return min(counts, key=lambda pair: (-counts[pair], pair))


def _merged(units: list[str], pair: Pair, mistakes: Mistakes = NONE) -> list[str]:
    """The units with every occurrence of the pair joined, from left to right."""
    result: list[str] = []
    position = 0
    while position < len(units):
        if tuple(units[position : position + 2]) == pair:
            result.append("".join(pair))
            position += 2
            if "one replacement" in mistakes:
                return result + units[position:]
        else:
            result.append(units[position])
            position += 1
    return result


def segment(word: str, merges: list[Pair], *, mistakes: Mistakes = NONE) -> list[str]:
    units = [*word] if mistakes & {"end of word", "segment end"} else [*word, END_OF_WORD]
    if "longest match" in mistakes:
        return _longest_match(units, merges)
    for pair in reversed(merges) if "reversed" in mistakes else merges:
        units = _merged(units, pair, mistakes)
    return units


def _longest_match(units: list[str], merges: list[Pair]) -> list[str]:
    known = {"".join(pair) for pair in merges}
    result: list[str] = []
    while units:
        length = max((size for size in range(2, len(units) + 1) if "".join(units[:size]) in known), default=1)
        result.append("".join(units[:length]))
        units = units[length:]
    return result


def cases() -> list[Case]:
    paper = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    ties = {"low": 1, "lower": 1, "newest": 1, "widest": 1}
    repeated = {"banana": 2, "aaaa": 3, "bab": 1}
    overlapping = [("b", "c"), ("a", "b"), ("c", END_OF_WORD)]
    return [
        Case("the example of Sennrich et al., first merge", "learn_merges", (paper, 1)),
        Case("the example of Sennrich et al., eight merges", "learn_merges", (paper, 8)),
        Case("each word once: six pairs are tied", "learn_merges", (ties, 5)),
        Case("pairs that overlap", "learn_merges", (repeated, 4)),
        Case("more merges than there are pairs", "learn_merges", ({"ab": 2}, 9), error_hint=NO_PAIR),
        Case("an unseen word", "segment", ("lowest", [("l", "o"), ("e", "s"), ("lo", "w"), ("es", "t")])),
        Case("the order of the merges decides", "segment", ("abc", overlapping)),
        Case("repeated pairs", "segment", ("aaaaa", [("a", "a")])),
    ]


NO_PAIR = "After two merges every word is one unit, and no pair is left to choose from."
EXERCISE = Exercise(
    name="bpe",
    chapter=10,
    title="byte-pair encoding: learning merges, applying them",
    stub=STUB,
    solutions={"learn_merges": learn_merges, "segment": segment},
    cases=cases,
    mistakes={
        "first tie": "The tie rule: of tied pairs, the one that was met first is taken, so the result depends on the "
        "order of the words. The exercise asks for the smallest pair.",
        "last tie": "The tie rule: of tied pairs, the largest is taken. The exercise asks for the smallest.",
        "longest": "The tie rule: of tied pairs, the one that makes the longest unit is taken.",
        "frequencies": "Each word is counted once. A word that occurs six times counts six times.",
        "end of word": "The unit </w> at the end of words is missing.",
        "segment end": "segment forgets the unit </w> at the end of the word.",
        "replaced": "The same pair is chosen again: it is not replaced in the words after it was chosen.",
        "counted once": "Pairs are counted once, at the start. After a merge there are new pairs to count.",
        "across": "Pairs are counted across words: the end of a word and the start of the next are no neighbors.",
        "one replacement": "Only the first occurrence in each word is replaced.",
        "one fewer": "Off by one: there is one merge too few.",
        "one more": "Off by one: there is one merge too many.",
        "rarest": "The rarest pair is taken, not the most frequent one.",
        "longest match": "segment takes the longest known unit at each position. Merges are applied in their order.",
        "reversed": "segment applies the last merge first.",
    },
)
