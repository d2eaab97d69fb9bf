"""Adding two numbers written as characters: ``535+61`` → ``596`` (Sutskever et al. 2014 made such tasks a yardstick).

The target is the plain sum, most significant digit first: carries run against the direction of writing.
"""

from __future__ import annotations

from random import Random

from weft.data.pairs import Pair
from weft.tasks.options import check_integer


def sample(random: Random, *, digits: int = 3) -> Pair:
    """A sum of two numbers of 1 to `digits` digits.

    The number of digits is drawn first, uniformly and for each number separately, then a number of that many digits:
    short numbers would otherwise hardly ever occur (one number below 1000 in a hundred has one digit). 0 has one digit.
    """
    check_integer("digits", digits, minimum=1, maximum=100)
    left, right = _number(random, digits), _number(random, digits)
    return Pair(f"{left}+{right}", str(left + right))


def _number(random: Random, digits: int) -> int:
    length = random.randint(1, digits)
    return random.randrange(10 ** (length - 1) if length > 1 else 0, 10**length)
