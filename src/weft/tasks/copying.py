"""Copy, reverse and sort a sequence of letters: ``d a c`` → ``d a c``, ``c a d``, ``a c d``.

The three differ only in the alignment that the model must learn: monotonic, reversed, or by content. Letters are
separated by spaces, so that words and characters are both sensible units. Gold links map each target letter to its
source letter (`sort` is stable).
"""

from __future__ import annotations

from random import Random
from string import ascii_lowercase

from weft.data.pairs import Pair
from weft.tasks.options import check_integer


def copy(random: Random, *, length: int = 12, symbols: int = 26) -> Pair:
    """The sequence itself: 1 to `length` letters, each length equally likely, from the first `symbols` letters."""
    letters = _letters(random, length, symbols)
    return _permuted(letters, list(range(len(letters))))


def reverse(random: Random, *, length: int = 12, symbols: int = 26) -> Pair:
    """The sequence in reverse order."""
    letters = _letters(random, length, symbols)
    return _permuted(letters, list(reversed(range(len(letters)))))


def sort(random: Random, *, length: int = 12, symbols: int = 26) -> Pair:
    """The sequence in alphabetical order."""
    letters = _letters(random, length, symbols)
    return _permuted(letters, sorted(range(len(letters)), key=letters.__getitem__))


def _letters(random: Random, length: int, symbols: int) -> list[str]:
    check_integer("length", length, minimum=1, maximum=1000)
    check_integer("symbols", symbols, minimum=1, maximum=len(ascii_lowercase))
    return random.choices(ascii_lowercase[:symbols], k=random.randint(1, length))


def _permuted(letters: list[str], order: list[int]) -> Pair:
    """The pair whose target is the letters in this order."""
    links = tuple(sorted((source, target) for target, source in enumerate(order)))
    return Pair(" ".join(letters), " ".join(letters[index] for index in order), links)
