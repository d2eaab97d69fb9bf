"""ROUGE of one output with one or several references: how many of its words are in a reference (Lin 2004).

    P = common / those of the hypothesis
    R = common / those of the reference
    F = (1 + β²) P R / (R + β² P)

The common part is the multiset intersection of n-grams (ROUGE-N), or the longest common subsequence of words (ROUGE-L).
There are two conventions, whose values are not comparable:

**Summarization** (`rouge_n`, `rouge_l_f1`), as in the package rouge-score, whose values most papers report since 2019:
β = 1; with several references, the best F of one; words are runs of letters and digits in lower case, and English ones
longer than three letters are stemmed (`weft.evaluation.stemming`). The package drops every letter but a to z; here
words may be of any script, so that on English text the values are the same.

**Captions and E2E** (`rouge_l`). With several references, P and R are each the best over all references, even if these
are two different ones, and β = 1.2. So does the evaluation of image captions (Chen et al. 2015), and with it the
scripts of the E2E challenge (Dušek et al. 2020). Words are tokenized as in the Penn Treebank, so that values are
comparable with those of these scripts: lower case, *it's* is *it 's*, *don't* is *do n't*, *family-friendly* is one
word, and . , : ; ? ! - and quotation marks are dropped. The scripts call a Java program for that; `words` splits 99.8 %
of the references of E2E's test set in the same way, and reference texts score the same to 0.003 of a point. Text
without spaces is not split: there ROUGE-L means little.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

from weft import __version__
from weft.evaluation.metrics import MetricScore, number_of_references
from weft.evaluation.stemming import stem
from weft.text.string_distance import common_subsequence

BETA = 1.2
"""β of the F-score: the weight of recall relative to precision."""
TOKEN = re.compile(
    r"n't(?!\w)|'(?:s|re|ve|ll|d|m)(?!\w)"  # contractions
    r"|\w+?(?=n't(?!\w))"  # the word before n't
    r"|\d+(?:[.,]\d+)+"  # 1,000.50
    r"|\w+(?:[-&/]\w+)*"
    r"|[^\w\s]"
)
PUNCTUATION = frozenset(".,:;?!-–—…'\"`“”„«»")
APOSTROPHES = str.maketrans("’‘", "''")
LETTERS_AND_DIGITS = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation; see the module docstring."""
    return [token for token in TOKEN.findall(text.lower().translate(APOSTROPHES)) if token not in PUNCTUATION]


def rouge_l(hypothesis: str, references: Sequence[str]) -> float:
    """F from 0 to 1; 1 if both texts are empty."""
    output_words = words(hypothesis)
    precisions, recalls = [], []
    for reference in references:
        reference_words = words(reference)
        if not output_words and not reference_words:
            return 1.0
        common = common_subsequence(output_words, reference_words)
        precisions.append(common / max(len(output_words), 1))
        recalls.append(common / max(len(reference_words), 1))
    precision, recall = max(precisions), max(recalls)
    if not precision:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


CAPTIONS = f"case:lc|tok:ptb without punctuation|beta:{BETA}|references:best precision, best recall"
SUMMARIZATION = "case:lc|tok:letters and digits|stemmer:porter|beta:1|references:best"


def mean_of_lines(
    name: str,
    score: Callable[[str, Sequence[str]], float],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    convention: str = SUMMARIZATION,
) -> MetricScore:
    """The mean of a score over lines, in percent; ``convention``: the middle of its signature."""
    scores = [score(hypothesis, line) for hypothesis, line in zip(hypotheses, references, strict=True)]
    signature = f"nrefs:{number_of_references(references)}|{convention}|average:line|version:weft {__version__}"
    return MetricScore(name, 100.0 * math.fsum(scores) / len(scores), signature, "higher")


def stemmed_words(text: str) -> list[str]:
    """Runs of letters and digits in lower case; English ones longer than three letters without their endings."""
    runs = LETTERS_AND_DIGITS.findall(text.lower())
    return [stem(word) if len(word) > 3 and word.isascii() else word for word in runs]


def rouge_n(hypothesis: str, references: Sequence[str], n: int) -> float:
    """F from 0 to 1 of the n-grams of words, of the reference that gives the most; 0 if there are none."""
    output = _ngram_counts(hypothesis, n)
    scores = []
    for reference in references:
        counts = _ngram_counts(reference, n)
        scores.append(_f1((output & counts).total(), output.total(), counts.total()))
    return max(scores)


def rouge_1(hypothesis: str, references: Sequence[str]) -> float:
    """`rouge_n` of words."""
    return rouge_n(hypothesis, references, 1)


def rouge_2(hypothesis: str, references: Sequence[str]) -> float:
    """`rouge_n` of bigrams."""
    return rouge_n(hypothesis, references, 2)


def rouge_l_f1(hypothesis: str, references: Sequence[str]) -> float:
    """F from 0 to 1 of the longest common subsequence of words, of the reference that gives the most."""
    output = stemmed_words(hypothesis)
    scores = []
    for reference in references:
        reference_words = stemmed_words(reference)
        scores.append(_f1(common_subsequence(output, reference_words), len(output), len(reference_words)))
    return max(scores)


def _ngram_counts(text: str, n: int) -> Counter[tuple[str, ...]]:
    words = stemmed_words(text)
    return Counter(zip(*(words[start:] for start in range(n)), strict=False))


def _f1(common: int, in_hypothesis: int, in_reference: int) -> float:
    """The harmonic mean of common / in_hypothesis and common / in_reference."""
    return 2 * common / (in_hypothesis + in_reference) if common else 0.0
