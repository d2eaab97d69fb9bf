"""Exercise: nucleus sampling   (chapter 1; Holtzman et al. 2020)."""

from __future__ import annotations

from weft.apps.course.exercise import NONE, Case, Exercise, Mistakes

STUB = '''\
"""Nucleus (top-p) sampling: draw the next word from the fewest words that hold a share p of the probability.

Write the functions, then run:  weft course check sampling.py
"""


def nucleus(probabilities, p):
    """The distribution over the nucleus.

    probabilities: a list of numbers that sum to 1, one for each word of the vocabulary
    p: a share, greater than 0 and at most 1

    The nucleus: words from the most probable one down, until their probabilities sum to p or more. The word with
    which the sum reaches p belongs to it.

    Returns a list as long as probabilities, in the order of the vocabulary: 0 for words outside of the nucleus, and
    inside of it the probabilities, divided by their sum.
    """
    raise NotImplementedError


def sample(probabilities, p, u):
    """The index of a word, drawn from the nucleus with a random number u (at least 0, less than 1).

    Add up the probabilities of nucleus(probabilities, p) in the order of the vocabulary. The word with which the sum
    first becomes greater than u is drawn.
    """
    raise NotImplementedError
'''


def nucleus(probabilities: list[float], p: float, *, mistakes: Mistakes = NONE) -> list[float]:
    """p(y) / Σ p over the smallest set of words whose probabilities sum to p, or more"""
    order = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])
    if "unsorted" in mistakes:
        order = list(range(len(probabilities)))
    if "ascending" in mistakes:
        order.reverse()
    kept, total = [], 0.0
    for index in order:
        if total >= p and "threshold" not in mistakes:
            if "further" in mistakes:
                kept.append(index)
            break
        total += probabilities[index]
        if "crossing" in mistakes and total > p and p < 1:
            break
        kept.append(index)
    if "threshold" in mistakes:
        kept = [index for index in order if probabilities[index] >= p] or order[:1]
    if "count" in mistakes:
        kept = order[: max(round(p * len(order)), 1)]
    mass = sum(probabilities[index] for index in kept)
    divisor = 1.0 if "renormalization" in mistakes else p if "by p" in mistakes else mass
    if "uniform" in mistakes:
        return [1 / len(kept) if index in kept else 0.0 for index in range(len(probabilities))]
    if "sorted" in mistakes:
        shares = [probabilities[index] / divisor for index in kept]
        return shares + [0.0] * (len(probabilities) - len(kept))
    return [probabilities[index] / divisor if index in kept else 0.0 for index in range(len(probabilities))]


def sample(probabilities: list[float], p: float, u: float, *, mistakes: Mistakes = NONE) -> int:
    shares = probabilities if "whole" in mistakes else nucleus(probabilities, p, mistakes=mistakes)
    if "argmax" in mistakes:
        return shares.index(max(shares))
    total = 0.0
    for index, share in enumerate(shares):
        total = share if "cumulative" in mistakes else total + share
        if total > u:
            return index + 1 if "off by one" in mistakes else index
    return len(shares) - 1


def cases() -> list[Case]:
    words = [0.1, 0.4, 0.05, 0.3, 0.15]
    peaked = [0.02, 0.9, 0.05, 0.03]
    return [
        Case("p = 0.8", "nucleus", (words, 0.8)),
        Case("p = 0.65", "nucleus", (words, 0.65)),
        Case("p = 1 keeps all words", "nucleus", (words, 1.0)),
        Case("one word holds more than p", "nucleus", (peaked, 0.5), error_hint=EMPTY),
        Case("six words, p = 0.75", "nucleus", ([0.02, 0.5, 0.3, 0.1, 0.05, 0.03], 0.75)),
        Case("three words, u = 0.3", "sample", ([0.2, 0.15, 0.65], 1.0, 0.3)),
        Case("the first word, u = 0.3", "sample", ([0.35, 0.2, 0.45], 1.0, 0.3)),
        Case("u = 0", "sample", (words, 0.8, 0.0)),
        Case("u = 0.5", "sample", (words, 0.8, 0.5)),
        Case("u = 0.9", "sample", (words, 0.8, 0.9)),
        Case("one word holds more than p, u = 0.999", "sample", (peaked, 0.5, 0.999), error_hint=EMPTY),
    ]


EMPTY = "The first word alone holds more than p here. It belongs to the nucleus, which is never empty."
EXERCISE = Exercise(
    name="sampling",
    chapter=1,
    title="nucleus (top-p) sampling",
    stub=STUB,
    solutions={"nucleus": nucleus, "sample": sample},
    cases=cases,
    mistakes={
        "crossing": "The word with which the sum reaches p is dropped. It belongs to the nucleus: without it, the "
        "nucleus holds less than p.",
        "renormalization": "The probabilities of the nucleus do not sum to 1.",
        "by p": "The probabilities are divided by p. Their sum is usually a little more than p.",
        "unsorted": "The words are taken in the order of the vocabulary, not from the most probable one down.",
        "ascending": "The words are taken from the least probable one up.",
        "threshold": "Each word is compared with p by itself. It is the sum that is compared with p.",
        "further": "The nucleus has one word too many: the sum had reached p before it.",
        "count": "p is used as a share of the vocabulary. It is a share of the probability.",
        "sorted": "The result is in the order of the probabilities. Put each one back at the index of its word.",
        "uniform": "All words of the nucleus have the same probability; they should keep their proportions.",
        "whole": "sample draws from all words, not from the nucleus.",
        "argmax": "sample always takes the most probable word, whatever u is.",
        "cumulative": "sample compares u with each probability by itself, not with the sum so far.",
        "off by one": "sample returns the word after the right one.",
    },
)
