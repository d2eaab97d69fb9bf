"""Abstract syntax trees: one tree stands for the sentence in both languages.

`statements` draws trees at random, `realization` turns them into English and French. To get one particular sentence,
build its tree:

    Clause(PRONOUNS["he"], VERBS["hit with a pie"], "past", object=PRONOUNS["i"])     he hit me with a pie
"""

from __future__ import annotations

from typing import NamedTuple

from weft.tasks.grammar.lexicon import Adjective, Noun, Phrase, Preposition, Pronoun
from weft.tasks.grammar.verbs import Verb


class NounPhrase(NamedTuple):
    """A noun with its determiner, adjectives, possessor (*of the king*) and relative clause.

    The determiner is the English one; an empty one is the generic article (*he loves bread*: *il aime le pain*).
    """

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    before: Adjective | None = None
    after: Adjective | None = None
    possessor: NounPhrase | None = None
    relative: Clause | None = None


class Coordination(NamedTuple):
    """Two noun phrases joined by *and*."""

    first: NounPhrase
    second: NounPhrase


class PrepositionalPhrase(NamedTuple):
    """A prepositional phrase."""

    preposition: Preposition
    phrase: NounPhrase


Subject = NounPhrase | Pronoun | Coordination


class Clause(NamedTuple):
    """A clause with a lexical verb.

    `tense` is "present", "past" or the name of an auxiliary (*can*, *going to*); `negation` is "", "not" or "never";
    `subject` or `object` is None in a relative clause whose antecedent it is.
    """

    subject: Subject | None
    verb: Verb
    tense: str
    negation: str = ""
    adverb: Phrase | None = None
    object: NounPhrase | Pronoun | None = None
    recipient: NounPhrase | Pronoun | None = None
    adjuncts: tuple[PrepositionalPhrase, ...] = ()
    time: Phrase | None = None
    question: bool = False


class CopularClause(NamedTuple):
    """A clause with *be* and a predicate; without a predicate, a question: *where is the king*."""

    subject: Subject
    past: bool
    predicate: Adjective | Phrase | PrepositionalPhrase | None
    negation: str = ""


class ExistentialClause(NamedTuple):
    """*There is* a noun phrase somewhere."""

    phrase: NounPhrase
    past: bool
    location: PrepositionalPhrase


Statement = Clause | CopularClause | ExistentialClause | Phrase
