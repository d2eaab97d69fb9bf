"""The facts of one side: lengths, characters and scripts, and how its vocabulary grows."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.data.filtering.unicode_scripts import SCRIPTS, code_points, letter_scripts
from weft.text.words import words

INSIDE_WORDS = str.maketrans("", "", "'’-")
SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", "؟", "।")


@dataclass(frozen=True)
class Lengths:
    """The distribution of a length over the texts."""

    mean: float
    median: int
    p95: int
    p99: int
    maximum: int

    @classmethod
    def of(cls, lengths: Sequence[int]) -> Lengths:
        """Percentiles are lengths that occur: the smallest that the given share of texts does not exceed."""
        if not lengths:
            return cls(0.0, 0, 0, 0, 0)
        ordered = sorted(lengths)
        median, p95, p99 = (ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.5, 0.95, 0.99))
        return cls(sum(ordered) / len(ordered), median, p95, p99, ordered[-1])


@dataclass(frozen=True)
class VocabularyProfile:
    """The different tokens of a sample."""

    size: int
    tokens: int
    unseen: float
    """The probability that the next token is new, by Good and Turing: the share of tokens that occurred once."""
    growth: float
    """Heaps' exponent β of size ∝ tokens^β, from the first half of the sample to all of it; 0: a closed set."""
    top: tuple[str, ...]
    """The most frequent tokens."""

    def at(self, factor: float) -> tuple[float, float]:
        """Size and probability of a new token in a corpus with ``factor`` times the tokens."""
        return self.size * factor**self.growth, self.unseen * factor ** (self.growth - 1)

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> VocabularyProfile:
        half = Counter(token for text in texts[::2] for token in text)
        counts = Counter(token for text in texts for token in text)
        total, half_total = counts.total(), half.total()
        unseen = sum(1 for count in counts.values() if count == 1) / max(1, total)
        growth = 0.0
        if half_total and total > half_total:
            growth = math.log(len(counts) / len(half)) / math.log(total / half_total)
        return cls(len(counts), total, unseen, growth, tuple(token for token, _ in counts.most_common(8)))


@dataclass(frozen=True)
class SideProfile:
    """The profile of the texts on one side."""

    characters: Lengths
    tokens: Lengths
    """Lengths in tokens between white space."""
    alphabet: int
    """The number of different characters."""
    rare_characters: float
    """The probability that the next character is new."""
    scripts: dict[str, float]
    """The share of each script among the letters, the largest first."""
    spaced: VocabularyProfile
    """The vocabulary of tokens between white space."""
    worded: VocabularyProfile
    """The vocabulary of words, with punctuation apart (`weft.text.words`)."""
    token_characters: float
    """Mean number of characters of a token."""
    single: float
    """The share of texts of one token."""
    digits: float
    """The share of digits among the characters that are not white space."""
    distinct: float
    """The share of different texts among all."""
    punctuated: float
    """The share of tokens that end in punctuation that belongs to the word before, as in "bathroom." """

    sentence_ends: float
    """The share of texts that end in a full stop, a question or an exclamation mark."""
    plain_words: float
    """The share of tokens that are words as in running text: letters, apostrophes and hyphens, not all capitals."""

    @property
    def script(self) -> str:
        """The script of most letters; "Common" if there are none."""
        return next(iter(self.scripts), "Common")

    @property
    def is_sentences(self) -> bool:
        """Whether most texts have several tokens."""
        return self.tokens.median > 1


def profile_side(texts: Sequence[str]) -> SideProfile:
    """The profile of the texts of one side."""
    spaced = [text.split() for text in texts]
    characters = Counter("".join(texts))
    visible = sum(count for character, count in characters.items() if not character.isspace())
    digits = sum(count for character, count in characters.items() if character.isdigit())
    counts = Counter(token for text in spaced for token in text)
    tokens = counts.total()
    return SideProfile(
        characters=Lengths.of([len(text) for text in texts]),
        tokens=Lengths.of([len(text) for text in spaced]),
        alphabet=len(characters),
        rare_characters=sum(1 for count in characters.values() if count == 1) / max(1, characters.total()),
        scripts=_scripts(characters),
        spaced=VocabularyProfile.of(spaced),
        worded=VocabularyProfile.of([words(text) for text in texts]),
        token_characters=visible / max(1, tokens),
        single=sum(len(text) == 1 for text in spaced) / max(1, len(texts)),
        digits=digits / max(1, visible),
        distinct=len(set(texts)) / max(1, len(texts)),
        punctuated=sum(_ends_in_punctuation(token) for text in spaced for token in text) / max(1, tokens),
        sentence_ends=sum(text.rstrip().endswith(SENTENCE_ENDS) for text in texts) / max(1, len(texts)),
        plain_words=sum(count for token, count in counts.items() if _is_plain_word(token)) / max(1, tokens),
    )


def _is_plain_word(token: str) -> bool:
    """Whether a token is letters, some with marks: accents written apart, or the vowels of Indian scripts."""
    letters = token.translate(INSIDE_WORDS)
    without_marks = "".join(letter for letter in letters if not unicodedata.category(letter).startswith("M"))
    return without_marks.isalpha() and letters in (letters.lower(), letters.capitalize())


def _ends_in_punctuation(token: str) -> bool:
    return token[-1] in ".,;:!?。、،؟" and len(token) > 1 and token[-2].isalnum()


def _scripts(characters: Counter[str]) -> dict[str, float]:
    letters = [character for character in characters if character.isalpha()]
    if not letters:
        return {}
    counts = np.bincount(
        letter_scripts(code_points("".join(letters))),
        weights=[characters[letter] for letter in letters],
        minlength=len(SCRIPTS),
    )
    shares = counts / counts.sum()
    return {SCRIPTS[index]: float(shares[index]) for index in np.argsort(-shares, kind="stable") if shares[index] > 0}
