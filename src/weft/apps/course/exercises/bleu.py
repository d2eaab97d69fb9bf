"""Exercise: BLEU   (chapter 17; Papineni et al. 2002)."""

from __future__ import annotations

import math
from collections import Counter

from weft.apps.course.exercise import NONE, Case, Exercise, Mistakes

STUB = '''\
"""BLEU: how many n-grams of the outputs are in the references.

Write the function, then run:  weft course check bleu.py
"""


def bleu(outputs, references):
    """BLEU of a corpus, from 0 to 100.

    outputs, references: lists of sentences, as many of one as of the other; the words of a sentence are separated by
        spaces, and every output has one reference

    For n from 1 to 4, the precision p_n is the number of n-grams of the outputs that are in their references, divided
    by the number of n-grams of the outputs. An n-gram counts at most as often as it is in the reference (clipping).
    Both numbers are summed over all sentences before they are divided.

    The brevity penalty compares the number of words of all outputs, c, with that of all references, r: it is 1 if c is
    at least r, otherwise exp(1 - r / c).

    BLEU is 100 times the brevity penalty times the geometric mean of p_1 to p_4. It is 0 if any of them is 0.
    """
    raise NotImplementedError
'''


def bleu(outputs: list[str], references: list[str], *, mistakes: Mistakes = NONE) -> float:
    """100 · BP · exp(¼ Σ log p_n)   Papineni et al. 2002, section 2.3"""
    if "sentences" in mistakes:
        scores = [bleu([output], [reference]) for output, reference in zip(outputs, references, strict=True)]
        return sum(scores) / len(scores)
    pairs = [(output.split(), reference.split()) for output, reference in zip(outputs, references, strict=True)]
    longest = 3 if "trigrams" in mistakes else 4
    precisions = [_precision(pairs, n, mistakes) for n in range(1, longest + 1)]
    lengths = sum(len(output) for output, _ in pairs), sum(len(reference) for _, reference in pairs)
    penalty = 0.0 if not lengths[0] else _penalty(*lengths, mistakes)
    if "arithmetic" in mistakes:
        mean = sum(precisions) / len(precisions)
    elif "product" in mistakes:
        mean = math.prod(precisions)
    elif min(precisions) == 0:
        if "zero" in mistakes:
            raise ValueError("math domain error")
        mean = 0.0
    else:
        mean = math.exp(sum(map(math.log, precisions)) / len(precisions))
    return penalty * mean * (1 if "share" in mistakes else 100)


def _precision(pairs: list[tuple[list[str], list[str]]], n: int, mistakes: Mistakes) -> float:
    matches = total = 0
    shares = []
    for output, reference in pairs:
        counts, allowed = _n_grams(output, n), _n_grams(reference, n)
        if "distinct" in mistakes:
            counts, allowed = Counter(counts.keys()), Counter(allowed.keys())
        if "once" in mistakes:
            matched = len(counts.keys() & allowed.keys())
        elif "clipping" in mistakes:
            matched = sum(count for n_gram, count in counts.items() if n_gram in allowed)
        else:
            matched = sum(min(count, allowed[n_gram]) for n_gram, count in counts.items())
        matches += matched
        total += sum((allowed if "recall" in mistakes else counts).values())
        if counts:
            shares.append(matched / sum(counts.values()))
    if "averaged" in mistakes:
        return sum(shares) / len(shares) if shares else 0.0
    return matches / total if total else 0.0


def _n_grams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))


def _penalty(output: int, reference: int, mistakes: Mistakes) -> float:
    if "brevity" in mistakes:
        return 1.0
    if "exchanged" in mistakes:
        return 1.0 if output <= reference else math.exp(1 - reference / output)
    if "inverted" in mistakes:
        output, reference = reference, output
    if "always" in mistakes:
        return math.exp(1 - reference / output)
    if "ratio" in mistakes:
        return min(1.0, output / reference)
    return 1.0 if output >= reference else math.exp(1 - reference / output)


def cases() -> list[Case]:
    reference = "the old king does not see the white horse"
    longer = "a witch must open the bag of the nurse near the church"
    return [
        Case("an output that equals its reference", "bleu", ([reference], [reference])),
        Case("one word differs", "bleu", ([reference.replace("white", "black")], [reference])),
        Case("a short output", "bleu", (["the old king does not see"], [reference])),
        Case("a long output", "bleu", ([f"{reference} of the queen"], [reference])),
        Case("one phrase, three times", "bleu", (["the old king does " * 3], [reference])),
        Case(
            "two sentences of different lengths",
            "bleu",
            (["the king does not see the horse", longer.replace("bag", "door")], [reference, longer]),
        ),
        Case("no 4-gram in common", "bleu", (["the king sees a horse"], [reference]), error_hint=NO_MATCH),
        Case("an empty output", "bleu", ([""], [reference]), error_hint="c is 0 here; nothing matches: BLEU is 0."),
    ]


NO_MATCH = "No 4-gram matches here, and log 0 does not exist: BLEU is 0."
EXERCISE = Exercise(
    name="bleu",
    chapter=17,
    title="BLEU of a corpus",
    stub=STUB,
    solutions={"bleu": bleu},
    cases=cases,
    mistakes={
        "brevity": "The brevity penalty is missing: an output of the three surest words would score too high.",
        "clipping": "The clipping is missing: a word that is repeated counts each time, although the reference has it "
        "once.",
        "distinct": "Every n-gram is counted once. One that is twice in output and reference counts twice.",
        "once": "An n-gram that matches is counted once. One that is twice in output and reference counts twice.",
        "sentences": "This is the mean of the scores of the sentences. Counts are summed over the corpus first.",
        "averaged": "Each precision is the mean over sentences. Counts are summed over the corpus, then divided.",
        "arithmetic": "The precisions are combined by an arithmetic mean. BLEU takes the geometric one.",
        "product": "The precisions are multiplied; the fourth root of their product is missing.",
        "inverted": "The brevity penalty is the wrong way round: it punishes long outputs.",
        "exchanged": "The two cases of the brevity penalty are exchanged: it is 1 for outputs that are long enough.",
        "always": "The brevity penalty is above 1 for outputs longer than their reference. It is never above 1.",
        "ratio": "The brevity penalty is c / r; it should be exp(1 - r / c).",
        "recall": "The matches are divided by the n-grams of the references: that is recall, not precision.",
        "trigrams": "n goes from 1 to 3. It goes to 4: is a range one short?",
        "zero": NO_MATCH,
        "share": "The result is a share from 0 to 1; the exercise asks for 0 to 100.",
    },
)
