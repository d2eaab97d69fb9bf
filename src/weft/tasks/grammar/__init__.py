"""The corpus *grammar*: English and French sentence pairs with gold word links, from a hand-written grammar.

    he hit me with a pie  →  il m'a entarté        links 0-0 1-2 1-3 2-1 3-3 4-3 5-3

A synchronous grammar draws a tree (`statements`, `clauses`, `phrases`) and realizes it in both languages together
(`realization`, `french`), with the words of `lexicon` and `verbs`. There are far more than ten million pairs; sentences
are lowercase and without a full stop.

**The French is a function of the English**, so exact match is a fair metric. *they* is *ils*, *friend* is *ami*, the
speaker is a man, English says of every profession whether it is a woman's or a man's (*actress*, *female soldier*; as
many women as men), *hit* and *read* without an s are the past, *it* refers only to the object of the clause before and
to the weather, and *you* is left out.

**Covered.** Agreement of articles, adjectives and participles (with *être*, and with a direct object that precedes:
*les pommes qu'il a mangées*); adjectives before and after the noun (*un bel oiseau noir*); elision and contraction,
mute and aspirated h; clitic objects (*il ne m'a pas vu*, *elle veut lui parler*); *ne … pas*, *ne … jamais*, and the
*de* they ask for; present, passé composé, imparfait of *être*, *avoir* and *vouloir*, near future, *want to*, *can*,
*must*; partitives; possessives (*son horloge*); relative clauses with *qui* and *que*; questions; coordination,
*because*, *when*, *while*; and words that translate together: *hit … with a pie* is *entarter*, *wait for* is
*attendre*.

**Links**, zero-based (English word, French word), follow what a human annotator would draw:

- an article links to the article, and *of the* both to *du*; the French generic article (*he loves bread*: *le pain*)
  has no link; *some* links to both words of *de la*, *many* to *beaucoup* and *de*;
- a past verb links to auxiliary and participle (*ate*: *a*, *mangé*); in *did not eat*, *did* links to the auxiliary
  and *eat* to the participle; *do* and *does* in a negation link to nothing; in a question they, and *did*, link
  to *est-ce que*, and *did* to the auxiliary too;
- both words of *female nurse* to *infirmière*;
- *not* and *never* link to *ne* and to *pas* or *jamais*; *cannot* to those and the verb;
- *to* before an infinitive links to the infinitive; the words of *is going to* before it to *va*;
- every word of *hit … with a pie* links to *entarté*, *hit* to the auxiliary too; *for* of *wait for* to the verb;
- *to me* links to the clitic *me*; *there* of *there is* to *il* and *y*; every word of *in front of* to *devant*.

**Known limits.** No *you*, no *elles*, no plural *it*; no futur simple, no plus-que-parfait, no passive; one French
sentence an English one, where a translator would know several; a long sentence is a chain of clauses that need not
tell one story.
"""

from __future__ import annotations

from random import Random

from weft.data.pairs import Pair
from weft.errors import DataError
from weft.tasks.grammar import statements
from weft.tasks.grammar.constituents import BracketedWords
from weft.tasks.grammar.french import Token
from weft.tasks.grammar.realization import finish_pair, pair, realize
from weft.tasks.grammar.trees import Statement

__all__ = ["LONGEST", "SHORTEST", "pair", "parsed", "sample"]

SHORTEST, LONGEST = 3, 60
_SHORTEST_CONTINUATION = 4  # "and he is tired"
_SUBORDINATING = ("because", "when", "while")


def sample(random: Random, *, min_words: int = 3, max_words: int = 16) -> Pair:
    """A sentence pair with its links; the bounds count English words, 3 to 60."""
    english: list[str] = []
    return finish_pair(english, _sentence(random, english, min_words, max_words))


def parsed(random: Random, *, min_words: int = 3, max_words: int = 16) -> Pair:
    """An English sentence and its tree; the bounds count words, 3 to 60."""
    english = BracketedWords()
    _sentence(random, english, min_words, max_words)
    return Pair(" ".join(english), english.tree())


def _sentence(random: Random, english: list[str], min_words: int, max_words: int) -> list[Token]:
    """Append the words of a sentence; the French tokens, not yet elided.

    Statements are added until the sentence has the length drawn for it; one that would make it too long, or leave too
    few words for another, is discarded and drawn again.
    """
    if not SHORTEST <= min_words <= max_words <= LONGEST:
        raise DataError(
            f"grammar: sentences of {min_words} to {max_words} words requested; "
            f"allowed are {SHORTEST} <= min_words <= max_words <= {LONGEST}"
        )
    draw = random.random
    length = min_words + int((max_words - min_words + 1) * draw() ** 3)
    growth = min(1.5, 0.4 + length / 12)
    past = draw() < 0.5
    tokens: list[Token] = []
    previous: Statement | None = None
    subordinate = True
    if draw() < 0.08:
        tokens = realize(english, statements.question(random, growth))
        if min_words <= len(english) <= max_words:
            return tokens
        english.clear()
        tokens.clear()
    enough = max(min_words, min(length, max_words - _SHORTEST_CONTINUATION + 1))
    while len(english) < enough:
        start = len(english)
        if previous is None:
            trees = [statements.statement(random, past, growth)]
        else:
            trees = statements.continuation(random, previous, past, growth, subordinate=subordinate)
        added = [token for tree in trees for token in realize(english, tree)]
        if len(english) > max_words - _SHORTEST_CONTINUATION and not min_words <= len(english) <= max_words:
            del english[start:]
            continue
        subordinate = english[start] not in _SUBORDINATING
        tokens += added
        previous = trees[-1]
    return tokens
