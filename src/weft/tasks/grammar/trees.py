"""What a sentence of the grammar is made of, before it has words: one tree stands for both languages.

`choices` draws trees at random, `sentences` says them in English and French. To get one particular sentence, build
its tree:

    Clause(PRONOUNS["he"], VERBS["hit with a pie"], "past", object=PRONOUNS["i"])     he hit me with a pie
"""

from __future__ import annotations

from typing import NamedTuple

from weft.tasks.grammar.lexicon import Adjective, Noun, Phrase, Preposition, Pronoun
from weft.tasks.grammar.verbs import Verb


class NounPhrase(NamedTuple):
    """A noun with its determiner, adjectives, owner (*of the king*) and relative clause.

    The determiner is the English one; an empty one is the generic article (*he loves bread*: *il aime le pain*).
    """

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    before: Adjective | None = None
    after: Adjective | None = None
    owner: NounPhrase | None = None
    relative: Clause | None = None


class Both(NamedTuple):
    """Two noun phrases joined by *and*."""

    first: NounPhrase
    second: NounPhrase


class Place(NamedTuple):
    """A prepositional phrase."""

    preposition: Preposition
    phrase: NounPhrase


Subject = NounPhrase | Pronoun | Both


class Clause(NamedTuple):
    """Somebody does something.

    `tense` is "present", "past" or the name of a helper (*can*, *going to*); `negation` is "", "not" or "never";
    `subject` or `object` is None in the relative clause whose head it is.
    """

    subject: Subject | None
    verb: Verb
    tense: str
    negation: str = ""
    adverb: Phrase | None = None
    object: NounPhrase | Pronoun | None = None
    recipient: NounPhrase | Pronoun | None = None
    places: tuple[Place, ...] = ()
    time: Phrase | None = None
    question: bool = False


class State(NamedTuple):
    """Somebody or something is such, feels so, or is somewhere; without a predicate, it is asked where."""

    subject: Subject
    past: bool
    predicate: Adjective | Phrase | Place | None
    negation: str = ""


class Existence(NamedTuple):
    """There is something somewhere."""

    phrase: NounPhrase
    past: bool
    place: Place


Statement = Clause | State | Existence | Phrase
