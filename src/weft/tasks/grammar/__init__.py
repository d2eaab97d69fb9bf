"""The corpus *grammar*."""

from __future__ import annotations

from random import Random

from weft.data.pairs import Pair
from weft.errors import DataError
from weft.tasks.grammar import choices
from weft.tasks.grammar.french import Token
from weft.tasks.grammar.sentences import finish, pair, say_statement
from weft.tasks.grammar.trees import Statement

__all__ = ["LONGEST", "SHORTEST", "pair", "sample"]

SHORTEST, LONGEST = 3, 60
_SHORTEST_CONTINUATION = 4  # "and he is tired"
_SUBORDINATING = ("because", "when", "while")


def sample(random: Random, *, min_words: int = 3, max_words: int = 16) -> Pair:
    """A sentence pair with its links; the bounds count English words, 3 to 60."""
    if not SHORTEST <= min_words <= max_words <= LONGEST:
        raise DataError(
            f"grammar: sentences of {min_words} to {max_words} words asked for; "
            f"allowed are {SHORTEST} <= min_words <= max_words <= {LONGEST}"
        )
    draw = random.random
    wanted = min_words + int((max_words - min_words + 1) * draw() ** 2.5)
    growth = min(1.5, 0.4 + wanted / 12)
    past = draw() < 0.5
    english: list[str] = []
    tokens: list[Token] = []
    previous: Statement | None = None
    subordinate = True
    if draw() < 0.08:
        tokens = say_statement(english, choices.question(random, growth))
        if min_words <= len(english) <= max_words:
            return finish(english, tokens)
        english.clear()
        tokens.clear()
    enough = max(min_words, min(wanted, max_words - _SHORTEST_CONTINUATION + 1))
    while len(english) < enough:
        start = len(english)
        if previous is None:
            trees = [choices.statement(random, past, growth)]
        else:
            trees = choices.continuation(random, previous, past, growth, subordinate=subordinate)
        said = [token for tree in trees for token in say_statement(english, tree)]
        if len(english) > max_words - _SHORTEST_CONTINUATION and not min_words <= len(english) <= max_words:
            del english[start:]
            continue
        subordinate = english[start] not in _SUBORDINATING
        tokens += said
        previous = trees[-1]
    return finish(english, tokens)
