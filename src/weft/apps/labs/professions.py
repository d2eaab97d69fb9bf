"""English and French sentences about professions, in which the English may not say what the French must: the gender.

    today the student is tired                   aujourd'hui l'étudiant est fatigué, or l'étudiante est fatiguée
    today the student is tired and she sleeps    aujourd'hui l'étudiante est fatiguée et elle dort

All nouns begin with a vowel and all feminine forms add an e, so that a gender is stated by endings and pronouns alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import NamedTuple

from weft.data.pairs import Pair

PROFESSIONS = {
    "student": "étudiant",
    "lawyer": "avocat",
    "writer": "écrivain",
    "apprentice": "apprenti",
    "partner": "associé",
    "agent": "agent",
    "expert": "expert",
    "clerk": "employé",
    "teacher": "enseignant",
    "assistant": "assistant",
}
WOMEN = dict(zip(PROFESSIONS, (0.1, 0.15, 0.2, 0.25, 0.35, 0.65, 0.75, 0.8, 0.85, 0.9), strict=True))
"""The share of women among the sentences of each profession, where professions differ."""
ADJECTIVES = {
    "tired": "fatigué",
    "tall": "grand",
    "ready": "prêt",
    "alone": "seul",
    "glad": "content",
    "strong": "fort",
}
ADVERBS = {"today": "aujourd'hui", "now": "maintenant", "here": "ici", "again": "encore", "often": "souvent"}
VERBS = {"sleeps": "dort", "sings": "chante", "": ""}
"""A second verb of the sentence; empty in sentences that state no gender."""
MAN, WOMAN = 0, 1
LATIN, CYRILLIC = "abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопярстуввхыз"


class Statement(NamedTuple):
    """The content of a sentence except the gender."""

    profession: str
    adjective: str
    adverb: str
    verb: str = ""

    def pair(self, gender: int) -> Pair:
        """The sentence of a man or a woman; without a verb its English is the same for both."""
        ending, pronouns = ("e", ("she", "elle")) if gender == WOMAN else ("", ("he", "il"))
        english = f"{self.adverb} the {self.profession} is {self.adjective}"
        french = (
            f"{ADVERBS[self.adverb]} l'{PROFESSIONS[self.profession]}{ending} est {ADJECTIVES[self.adjective]}{ending}"
        )
        if not self.verb:
            return Pair(english, french)
        return Pair(f"{english} and {pronouns[0]} {self.verb}", f"{french} et {pronouns[1]} {VERBS[self.verb]}")


def is_feminine(french: str) -> bool:
    """Whether a sentence speaks of a woman."""
    return not {f"{noun}e" for noun in PROFESSIONS.values()}.isdisjoint(french.replace("'", " ").split())


def majority(shares: Sequence[float]) -> float:
    """From the share of women in each profession: the mean share of the gender that `WOMEN` makes more frequent, in
    percent."""
    pairs = zip(shares, WOMEN.values(), strict=True)
    return 100 * fmean(share if women > 0.5 else 1 - share for share, women in pairs)


def statements(verb: str = "") -> list[Statement]:
    """Every statement with this verb."""
    return [
        Statement(profession, adjective, adverb, verb)
        for profession in PROFESSIONS
        for adjective in ADJECTIVES
        for adverb in ADVERBS
    ]


def french_sentences() -> set[str]:
    """All sentences of the target language."""
    return {item.pair(gender).target for verb in VERBS for item in statements(verb) for gender in (MAN, WOMAN)}


def word_pairs(sentence: str) -> list[tuple[str, str]]:
    """Neighboring words, with the beginning and the end of the sentence."""
    return list(pairwise(["", *sentence.split(), ""]))


@cache
def french_word_pairs() -> frozenset[tuple[str, str]]:
    """All word pairs of the target language."""
    return frozenset(pair for sentence in french_sentences() for pair in word_pairs(sentence))


def fluency(answer: str) -> float:
    """The share of its word pairs that occur in the target language, in percent."""
    return 100 * fmean(pair in french_word_pairs() for pair in word_pairs(answer))


def nonsense(sources: list[str], random: Random) -> dict[str, list[str]]:
    """Sources that mean nothing, by kind: one syllable over and over, words in a random order, another script."""
    words = [source.split() for source in sources]
    return {
        "ag ag ag …": [" ".join(["ag"] * (2 + index % 20)) for index in range(len(sources))],
        "shuffled words": [" ".join(random.sample(sentence, len(sentence))) for sentence in words],
        "another script": [source.translate(str.maketrans(LATIN, CYRILLIC)) for source in sources],
    }
