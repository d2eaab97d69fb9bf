"""Drawing statements, questions and coordinate or subordinate continuations at random.

Rules of coherence: a sentence stays in the past or in the present; what is called red is not said to be blue;
*because* gives a reason that fits the verb; *it* refers only to the object of the clause before.
"""

from __future__ import annotations

from random import Random

from weft.tasks.grammar.clauses import (
    INDEFINITE,
    STATIC,
    animal_clause,
    draw_tense,
    human_clause,
    motion_clause,
    negation_or_adverb,
)
from weft.tasks.grammar.lexicon import (
    ADJECTIVES,
    ANIMALS,
    BEING,
    CONNECTORS,
    DISHES,
    DRINKS,
    FEELINGS,
    FOOD,
    IT,
    MOODS,
    OPENINGS,
    PRONOUNS,
    SOMEBODY,
    TEXTS,
    THINGS,
    WEATHER,
    Adjective,
    Phrase,
    Pronoun,
)
from weft.tasks.grammar.phrases import (
    ONE,
    OTHERS,
    SUBJECTS,
    animal,
    location,
    noun_phrase,
    people,
    person,
    pick,
    pronoun_for,
    resting_place,
)
from weft.tasks.grammar.trees import (
    Clause,
    Coordination,
    CopularClause,
    ExistentialClause,
    NounPhrase,
    PrepositionalPhrase,
    Statement,
    Subject,
)
from weft.tasks.grammar.verbs import DOING, OBJECTS, VERBS

_DOING = tuple(DOING.values())
_THINGS = THINGS + TEXTS + OPENINGS + 4 * (FOOD + DRINKS) + 2 * DISHES
_HANDY = THINGS + TEXTS + FOOD
_HANDY_KINDS = frozenset(("goods", "text", "food"))
_FEELINGS = (*FEELINGS.values(), *MOODS.values())
_WHY: dict[str, Adjective | Phrase] = {**FEELINGS, **MOODS, **ADJECTIVES}
_REASONS = {
    name: tuple(_WHY[why] for why in reasons.split())
    for name, reasons in (
        ("eat", "hungry"), ("drink", "thirsty"), ("sleep", "tired sick"), ("cry", "sad afraid tired"),
        ("laugh", "happy"), ("dance", "happy"), ("sing", "happy sad"), ("kiss", "happy"), ("hit", "angry afraid"),
        ("run", "late afraid"), ("leave", "late tired angry"), ("stay", "sick tired"), ("fall", "tired sick"),
        ("hide", "afraid"), ("break", "angry"), ("help", "kind"), ("give", "kind rich"), ("bring", "kind"),
        ("buy", "rich"), ("speak", "sad happy angry"), ("listen", "kind sad"), ("follow", "angry"), ("go", "late sick"),
        ("write", "sad happy"), ("look", "angry"), ("come", "afraid sad"), ("close", "afraid tired"),
    )
}  # fmt: skip
_AGAINST = tuple(_WHY[why] for why in ("sad", "angry", "afraid", "tired", "sick", "late"))
_US = (PRONOUNS["i"], PRONOUNS["we"])
_WEATHER = tuple(WEATHER.values())
_FOLLOW_UPS = ("eat", "drink", "sell", "lose", "hide", "break", "read", "take", "open", "close")
_FIRST = frozenset(("buy", "find", "take", "see", "write", "open", "hide", "look"))
_NOT_IT = SOMEBODY | {"animal"}


def copular_clause(random: Random, past: bool, growth: float) -> CopularClause:
    """A copular clause: an adjective, a feeling or a location as predicate."""
    draw = random.random
    negation = "not" if draw() < 0.18 else "never" if draw() < 0.04 else ""
    predicate: Adjective | Phrase | PrepositionalPhrase
    kind = draw()
    if kind < 0.5:
        subject: Subject = people(random, growth * 0.7)
        being = BEING["person"]
        if isinstance(subject, Coordination) or (isinstance(subject, NounPhrase) and subject.noun.kind == "child"):
            being = BEING["child"]
        predicate = pick(random, _FEELINGS) if draw() < 0.4 else pick(random, being)
        if draw() < 0.2:
            predicate = location(random, growth)
        if isinstance(subject, NounPhrase) and isinstance(predicate, Adjective):
            subject = subject._replace(before=None, after=None)
        return CopularClause(subject, past, predicate, negation)
    if kind < 0.62:
        predicate = location(random, growth, wild=True)
        if draw() < 0.6:
            predicate = pick(random, BEING["animal"]) if draw() < 0.6 else pick(random, _FEELINGS[:3])
        return CopularClause(definite(animal(random, growth, bare=True)), past, predicate, negation)
    noun = pick(random, _THINGS)
    if noun.kind in _HANDY_KINDS and draw() < 0.35:
        return CopularClause(definite(noun_phrase(random, noun, growth)), past, resting_place(random, noun), negation)
    phrase = noun_phrase(random, noun, growth * 2, without="adjectives", consumed=past)
    return CopularClause(definite(phrase), past, pick(random, BEING[noun.kind]), negation)


def definite(phrase: NounPhrase) -> NounPhrase:
    """The phrase with *the* for an indefinite determiner."""
    return phrase._replace(determiner="the") if phrase.determiner in INDEFINITE else phrase


def existential_clause(random: Random, past: bool, growth: float) -> ExistentialClause:
    """*There is* a noun phrase somewhere."""
    alive = random.random() < 0.5
    phrase = animal(random, growth) if alive else noun_phrase(random, pick(random, _HANDY), growth)
    determiner = pick(random, ("some", "two", "three", "many") if phrase.plural else ("a",))
    phrase = phrase._replace(determiner=determiner, possessor=None)
    return ExistentialClause(
        phrase, past, location(random, growth, wild=True) if alive else resting_place(random, phrase.noun)
    )


def statement(random: Random, past: bool, growth: float, subject: Subject | None = None) -> Statement:
    """A statement about the past or the present; about `subject`, a pronoun for people, if one is given."""
    kind = random.random()
    if subject is None:
        if kind < 0.15:
            return copular_clause(random, past, growth)
        if kind < 0.18:
            return existential_clause(random, past, growth)
        if kind < 0.23:
            return animal_clause(random, animal(random, growth), past, growth)
        if kind < 0.24 and not past:
            return pick(random, _WEATHER)
        subject = people(random, growth)
    tree = human_clause(random, subject, past, growth)
    if isinstance(subject, NounPhrase) and subject.relative is not None and subject.relative.verb is tree.verb:
        return tree._replace(subject=subject._replace(relative=None))  # not "the boy who ran ran"
    return tree


def question(random: Random, growth: float) -> Statement:
    """*who saw the king*, *where is my hat*, *did she leave*."""
    past, kind = random.random() < 0.6, random.random()
    if kind < 0.3:
        noun = pick(random, ANIMALS + THINGS + TEXTS)
        return CopularClause(definite(noun_phrase(random, noun, growth)), past, None)
    who: Subject = PRONOUNS["who"]
    if kind > 0.6:
        who = pick(random, OTHERS) if random.random() < 0.5 else person(random, growth, plain=True)
    tree = statement(random, past, growth, who)
    if kind < 0.6 or not isinstance(tree, Clause):
        return tree
    if tree.tense not in ("past", "present"):
        tree = tree._replace(tense="past" if tree.verb.past else "present", time=None)
    return tree._replace(negation="", adverb=None, question=True)


def continuation(
    random: Random, previous: Statement, past: bool, growth: float, *, subordinate: bool
) -> list[Statement]:
    """A connector and what follows it; `subordinate` allows *because*, *when* and *while*."""
    kind = random.random()
    subject = previous.subject if isinstance(previous, (Clause, CopularClause)) else None
    same = pronoun_for(subject) if subject is not None else None
    if not isinstance(previous, Clause):
        subordinate = False
    elif subordinate and kind < 0.25 and same is not None and previous.verb.base in _REASONS:
        feeling = pick(random, _AGAINST if previous.negation else _REASONS[previous.verb.base])
        return [CONNECTORS["because"], CopularClause(same, past, feeling)]
    if isinstance(previous, Clause) and (previous.negation or previous.verb.base in STATIC):
        subordinate = False
    if subject is not None and same is None:
        animal_before = isinstance(subject, NounPhrase) and subject.noun.kind == "animal"
        same = pick(random, _US if animal_before else ONE)  # a pronoun that cannot stand for the subject
    elif random.random() < 0.3:
        same = None
    if subordinate and kind < 0.35 and past:
        later = motion_clause(random, other_subject(random), True, growth)._replace(
            tense="past", negation="", time=None
        )
        return [CONNECTORS["when"], later]
    if subordinate and kind < 0.35 and isinstance(previous, Clause) and previous.tense == "present":
        doing = Clause(other_subject(random), pick(random, _DOING), "present")
        return [CONNECTORS[pick(random, ("when", "while"))], doing]
    link = CONNECTORS["and" if kind < 0.8 else "but"]
    if isinstance(previous, Clause) and random.random() < 0.5:
        again = anaphoric_clause(random, previous, same, past)
        if again is not None:
            return [link, again]
    return [link, statement(random, past, growth, same)]


def other_subject(random: Random) -> Subject:
    """Another subject, for *when* and *while*."""
    return pick(random, ONE) if random.random() < 0.5 else person(random, 0.5, plain=True)


def anaphoric_clause(random: Random, previous: Clause, same: Pronoun | None, past: bool) -> Clause | None:
    """A clause in which *it* refers to the object of the clause before, if that is unambiguous."""
    thing = previous.object
    if not isinstance(thing, NounPhrase) or thing.plural or thing.noun.kind in _NOT_IT:
        return None
    simple = previous.tense in ("past", "present") and not previous.negation and previous.recipient is None
    if not simple or previous.adjuncts or previous.time or thing.possessor or thing.relative or not thing.determiner:
        return None
    if previous.verb.base not in _FIRST:
        return None
    names = [name for name in _FOLLOW_UPS if thing.noun in OBJECTS[name] and VERBS[name] is not previous.verb]
    if not names:
        return None
    verb = VERBS[pick(random, names)]
    subject = same or pick(random, SUBJECTS)
    tense = draw_tense(random, verb, subject, past)
    negation, _ = negation_or_adverb(random, verb, tense)
    return Clause(subject, verb, tense, negation, object=IT[thing.noun.gender])
