"""ROUGE-L of one output with one or several references: how much of it is in a reference, in the same order.

    P = longest common subsequence / words of the hypothesis
    R = longest common subsequence / words of the reference
    F = (1 + β²) P R / (R + β² P)                                                          Lin 2004, section 3.1

With several references, P and R are each the best of all, even if of two different ones, and β = 1.2. This is what the
evaluation of image captions does (Chen et al. 2015) and, with it, the scripts of the E2E challenge (Dušek et al. 2020).
Other programs take the best F of one reference, or β = 1, and get other numbers.

Words are tokenized as in the Penn Treebank, so that values compare with those of these scripts: lower case, *it's* is
*it 's*, *don't* is *do n't*, *family-friendly* is one word, and . , : ; ? ! - and quotation marks are dropped. The
scripts call a Java program for it; `words` splits 99.8 % of the references of E2E's test set in the same way, and
reference texts score the same to 0.003 of a point. Text without spaces is not split: there ROUGE-L means little.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from weft.evaluation.string_distance import common_subsequence

BETA = 1.2
"""How much more recall matters than precision."""
TOKEN = re.compile(
    r"n't(?!\w)|'(?:s|re|ve|ll|d|m)(?!\w)"  # contractions
    r"|\w+?(?=n't(?!\w))"  # the word before n't
    r"|\d+(?:[.,]\d+)+"  # 1,000.50
    r"|\w+(?:[-&/]\w+)*"
    r"|[^\w\s]"
)
PUNCTUATION = frozenset(".,:;?!-–—…'\"`“”„«»")
APOSTROPHES = str.maketrans("’‘", "''")


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
