"""Drawing noun phrases, prepositional phrases and time expressions at random.

`growth` scales the probability of an adjective, a possessor or a relative clause in a noun phrase: near 1 in a
sentence of ten words.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from weft.tasks.grammar.lexicon import (
    AFTER,
    ANIMALS,
    BEFORE,
    BUILDINGS,
    COLORS,
    CONTAINERS,
    KIN,
    NOUNS,
    OUTDOORS,
    PEOPLE,
    PREPOSITIONS,
    PRONOUNS,
    ROOMS,
    SOMEBODY,
    SUPPORTS,
    TIMES,
    Noun,
    Phrase,
    Pronoun,
)
from weft.tasks.grammar.realization import agreement
from weft.tasks.grammar.trees import Clause, Coordination, NounPhrase, PrepositionalPhrase, Subject
from weft.tasks.grammar.verbs import DOING, OBJECTS, PREY, VERBS, Verb

Item = TypeVar("Item")

# Determiners by kind of noun, as often as they stand here: singular, plural.
POSSESSIVES = ("my", "his", "her", "our", "their")
SINGULAR = {
    "person": ("the", "the", "the", "a", "a", "this"),
    "child": ("the", "the", "the", "a", "a", "this"),
    "kin": POSSESSIVES,
    "mass": ("the",) * 4 + ("some",) * 4 + POSSESSIVES,
    "support": ("the", "the", "the", "a", *POSSESSIVES),
    "place": ("the", "the", "the", "the", "the", "a", "this"),
}
PLURAL = {
    "person": ("the", "the", "the", "some", "two", "three", "these", "many"),
    "child": ("the", "the", "the", "some", "two", "three", "these", "many"),
    "kin": POSSESSIVES,
}
ANY_SINGULAR = ("the", "the", "the", "a", "a", "a", "this", *POSSESSIVES)
ANY_PLURAL = ("the", "the", "the", "some", "some", "two", "three", "many", "these", *POSSESSIVES)
DENIED = {"some": "any", "many": "any", "two": "any", "three": "any"}
DEFINITE = frozenset({"the", "these"})
OPEN_TO_RELATIVE = frozenset({"the", "a", "some", "two", "three", "many", "these"})

SUBJECTS = tuple(PRONOUNS[name] for name in ("i", "he", "she", "we", "they"))
_ACTORS = (*SUBJECTS, PRONOUNS["i"], PRONOUNS["we"])
ONE = tuple(PRONOUNS[name] for name in ("i", "he", "she", "we"))  # not *they*, which might be *elles*
OTHERS = tuple(PRONOUNS[name] for name in ("he", "she", "they"))
EVERYBODY = PEOPLE + KIN
OWN = {"i": "my", "he": "his", "she": "her", "we": "our", "they": "their"}
CLOTHES = tuple(NOUNS[name] for name in ("hat", "umbrella", "coat", "bag", "key"))

_LARGE = frozenset(("box", "bag", "chair", "umbrella", "axe"))
INSIDE = ROOMS + OUTDOORS + tuple(NOUNS[name] for name in ("school", "church", "hotel", "hospital", "castle"))
WILD = (*OUTDOORS, NOUNS["garden"])
FACING = (*BUILDINGS, NOUNS["house"])
WHEN = {
    "past": tuple(TIMES[name] for name in ("yesterday", "this morning", "today")),
    "wanted to": tuple(TIMES[name] for name in ("yesterday", "this morning")),
    "present": tuple(TIMES[name] for name in ("every day", "every day", "today")),
}
LATER = tuple(TIMES[name] for name in ("tomorrow", "this evening", "today"))
# Which verbs a relative clause may say of a noun (*the hat that he bought*); a verb with few objects counts more, so
# that every participle is met in all its forms.
_UNSAID = ("have", "give", "show", "bring")
VERBS_OF_CONSUMED = {
    noun.english: tuple(
        VERBS[name]
        for name, nouns in OBJECTS.items()
        if noun in nouns and name not in _UNSAID
        for _ in range(max(1, 70 // len(nouns)))
    )
    for noun in NOUNS.values()
}
VERBS_OF = {
    name: tuple(verb for verb in verbs if verb.base not in ("eat", "drink"))
    for name, verbs in VERBS_OF_CONSUMED.items()
}
_DOING = tuple(DOING.values())
_DEEDS = tuple(name for name in OBJECTS if VERBS[name].past and name not in _UNSAID)
_PREY = tuple(PREY)
ANIMAL_DOING = (DOING["sleep"], DOING["run"])


def pick(random: Random, items: Sequence[Item]) -> Item:
    """One of the items; faster than `random.choice`."""
    return items[int(random.random() * len(items))]


def noun_phrase(
    random: Random,
    noun: Noun,
    growth: float,
    *,
    negated: bool = False,
    without: str = "",
    consumed: bool = False,
) -> NounPhrase:
    """A phrase around a noun: `negated` as the object of a negated verb; without "complements" (relative clause or
    possessor) or "adjectives"; `consumed` if it may have been eaten by now."""
    draw, kind = random.random, noun.kind
    plural = noun.plural != "" and draw() < 0.4
    determiner = pick(random, PLURAL.get(kind, ANY_PLURAL) if plural else SINGULAR.get(kind, ANY_SINGULAR))
    if negated:
        determiner = DENIED.get(determiner, determiner)
    before = after = possessor = relative = None
    if without != "adjectives" and draw() < 0.3 * growth:
        if AFTER[kind] and draw() < 0.55:
            after = pick(random, AFTER[kind])
        if BEFORE[kind] and (after is None or (after.english in COLORS and draw() < 0.3)):
            before = pick(random, BEFORE[kind])
    if without != "complements" and kind not in ("place", "support") and draw() < (0.42 if plural else 0.22) * growth:
        if determiner in (DEFINITE if negated else OPEN_TO_RELATIVE) and draw() < 0.75:
            relative = relative_clause(random, noun, VERBS_OF_CONSUMED if consumed else VERBS_OF)
        elif kind not in ("person", "child", "mass"):
            possessors = PEOPLE if kind == "kin" else EVERYBODY
            determiner, possessor = "the", noun_phrase(random, pick(random, possessors), 0.5, without="complements")
            if possessor.determiner not in POSSESSIVES:
                possessor = possessor._replace(determiner="the")
    return NounPhrase(noun, determiner, plural, before, after, possessor, relative)


def relative_clause(random: Random, noun: Noun, verbs_of: dict[str, tuple[Verb, ...]]) -> Clause:
    """*who danced*, *that drank the milk*, *that he bought*: the noun is its subject or its object."""
    draw = random.random
    negation = "not" if draw() < 0.12 else ""
    is_animal = noun.kind == "animal"
    if (is_animal or noun.kind in SOMEBODY) and draw() < 0.4:
        if draw() < 0.4:
            verb = pick(random, ANIMAL_DOING if is_animal else _DOING)
            return Clause(None, verb, "past" if draw() < 0.5 else "present", negation)
        name = pick(random, _PREY if is_animal else _DEEDS)
        object_noun = pick(random, (PREY if is_animal else OBJECTS)[name])
        thing = noun_phrase(random, object_noun, 0.5, without="complements", negated=negation != "")
        return Clause(None, VERBS[name], "past", negation, object=thing)
    verb = pick(random, verbs_of[noun.english])
    subject: Subject = pick(random, ONE)
    if draw() < 0.3:
        subject = noun_phrase(random, pick(random, PEOPLE), 0.3, without="complements")
    tense = "past" if verb.past else "present"
    return Clause(subject, verb, tense, negation)


def person(random: Random, growth: float, *, plain: bool = False) -> NounPhrase:
    """A noun phrase for a person."""
    return noun_phrase(
        random, pick(random, PEOPLE if random.random() < 0.75 else KIN), growth, without="complements" if plain else ""
    )


def people(random: Random, growth: float) -> Subject:
    """A human subject: a pronoun, a noun phrase, or two coordinated ones."""
    kind = random.random()
    if kind < 0.48:
        return pick(random, _ACTORS)
    if kind < 0.48 + 0.05 * growth:
        first, second = person(random, 0.3, plain=True), person(random, 0.3, plain=True)
        return Coordination(first, second) if first.noun != second.noun else first
    return person(random, growth)


def animal(random: Random, growth: float, *, bare: bool = False) -> NounPhrase:
    """A noun phrase for an animal."""
    return noun_phrase(random, pick(random, ANIMALS), growth, without="adjectives" if bare else "")


def possessive_for(subject: Subject) -> str:
    """The possessive that refers to a subject."""
    if isinstance(subject, Pronoun) and subject.subject in OWN:
        return OWN[subject.subject]
    if isinstance(subject, NounPhrase) and not subject.plural:
        return "his" if subject.noun.gender == "m" else "her"
    return "his" if isinstance(subject, Pronoun) else "their"


def pronoun_for(subject: Subject) -> Pronoun | None:
    """The pronoun that can refer to a subject in the next clause, if it is human."""
    if isinstance(subject, Pronoun):
        return subject if subject.french != "qui" else None
    if not isinstance(subject, Coordination) and subject.noun.kind not in SOMEBODY:
        return None
    _, gender, plural = agreement(subject)
    if plural:
        return None if gender == "f" else PRONOUNS["they"]  # *they* is always *ils* here
    return PRONOUNS["he" if gender == "m" else "she"]


def location(random: Random, growth: float, *, wild: bool = False) -> PrepositionalPhrase:
    """A locative phrase; `wild` for animals."""
    kind = random.random()
    if kind < 0.5:
        preposition, nouns = "in", WILD if wild else INSIDE
    elif kind < 0.65 and not wild:
        preposition, nouns = "at", BUILDINGS
    else:
        preposition, nouns = pick(random, ("near", "behind", "in front of")), FACING
    phrase = noun_phrase(random, pick(random, nouns), growth * 0.7, without="complements")
    if preposition == "at":
        phrase = phrase._replace(determiner="the")
    return PrepositionalPhrase(PREPOSITIONS[preposition], phrase)


def destination(random: Random, growth: float, preposition: str = "to") -> PrepositionalPhrase:
    """A directional phrase: *to the school*."""
    phrase = noun_phrase(random, pick(random, BUILDINGS), growth * 0.7, without="complements")
    return PrepositionalPhrase(PREPOSITIONS[preposition], phrase._replace(determiner="the"))


def resting_place(random: Random, thing: Noun) -> PrepositionalPhrase:
    """A locative phrase for a thing: on or under furniture, in a box if it is not too large."""
    preposition = pick(random, ("on", "under") if thing.english in _LARGE else ("on", "under", "in"))
    noun = pick(random, CONTAINERS if preposition == "in" else SUPPORTS)
    phrase = noun_phrase(random, noun, 0.5, without="complements")
    if phrase.plural:
        phrase = NounPhrase(noun, "the")
    if noun.english == "tree" and preposition == "on":
        preposition = "under"
    return PrepositionalPhrase(PREPOSITIONS[preposition], phrase)


def comitative(random: Random) -> PrepositionalPhrase:
    """*with my friend*."""
    return PrepositionalPhrase(PREPOSITIONS["with"], person(random, 0.4, plain=True))


def privative(random: Random, subject: Subject) -> PrepositionalPhrase:
    """*without his hat*."""
    return PrepositionalPhrase(PREPOSITIONS["without"], NounPhrase(pick(random, CLOTHES), possessive_for(subject)))


def time_expression(random: Random, tense: str) -> Phrase:
    """A time expression that fits the tense."""
    return pick(random, WHEN.get(tense, LATER))
