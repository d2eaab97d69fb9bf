"""Drawing clauses at random: with transitive, ditransitive, intransitive and motion verbs.

Selectional preferences are tables (people read texts, animals drink milk: `verbs.OBJECTS`, `verbs.PREY`) and a few
rules: objects are not reflexive; *tomorrow* is not the past; nobody wants to fall.
"""

from __future__ import annotations

from random import Random

from weft.tasks.grammar.lexicon import (
    ADVERBS,
    PREPOSITIONS,
    SOMEBODY,
    Phrase,
    Pronoun,
)
from weft.tasks.grammar.phrases import (
    ANIMAL_DOING,
    OTHERS,
    SUBJECTS,
    comitative,
    destination,
    location,
    noun_phrase,
    person,
    pick,
    possessive_for,
    privative,
    time_expression,
)
from weft.tasks.grammar.realization import agreement
from weft.tasks.grammar.trees import Clause, NounPhrase, PrepositionalPhrase, Subject
from weft.tasks.grammar.verbs import DOING, GIVING, MOVING, OBJECTS, PIE, PREY, VERBS, WEAPONS, Verb

_GIVING, _DOING, _MOVING = tuple(GIVING), tuple(DOING.values()), tuple(MOVING.values())
# A verb with few objects is drawn twice as often, so that these objects are not rare.
_ACTIONS = tuple(
    name
    for name, nouns in OBJECTS.items()
    if name not in GIVING and name not in (PIE, "hit")
    for _ in range(2 if len(nouns) < 10 else 1)
)
_PAST_ACTIONS = tuple(name for name in _ACTIONS if VERBS[name].past)
_PREY = tuple(PREY)
STATIC = frozenset(("love", "know", "have"))
_UNWILLED = frozenset(("arrive", "fall", "lose"))  # nobody wants to fall
_PLACED = frozenset(
    ("see", "find", "kiss", "meet", "wait", "look", "eat", "drink", "buy", "sell", "lose", "read", "hide")
)
_AUXILIARIES = ("going to", "want to", "can", "must")
_ADVERBS = tuple(ADVERBS.values())
INDEFINITE = frozenset(("a", "some", "many", "two", "three"))


def draw_tense(random: Random, verb: Verb, subject: Subject, past: bool) -> str:
    """A tense that the verb has with this subject, in a sentence about the past or the present."""
    draw = random.random()
    if verb.base in STATIC:
        return "past" if past else "present"
    if verb.base in _UNWILLED:
        return "past" if past else "present" if draw < 0.7 else "going to"
    if past:
        return "past" if draw < 0.85 else "wanted to"
    if draw < 0.33:
        return pick(random, _AUXILIARIES)
    if verb.base == verb.past:  # "they hit" would be read as the past
        return "present" if agreement(subject).person == 1 else pick(random, _AUXILIARIES)
    return "present"


def negation_or_adverb(random: Random, verb: Verb, tense: str) -> tuple[str, Phrase | None]:
    """A negation or an adverb, or neither."""
    draw = random.random()
    if draw < 0.2:
        return "not", None
    if verb.base in STATIC or tense not in ("past", "present"):
        return "", None
    if draw < 0.26:
        return "never", None
    return "", pick(random, _ADVERBS) if draw < 0.36 and tense == "present" else None


def personal_object(random: Random, subject: Subject, growth: float, *, negated: bool = False) -> NounPhrase | Pronoun:
    """A noun phrase or pronoun for a person as object; not reflexive, and definite under negation."""
    if random.random() < 0.5:
        phrase = person(random, growth)
        if not isinstance(subject, NounPhrase) or phrase.noun is not subject.noun:
            return phrase._replace(determiner="the") if negated and phrase.determiner in INDEFINITE else phrase
    first = isinstance(subject, Pronoun) and subject.person in (0, 2)
    return pick(random, OTHERS if first else SUBJECTS)


def transitive_clause(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """A transitive verb with its object, perhaps a place or a time."""
    name = pick(random, _PAST_ACTIONS if past else _ACTIONS)
    verb = VERBS[name]
    tense = draw_tense(random, verb, subject, past)
    negation, adverb = negation_or_adverb(random, verb, tense)
    noun = pick(random, OBJECTS[name])
    thing: NounPhrase | Pronoun
    if noun.kind in SOMEBODY:
        thing = personal_object(random, subject, growth, negated=negation != "")
    elif name == "love" and noun.kind != "animal":
        thing = NounPhrase(noun, "", plural=noun.plural != "")
    else:
        thing = noun_phrase(
            random,
            noun,
            growth,
            negated=negation != "",
            without="adjectives" if name == "love" else "",
            consumed=tense == "past",
        )
        if thing.relative is not None and thing.relative.verb is verb:
            thing = thing._replace(relative=None)
        if name == "have" and thing.determiner != "any":
            thing = thing._replace(determiner=("some" if thing.plural else "a"), possessor=None)
            if negation and thing.plural:
                thing = thing._replace(determiner="any")
    adjuncts: tuple[PrepositionalPhrase, ...] = ()
    when = None
    closed = isinstance(thing, NounPhrase) and thing.relative is not None  # the rest would belong to that clause
    extra = 1.0 if closed else random.random()
    if verb.base in _PLACED and extra < 0.15 * growth:
        adjuncts = (location(random, growth),)
    elif verb.base not in STATIC and negation != "never" and adverb is None and extra < 0.3 * growth:
        when = time_expression(random, tense)
    return Clause(subject, verb, tense, negation, adverb, thing, None, adjuncts, when)


def hitting_clause(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """*Hit* with a person as object, most often *with a pie*."""
    pie = random.random() < 0.65
    verb = VERBS[PIE if pie else "hit"]
    tense = draw_tense(random, verb, subject, past)
    negation, adverb = negation_or_adverb(random, verb, tense)
    victim = personal_object(random, subject, growth, negated=negation != "")
    if isinstance(victim, NounPhrase) and victim.relative is not None:
        victim = victim._replace(relative=None)
    weapon = NounPhrase(pick(random, WEAPONS), "a" if random.random() < 0.5 else possessive_for(subject))
    adjuncts = () if pie else (PrepositionalPhrase(PREPOSITIONS["with"], weapon),)
    when = (
        time_expression(random, tense) if not negation and adverb is None and random.random() < 0.12 * growth else None
    )
    return Clause(subject, verb, tense, negation, adverb, victim, None, adjuncts, when)


def dative_clause(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """A verb with a recipient: *give*, *show*, *bring* with an object, or *speak to*."""
    to = personal_object(random, subject, growth * 0.5)
    if random.random() < 0.3:
        verb = VERBS["speak"]
        tense = draw_tense(random, verb, subject, past)
        negation, adverb = negation_or_adverb(random, verb, tense)
        return Clause(subject, verb, tense, negation, adverb, None, to)
    name = pick(random, _GIVING)
    verb = VERBS[name]
    tense = draw_tense(random, verb, subject, past)
    negation, adverb = negation_or_adverb(random, verb, tense)
    thing = noun_phrase(
        random, pick(random, OBJECTS[name]), growth * 0.7, negated=negation != "", without="complements"
    )
    return Clause(subject, verb, tense, negation, adverb, thing, to)


def intransitive_clause(
    random: Random, subject: Subject, past: bool, growth: float, verb: Verb | None = None
) -> Clause:
    """An intransitive verb: *sleep*, *dance*, *run*."""
    verb = verb or pick(random, _DOING)
    tense = draw_tense(random, verb, subject, past)
    negation, adverb = negation_or_adverb(random, verb, tense)
    extra = random.random()
    adjuncts: tuple[PrepositionalPhrase, ...] = ()
    when = None
    if extra < 0.4 * growth:
        is_animal = isinstance(subject, NounPhrase) and subject.noun.kind == "animal"
        where = location(random, growth, wild=is_animal)
        if verb.base == "run" and where.preposition.english == "at":
            where = where._replace(preposition=PREPOSITIONS["near"])
        adjuncts = (where,)
    elif extra < 0.5 * growth and verb.base != "sleep":
        adjuncts = (comitative(random),)
    elif extra < 0.7 * growth and negation != "never" and adverb is None:
        when = time_expression(random, tense)
    return Clause(subject, verb, tense, negation, adverb, adjuncts=adjuncts, time=when)


def motion_clause(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """A verb of motion: *go*, *come*, *leave*."""
    verb = pick(random, _MOVING)
    tense = draw_tense(random, verb, subject, past)
    if verb.base == "go" and tense == "going to":
        tense = "must"
    negation, adverb = negation_or_adverb(random, verb, tense)
    adjuncts: tuple[PrepositionalPhrase, ...] = ()
    extra = random.random()
    if verb.base == "go" or (verb.base == "come" and extra < 0.5):
        adjuncts = (destination(random, growth),)
    elif verb.base == "stay" or (verb.base in ("arrive", "fall") and extra < 0.6 * growth):
        adjuncts = (destination(random, growth, "in front of" if verb.base == "fall" else "at"),)
    if extra > 1 - 0.25 * growth and verb.base != "fall":
        adjuncts = (*adjuncts, comitative(random) if random.random() < 0.5 else privative(random, subject))
    when = None
    if negation != "never" and adverb is None and random.random() < 0.25 * growth:
        when = time_expression(random, tense)
    return Clause(subject, verb, tense, negation, adverb, adjuncts=adjuncts, time=when)


def animal_clause(random: Random, subject: NounPhrase, past: bool, growth: float) -> Clause:
    """A clause with an animal as subject."""
    if random.random() < 0.35:
        return intransitive_clause(random, subject, past, growth * 0.7, pick(random, ANIMAL_DOING))
    name = pick(random, _PREY)
    verb = VERBS[name]
    tense = draw_tense(random, verb, subject, past)
    negation, adverb = negation_or_adverb(random, verb, tense)
    noun = pick(random, PREY[name])
    thing: NounPhrase | Pronoun = noun_phrase(random, noun, growth * 0.6, negated=negation != "")
    if noun.kind in SOMEBODY or noun is subject.noun:
        thing = personal_object(random, subject, growth, negated=negation != "")
    return Clause(subject, verb, tense, negation, adverb, thing)


def human_clause(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """A clause with a human subject, of any kind of verb."""
    kind = random.random()
    if kind < 0.58:
        return transitive_clause(random, subject, past, growth)
    if kind < 0.65:
        return hitting_clause(random, subject, past, growth)
    if kind < 0.74:
        return dative_clause(random, subject, past, growth)
    return (
        intransitive_clause(random, subject, past, growth)
        if kind < 0.86
        else motion_clause(random, subject, past, growth)
    )
