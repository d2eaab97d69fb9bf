"""Drawing clauses at random: what people and animals do.

Sense is a matter of tables (people read texts, animals drink milk: `verbs.OBJECTS`, `verbs.PREY`) and of a few rules:
nobody sees himself; *tomorrow* is not the past; nobody wants to fall.
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
    company,
    goal,
    lack,
    location,
    noun_phrase,
    own,
    person,
    pick,
    time,
)
from weft.tasks.grammar.sentences import agreement
from weft.tasks.grammar.trees import Clause, NounPhrase, Place, Subject
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
_HELPERS = ("going to", "want to", "can", "must")
_ADVERBS = tuple(ADVERBS.values())
INDEFINITE = frozenset(("a", "some", "many", "two", "three"))


def tense_of(random: Random, verb: Verb, subject: Subject, past: bool) -> str:
    """A tense the verb has, given the subject, in a sentence about the past or the present."""
    draw = random.random()
    if verb.base in STATIC:
        return "past" if past else "present"
    if verb.base in _UNWILLED:
        return "past" if past else "present" if draw < 0.7 else "going to"
    if past:
        return "past" if draw < 0.85 else "wanted to"
    if draw < 0.33:
        return pick(random, _HELPERS)
    if verb.base == verb.past:  # "they hit" would be read as the past
        return "present" if agreement(subject).person == 1 else pick(random, _HELPERS)
    return "present"


def manner(random: Random, verb: Verb, tense: str) -> tuple[str, Phrase | None]:
    """A negation or an adverb, or neither."""
    draw = random.random()
    if draw < 0.2:
        return "not", None
    if verb.base in STATIC or tense not in ("past", "present"):
        return "", None
    if draw < 0.26:
        return "never", None
    return "", pick(random, _ADVERBS) if draw < 0.36 and tense == "present" else None


def somebody(random: Random, subject: Subject, growth: float, *, negated: bool = False) -> NounPhrase | Pronoun:
    """A person as an object; not a pronoun for the subject itself, and definite under negation."""
    if random.random() < 0.5:
        phrase = person(random, growth)
        if not isinstance(subject, NounPhrase) or phrase.noun is not subject.noun:
            return phrase._replace(determiner="the") if negated and phrase.determiner in INDEFINITE else phrase
    first = isinstance(subject, Pronoun) and subject.person in (0, 2)
    return pick(random, OTHERS if first else SUBJECTS)


def action(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """People do something to somebody or something."""
    name = pick(random, _PAST_ACTIONS if past else _ACTIONS)
    verb = VERBS[name]
    tense = tense_of(random, verb, subject, past)
    negation, adverb = manner(random, verb, tense)
    noun = pick(random, OBJECTS[name])
    what: NounPhrase | Pronoun
    if noun.kind in SOMEBODY:
        what = somebody(random, subject, growth, negated=negation != "")
    elif name == "love" and noun.kind != "animal":
        what = NounPhrase(noun, "", plural=noun.plural != "")
    else:
        what = noun_phrase(random, noun, growth, negated=negation != "", bare=name == "love", gone=tense == "past")
        if what.relative is not None and what.relative.verb is verb:
            what = what._replace(relative=None)
        if name == "have" and what.determiner != "any":
            what = what._replace(determiner=("some" if what.plural else "a"), owner=None)
            if negation and what.plural:
                what = what._replace(determiner="any")
    places: tuple[Place, ...] = ()
    when = None
    closed = isinstance(what, NounPhrase) and what.relative is not None  # the rest would belong to that clause
    extra = 1.0 if closed else random.random()
    if verb.base in _PLACED and extra < 0.15 * growth:
        places = (location(random, growth),)
    elif verb.base not in STATIC and negation != "never" and adverb is None and extra < 0.3 * growth:
        when = time(random, tense)
    return Clause(subject, verb, tense, negation, adverb, what, None, places, when)


def attack(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """Somebody hits somebody, most often with a pie."""
    pie = random.random() < 0.65
    verb = VERBS[PIE if pie else "hit"]
    tense = tense_of(random, verb, subject, past)
    negation, adverb = manner(random, verb, tense)
    victim = somebody(random, subject, growth, negated=negation != "")
    if isinstance(victim, NounPhrase) and victim.relative is not None:
        victim = victim._replace(relative=None)
    weapon = NounPhrase(pick(random, WEAPONS), "a" if random.random() < 0.5 else own(subject))
    places = () if pie else (Place(PREPOSITIONS["with"], weapon),)
    when = time(random, tense) if not negation and adverb is None and random.random() < 0.12 * growth else None
    return Clause(subject, verb, tense, negation, adverb, victim, None, places, when)


def gift(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """Somebody gives something to somebody, or speaks to somebody."""
    to = somebody(random, subject, growth * 0.5)
    if random.random() < 0.3:
        verb = VERBS["speak"]
        tense = tense_of(random, verb, subject, past)
        negation, adverb = manner(random, verb, tense)
        return Clause(subject, verb, tense, negation, adverb, None, to)
    name = pick(random, _GIVING)
    verb = VERBS[name]
    tense = tense_of(random, verb, subject, past)
    negation, adverb = manner(random, verb, tense)
    what = noun_phrase(random, pick(random, OBJECTS[name]), growth * 0.7, negated=negation != "", plain=True)
    return Clause(subject, verb, tense, negation, adverb, what, to)


def activity(random: Random, subject: Subject, past: bool, growth: float, verb: Verb | None = None) -> Clause:
    """Somebody sleeps, dances, runs."""
    verb = verb or pick(random, _DOING)
    tense = tense_of(random, verb, subject, past)
    negation, adverb = manner(random, verb, tense)
    extra = random.random()
    places: tuple[Place, ...] = ()
    when = None
    if extra < 0.4 * growth:
        is_animal = isinstance(subject, NounPhrase) and subject.noun.kind == "animal"
        where = location(random, growth, wild=is_animal)
        if verb.base == "run" and where.preposition.english == "at":
            where = where._replace(preposition=PREPOSITIONS["near"])
        places = (where,)
    elif extra < 0.5 * growth and verb.base != "sleep":
        places = (company(random),)
    elif extra < 0.7 * growth and negation != "never" and adverb is None:
        when = time(random, tense)
    return Clause(subject, verb, tense, negation, adverb, places=places, time=when)


def movement(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """Somebody goes, comes, leaves."""
    verb = pick(random, _MOVING)
    tense = tense_of(random, verb, subject, past)
    if verb.base == "go" and tense == "going to":
        tense = "must"
    negation, adverb = manner(random, verb, tense)
    places: tuple[Place, ...] = ()
    extra = random.random()
    if verb.base == "go" or (verb.base == "come" and extra < 0.5):
        places = (goal(random, growth),)
    elif verb.base == "stay" or (verb.base in ("arrive", "fall") and extra < 0.6 * growth):
        places = (goal(random, growth, "in front of" if verb.base == "fall" else "at"),)
    if extra > 1 - 0.25 * growth and verb.base != "fall":
        places = (*places, company(random) if random.random() < 0.5 else lack(random, subject))
    when = None
    if negation != "never" and adverb is None and random.random() < 0.25 * growth:
        when = time(random, tense)
    return Clause(subject, verb, tense, negation, adverb, places=places, time=when)


def hunt(random: Random, subject: NounPhrase, past: bool, growth: float) -> Clause:
    """An animal does something."""
    if random.random() < 0.35:
        return activity(random, subject, past, growth * 0.7, pick(random, ANIMAL_DOING))
    name = pick(random, _PREY)
    verb = VERBS[name]
    tense = tense_of(random, verb, subject, past)
    negation, adverb = manner(random, verb, tense)
    noun = pick(random, PREY[name])
    what: NounPhrase | Pronoun = noun_phrase(random, noun, growth * 0.6, negated=negation != "")
    if noun.kind in SOMEBODY or noun is subject.noun:
        what = somebody(random, subject, growth, negated=negation != "")
    return Clause(subject, verb, tense, negation, adverb, what)


def deed(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """What people do."""
    kind = random.random()
    if kind < 0.58:
        return action(random, subject, past, growth)
    if kind < 0.65:
        return attack(random, subject, past, growth)
    if kind < 0.74:
        return gift(random, subject, past, growth)
    return activity(random, subject, past, growth) if kind < 0.86 else movement(random, subject, past, growth)
