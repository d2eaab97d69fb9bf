"""Exercise: beam search   (chapter 9)."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.apps.course.exercise import NONE, Case, Exercise, Mistakes

END = "END"
Words = tuple[str, ...]
NextWords = Callable[[Words], dict[str, float]]
STUB = '''\
"""Beam search: keep the best few prefixes at every step.

Write the function, then run:  weft course check beam_search.py
"""


def beam_search(next_words, size, max_length):
    """The best finished sentence that a beam finds, and its log-probability.

    next_words(prefix): for a prefix (a tuple of words), a dict of the log-probabilities of each next word. One of the
        words is "END".
    size: the number of prefixes that are kept
    max_length: the number of steps, at most; "END" counts as a word

    Begin with the empty prefix, (), whose log-probability is 0. At each step:
    1. Extend every prefix of the beam by every word. Log-probabilities are added.
    2. Keep the `size` best of all extensions.
    3. Those that end with "END" are finished: set them aside. The others are the beam of the next step.
    Stop after max_length steps, or when the beam is empty.

    Returns the best finished sentence, with its "END", as a tuple of words, and its log-probability. If nothing has
    finished, returns the best prefix of the last beam and its log-probability.
    """
    raise NotImplementedError
'''


def beam_search(next_words: NextWords, size: int, max_length: int, *, mistakes: Mistakes = NONE) -> tuple[Words, float]:
    """argmax of Σ log p over the prefixes that were kept"""
    steps = max_length + ("late" in mistakes) - ("early" in mistakes)
    kept_count = size + ("wide" in mistakes) - ("narrow" in mistakes)
    beam: list[tuple[Words, float]] = [((), 0.0)]
    finished: list[tuple[Words, float]] = []
    for _ in range(steps):
        groups = [_extensions(prefix, score, next_words, mistakes) for prefix, score in beam]
        if "separate" in mistakes:
            longer = [best for group in groups for best in _best(group, size, mistakes)]
            kept = longer
        elif "greedy" in mistakes:
            kept = [best for group in groups for best in _best(group, 1, mistakes)]
        else:
            kept = _best([item for group in groups for item in group], kept_count, mistakes)
        if "end" in mistakes:
            beam = kept
            continue
        finished += [item for item in kept if item[0][-1] == END]
        beam = [item for item in kept if item[0][-1] != END]
        if not beam or ("first" in mistakes and finished):
            break
    candidates = finished + beam if "unfinished" in mistakes else finished or beam
    if "last" in mistakes:
        return candidates[-1]
    key = (lambda item: item[1] / len(item[0])) if "normalized" in mistakes else (lambda item: item[1])
    words, score = max(candidates, key=key)
    words = words[:-1] if "stripped" in mistakes and words and words[-1] == END else words
    return words, math.exp(score) if "probability" in mistakes else score


def _extensions(prefix: Words, score: float, next_words: NextWords, mistakes: Mistakes) -> list[tuple[Words, float]]:
    if "forgotten" in mistakes:
        score = 0.0
    following = next_words(prefix)
    if "multiplied" in mistakes and prefix:
        return [((*prefix, word), score * added) for word, added in following.items()]
    return [((*prefix, word), score + added) for word, added in following.items()]


def _best(items: list[tuple[Words, float]], count: int, mistakes: Mistakes) -> list[tuple[Words, float]]:
    return sorted(items, key=lambda item: item[1], reverse="worst" not in mistakes)[:count]


def _from_table(table: dict[str, dict[str, float]]) -> NextWords:
    """log p of the next words, for the longest end of a prefix that the table has."""

    def next_words(prefix: Words) -> dict[str, float]:
        key = next((key for length in (2, 1) if (key := " ".join(prefix[-length:])) in table and prefix), "")
        return {word: math.log(probability) for word, probability in table[key].items()}

    return next_words


DELAYED: dict[str, dict[str, float]] = {
    "": {"A": 0.41, "B": 0.36, "C": 0.21, END: 0.02},
    "A": {"x": 0.37, "y": 0.32, "z": 0.3, END: 0.01},
    "B": {"x": 0.49, "y": 0.46, "z": 0.02, END: 0.03},
    "C": {"x": 0.93, "y": 0.03, "z": 0.01, END: 0.03},
    "A x": {END: 0.97, "x": 0.02, "y": 0.01},
    "x": {"y": 0.38, END: 0.33, "z": 0.29},
    "y": {"z": 0.39, "x": 0.35, END: 0.26},
    "z": {"x": 0.44, "y": 0.37, END: 0.19},
    END: {"x": 0.9, "y": 0.06, END: 0.04},
}
"""A beam of 2 loses what greedy search finds (chapter 9)."""
SHORT: dict[str, dict[str, float]] = {
    "": {"he": 0.5, "I": 0.4, END: 0.1},
    "he": {END: 0.35, "hit": 0.6, "struck": 0.05},
    "I": {"was": 0.55, "got": 0.3, END: 0.15},
    "hit": {"me": 0.7, END: 0.3},
    "was": {"hit": 0.9, END: 0.1},
    "got": {"hit": 0.8, END: 0.2},
    "struck": {"me": 0.95, END: 0.05},
    "me": {END: 0.85, "hit": 0.15},
    END: {"he": 0.98, END: 0.02},
}
SECOND: dict[str, dict[str, float]] = {
    "": {"A": 0.5, "B": 0.45, END: 0.05},
    "A": {"x": 0.4, "y": 0.35, "z": 0.24, END: 0.01},
    "B": {"x": 0.9, END: 0.1},
    "x": {END: 0.8, "y": 0.2},
    "y": {END: 0.7, "x": 0.3},
    "z": {END: 0.6, "y": 0.4},
    END: {"A": 0.97, END: 0.03},
}
ENDLESS: dict[str, dict[str, float]] = {
    "": {"on": 0.7, "off": 0.299, END: 0.001},
    "on": {"on": 0.6, "off": 0.399, END: 0.001},
    "off": {"on": 0.45, "off": 0.549, END: 0.001},
    END: {"on": 1.0},
}


def cases() -> list[Case]:
    delayed, short, second, endless = (_from_table(table) for table in (DELAYED, SHORT, SECOND, ENDLESS))
    return [
        Case("a beam of 1 is greedy search", "beam_search", (delayed, 1, 5)),
        Case("a beam of 2 loses what greedy search finds", "beam_search", (delayed, 2, 4)),
        Case("a beam of 3 finds it again", "beam_search", (delayed, 3, 5)),
        Case("the best sentence is not the first that ends", "beam_search", (short, 2, 6)),
        Case("the second word is better in the end", "beam_search", (second, 2, 4)),
        Case("a prefix is more probable than what has ended", "beam_search", (short, 3, 2)),
        Case("a beam of 3", "beam_search", (short, 3, 4)),
        Case("it ends at the last step", "beam_search", (short, 2, 4)),
        Case("nothing has ended after 3 steps", "beam_search", (endless, 2, 3)),
    ]


EXERCISE = Exercise(
    name="beam_search",
    chapter=9,
    title="beam search",
    stub=STUB,
    solutions={"beam_search": beam_search},
    cases=cases,
    mistakes={
        "end": "A sentence that has reached END is extended further. It is finished: set it aside.",
        "early": "The search stops one step too early.",
        "late": "The search makes one step too many: END counts as a word.",
        "narrow": "The beam is off by one: it keeps one prefix too few.",
        "wide": "The beam is off by one: it keeps one prefix too many.",
        "separate": "The best extensions of each prefix are kept, so the beam grows. All extensions compete.",
        "greedy": "Each prefix keeps its best word only. All extensions of all prefixes compete.",
        "forgotten": "The score of an extension is that of its last word. Where is the score of its prefix?",
        "multiplied": "Log-probabilities are multiplied. The product of probabilities is the sum of their logarithms.",
        "worst": "The worst extensions are kept: is the list sorted the other way round?",
        "first": "The search stops at the first sentence that ends. A prefix in the beam may still become better.",
        "last": "The sentence that finished last is returned, not the best one.",
        "unfinished": "A prefix without END is returned although a sentence has finished.",
        "normalized": "The score is divided by the length; this exercise compares log-probabilities.",
        "probability": "The sentence is right; the number is its probability, not its logarithm.",
        "stripped": "The sentence is right; END, which was counted, is missing from what is returned.",
    },
)
