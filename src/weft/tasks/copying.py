"""Copy, reverse and sort a sequence of letters: ``d a c`` → ``d a c``, ``c a d``, ``a c d``.

The three differ only in where the model must look: straight on, backwards, or by content. Letters are separated by
spaces, so that words and characters are both sensible units. Links are known and given: they say which source letter
each target letter is (of equal letters, `sort` keeps the order).
"""

from __future__ import annotations

from random import Random
from string import ascii_lowercase

from weft.data.pairs import Pair
from weft.tasks.options import check_whole


def copy(random: Random, *, length: int = 12, symbols: int = 26) -> Pair:
    """The sequence itself. 1 to `length` letters, all lengths equally often, out of the first `symbols` letters."""
    letters = _letters(random, length, symbols)
    return _arranged(letters, list(range(len(letters))))


def reverse(random: Random, *, length: int = 12, symbols: int = 26) -> Pair:
    """The sequence back to front."""
    letters = _letters(random, length, symbols)
    return _arranged(letters, list(reversed(range(len(letters)))))


def sort(random: Random, *, length: int = 12, symbols: int = 26) -> Pair:
    """The sequence in alphabetical order."""
    letters = _letters(random, length, symbols)
    return _arranged(letters, sorted(range(len(letters)), key=letters.__getitem__))


def _letters(random: Random, length: int, symbols: int) -> list[str]:
    check_whole("length", length, least=1, most=1000)
    check_whole("symbols", symbols, least=1, most=len(ascii_lowercase))
    return random.choices(ascii_lowercase[:symbols], k=random.randint(1, length))


def _arranged(letters: list[str], order: list[int]) -> Pair:
    """The pair whose target is the letters in this order of places."""
    links = tuple(sorted((place, at) for at, place in enumerate(order)))
    return Pair(" ".join(letters), " ".join(letters[place] for place in order), links)
