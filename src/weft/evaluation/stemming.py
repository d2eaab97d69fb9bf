"""The Porter stemmer: English words without their endings, *connected*, *connection* → *connect*.

Porter 1980, "An algorithm for suffix stripping", with the changes of NLTK's version, which the published values of
ROUGE were computed with: irregular forms; *ies* and *ied* after one letter become *ie*; *y* becomes *i* only after a
consonant; the endings *bli*, *fulli* and *logi*.

A word has the form [C](VC)^m[V], where C and V are runs of consonants and vowels; m, its measure, is roughly the number
of its syllables. Most endings are removed only if the measure of what is left is large enough.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

Condition = Callable[[str], bool]
"""A condition on the stem, the part before an ending."""
Rule = tuple[str, str, Condition]
"""An ending, what replaces it, and the condition under which it does."""

IRREGULAR = {
    **{word: word for word in ("sky", "news", "inning", "outing", "canning", "howe", "proceed", "exceed", "succeed")},
    **{"skies": "sky", "dying": "die", "lying": "lie", "tying": "tie"},
    **{"innings": "inning", "outings": "outing", "cannings": "canning"},
}


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The stem of a word in lower case."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _final_y(_past_and_progressive(_plural(word)))
    return _final_l(_final_e(_first_match(_first_match(_derived(word), ADJECTIVES), LONG_WORDS)))


def _letters(word: str) -> str:
    """``c`` for every consonant and ``v`` for every vowel; *y* is a vowel after a consonant."""
    kinds = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and kinds.endswith("c"))
        kinds += "v" if is_vowel else "c"
    return kinds


def _measure(stem: str) -> int:
    """m of [C](VC)^m[V]."""
    return _letters(stem).count("vc")


def _has_syllable(stem: str) -> bool:
    return _measure(stem) > 0


def _has_two_syllables(stem: str) -> bool:
    return _measure(stem) > 1


def _has_vowel(stem: str) -> bool:
    return "v" in _letters(stem)


def _is_short(stem: str) -> bool:
    """Whether it ends in consonant, vowel, consonant (not *w*, *x*, *y*), or is a vowel and a consonant."""
    kinds = _letters(stem)
    return (kinds.endswith("cvc") and stem[-1] not in "wxy") or kinds == "vc"


def _first_match(word: str, rules: list[Rule]) -> str:
    """The word by the first rule whose ending it has; unchanged if that rule's condition does not hold."""
    for ending, replacement, condition in rules:
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            return stem + replacement if condition(stem) else word
    return word


def _plural(word: str) -> str:
    """Step 1a: *caresses*, *ponies*, *cats*."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    return word[:-2] if word.endswith("sses") else word[:-1] if word.endswith("s") and word[-2:] != "ss" else word


def _past_and_progressive(word: str) -> str:
    """Step 1b: *agreed*, *plastered*, *motoring*; then the end of the stem is repaired: *hoping* → *hope*."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _has_syllable(word[:-3]) else word
    ending = next((ending for ending in ("ed", "ing") if word.endswith(ending)), None)
    if ending is None or not _has_vowel(word.removesuffix(ending)):
        return word
    word = word.removesuffix(ending)
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if len(word) > 1 and word[-1] == word[-2] and _letters(word)[-1] == "c":
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _is_short(word) else word


def _final_y(word: str) -> str:
    """Step 1c: *happy* → *happi*, not *enjoy*."""
    return word[:-1] + "i" if word.endswith("y") and len(word) > 2 and _letters(word)[-2] == "c" else word


def _derived(word: str) -> str:
    """Step 2: *relational* → *relate*."""
    if word.endswith("alli") and _has_syllable(word[:-4]):
        return _derived(word[:-2])
    return _first_match(word, NOUNS_AND_ADVERBS)


def _final_e(word: str) -> str:
    """Step 5a: *probate* → *probat*, not *rate*."""
    rest = word.removesuffix("e")
    drops = _measure(rest) > 1 or (_measure(rest) == 1 and not _is_short(rest))
    return rest if rest != word and drops else word


def _final_l(word: str) -> str:
    """Step 5b: *controll* → *control*."""
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


NOUNS_AND_ADVERBS: list[Rule] = [
    ("ational", "ate", _has_syllable),
    ("tional", "tion", _has_syllable),
    ("enci", "ence", _has_syllable),
    ("anci", "ance", _has_syllable),
    ("izer", "ize", _has_syllable),
    ("bli", "ble", _has_syllable),
    ("alli", "al", _has_syllable),
    ("entli", "ent", _has_syllable),
    ("eli", "e", _has_syllable),
    ("ousli", "ous", _has_syllable),
    ("ization", "ize", _has_syllable),
    ("ation", "ate", _has_syllable),
    ("ator", "ate", _has_syllable),
    ("alism", "al", _has_syllable),
    ("iveness", "ive", _has_syllable),
    ("fulness", "ful", _has_syllable),
    ("ousness", "ous", _has_syllable),
    ("aliti", "al", _has_syllable),
    ("iviti", "ive", _has_syllable),
    ("biliti", "ble", _has_syllable),
    ("fulli", "ful", _has_syllable),
    ("logi", "log", lambda stem: _has_syllable(stem + "l")),
]
"""Rules of step 2."""

ADJECTIVES: list[Rule] = [
    (ending, replacement, _has_syllable)
    for ending, replacement in (
        ("icate", "ic"),
        ("ative", ""),
        ("alize", "al"),
        ("iciti", "ic"),
        ("ical", "ic"),
        ("ful", ""),
        ("ness", ""),
    )
]
"""Rules of step 3."""

LONG_WORDS: list[Rule] = [
    *((ending, "", _has_two_syllables) for ending in ("al", "ance", "ence", "er", "ic", "able", "ible", "ant")),
    *((ending, "", _has_two_syllables) for ending in ("ement", "ment", "ent")),
    ("ion", "", lambda stem: _has_two_syllables(stem) and stem[-1] in "st"),
    *((ending, "", _has_two_syllables) for ending in ("ou", "ism", "ate", "iti", "ous", "ive", "ize")),
]
"""Rules of step 4, which remove the ending."""
