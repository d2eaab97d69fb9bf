"""Drawing statements at random: who does what to whom, so that the sentence is correct and means something.

Sense is a matter of tables (people read texts, animals drink milk: `verbs.OBJECTS`, `verbs.PREY`) and of a few rules:
a sentence keeps to the past or to the present; *it* is only said of the object of the clause before; nobody sees
himself; what is called red is not said to be blue.
"""

from __future__ import annotations

from random import Random

from weft.tasks.grammar.lexicon import (
    ADJECTIVES,
    ADVERBS,
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
    PREPOSITIONS,
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
    ANIMAL_DOING,
    OTHERS,
    SUBJECTS,
    animal,
    company,
    goal,
    lack,
    location,
    noun_phrase,
    own,
    people,
    person,
    pick,
    pronoun_for,
    shelf,
    time,
)
from weft.tasks.grammar.sentences import agreement
from weft.tasks.grammar.trees import Both, Clause, Existence, NounPhrase, Place, State, Statement, Subject
from weft.tasks.grammar.verbs import DOING, GIVING, MOVING, OBJECTS, PIE, PREY, VERBS, WEAPONS, Verb

_GIVING, _DOING, _MOVING = tuple(GIVING), tuple(DOING.values()), tuple(MOVING.values())
_ACTIONS = tuple(name for name in OBJECTS if name not in GIVING and name not in (PIE, "hit"))
_PAST_ACTIONS = tuple(name for name in _ACTIONS if VERBS[name].past)
_PREY = tuple(PREY)
_STATIC = frozenset(("love", "know", "have"))
_PLACED = frozenset(
    ("see", "find", "kiss", "meet", "wait", "look", "eat", "drink", "buy", "sell", "lose", "read", "hide")
)
_HELPERS = ("going to", "want to", "can", "must")
_THINGS = THINGS + TEXTS + OPENINGS + FOOD + DISHES + DRINKS
_HANDY = THINGS + TEXTS + FOOD
_HANDY_KINDS = frozenset(("goods", "text", "food"))
_ADVERBS = tuple(ADVERBS.values())
_FEELINGS = (*FEELINGS.values(), *MOODS.values())
_WHY: dict[str, Adjective | Phrase] = {**FEELINGS, **MOODS, **ADJECTIVES}
_REASONS = {
    name: tuple(_WHY[why] for why in reasons.split())
    for name, reasons in (
        ("eat", "hungry"), ("drink", "thirsty"), ("sleep", "tired sick"), ("cry", "sad afraid"), ("laugh", "happy"),
        ("dance", "happy"), ("sing", "happy sad"), ("kiss", "happy"), ("hit", "angry afraid"), ("run", "late afraid"),
        ("leave", "late tired angry"), ("stay", "sick tired"), ("fall", "tired sick"), ("hide", "afraid"),
        ("break", "angry"), ("help", "kind"), ("give", "kind"), ("bring", "kind"), ("wait", "late"), ("buy", "hungry rich"),
    )
}  # fmt: skip
_ANY_REASON = tuple(_WHY[why] for why in ("happy", "sad", "angry", "afraid", "tired", "sick", "late", "thirsty"))
_ONE = tuple(PRONOUNS[name] for name in ("i", "he", "she", "we"))
_WEATHER = tuple(WEATHER.values())
_FOLLOW_UPS = ("eat", "drink", "sell", "lose", "hide", "break", "read", "take", "open", "close")
_FIRST = frozenset(("buy", "find", "take", "see", "write", "open", "hide", "look"))
INDEFINITE = frozenset(("a", "some", "many", "two", "three"))
NOT_IT = SOMEBODY | {"animal"}


def tense_of(random: Random, verb: Verb, subject: Subject, past: bool) -> str:
    """A tense the verb has, given the subject, in a sentence about the past or the present."""
    draw = random.random()
    if verb.base in _STATIC:
        return "past" if past else "present"
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
    if verb.base in _STATIC or tense not in ("past", "present"):
        return "", None
    if draw < 0.26:
        return "never", None
    return "", pick(random, _ADVERBS) if draw < 0.36 and tense == "present" else None


def somebody(random: Random, subject: Subject, growth: float, *, negated: bool = False) -> NounPhrase | Pronoun:
    """A person as an object; not a pronoun for the subject itself, and definite under negation."""
    if random.random() < 0.5:
        phrase = person(random, growth)
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
        what = noun_phrase(random, noun, growth, negated=negation != "", bare=name == "love")
        if what.relative is not None and what.relative.verb is verb:
            what = what._replace(relative=None)
        if name == "have" and what.determiner != "any":
            what = what._replace(determiner=("some" if what.plural else "a"), owner=None)
            if negation and what.plural:
                what = what._replace(determiner="any")
    places: tuple[Place, ...] = ()
    when = None
    extra = random.random()
    if verb.base in _PLACED and extra < 0.15 * growth:
        places = (location(random, growth),)
    elif verb.base not in _STATIC and negation != "never" and adverb is None and extra < 0.3 * growth:
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
        places = (location(random, growth),)
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
    if verb.base in ("arrive", "fall") and tense not in ("past", "present"):
        tense = "past" if past else "going to"
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


def hunt(random: Random, subject: Subject, past: bool, growth: float) -> Clause:
    """An animal does something."""
    if random.random() < 0.35:
        return activity(random, subject, past, growth * 0.7, pick(random, ANIMAL_DOING))
    name = pick(random, _PREY)
    verb = VERBS[name]
    tense = tense_of(random, verb, subject, past)
    negation, adverb = manner(random, verb, tense)
    noun = pick(random, PREY[name])
    what: NounPhrase | Pronoun = noun_phrase(random, noun, growth * 0.6, negated=negation != "")
    if noun.kind in SOMEBODY:
        what = somebody(random, subject, growth, negated=negation != "")
    return Clause(subject, verb, tense, negation, adverb, what)


def condition(random: Random, past: bool, growth: float) -> State:
    """Somebody or something is such, feels so, or is somewhere."""
    draw = random.random
    negation = "not" if draw() < 0.18 else "never" if draw() < 0.04 else ""
    predicate: Adjective | Phrase | Place
    kind = draw()
    if kind < 0.5:
        subject: Subject = people(random, growth * 0.7)
        being = BEING["person"]
        if isinstance(subject, Both) or (isinstance(subject, NounPhrase) and subject.noun.kind == "child"):
            being = BEING["child"]
        predicate = pick(random, _FEELINGS) if draw() < 0.4 else pick(random, being)
        if draw() < 0.2:
            predicate = location(random, growth)
        if isinstance(subject, NounPhrase) and isinstance(predicate, Adjective):
            subject = subject._replace(before=None, after=None)
        return State(subject, past, predicate, negation)
    if kind < 0.62:
        predicate = location(random, growth)
        if draw() < 0.6:
            predicate = pick(random, BEING["animal"]) if draw() < 0.6 else pick(random, _FEELINGS[:3])
        return State(animal(random, growth, bare=True), past, predicate, negation)
    noun = pick(random, _THINGS)
    if noun.kind in _HANDY_KINDS and draw() < 0.35:
        return State(noun_phrase(random, noun, growth), past, shelf(random), negation)
    subject = noun_phrase(random, noun, growth, bare=True)
    if subject.determiner in ("some", "many", "a"):
        subject = subject._replace(determiner="the")
    return State(subject, past, pick(random, BEING[noun.kind]), negation)


def presence(random: Random, past: bool, growth: float) -> Existence:
    """There is something somewhere."""
    alive = random.random() < 0.5
    phrase = animal(random, growth) if alive else noun_phrase(random, pick(random, _HANDY), growth)
    determiner = pick(random, ("some", "two", "three", "many") if phrase.plural else ("a",))
    phrase = phrase._replace(determiner=determiner, owner=None)
    return Existence(phrase, past, location(random, growth) if alive else shelf(random))


def statement(random: Random, past: bool, growth: float, subject: Subject | None = None) -> Statement:
    """A statement about the past or the present; about `subject`, a pronoun for people, if one is given."""
    kind = random.random()
    if subject is None:
        if kind < 0.15:
            return condition(random, past, growth)
        if kind < 0.18:
            return presence(random, past, growth)
        if kind < 0.23:
            return hunt(random, animal(random, growth), past, growth)
        if kind < 0.24 and not past:
            return pick(random, _WEATHER)
        subject = people(random, growth)
        kind = random.random()
    if kind < 0.58:
        return action(random, subject, past, growth)
    if kind < 0.65:
        return attack(random, subject, past, growth)
    if kind < 0.74:
        return gift(random, subject, past, growth)
    return activity(random, subject, past, growth) if kind < 0.86 else movement(random, subject, past, growth)


def question(random: Random, growth: float) -> Statement:
    """*who saw the king*, *where is my hat*, *did she leave*."""
    past, kind = random.random() < 0.6, random.random()
    if kind < 0.3:
        noun = pick(random, ANIMALS + THINGS + TEXTS)
        subject = noun_phrase(random, noun, growth)
        if subject.determiner in INDEFINITE:
            subject = subject._replace(determiner="the")
        return State(subject, past, None)
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
    subject = previous.subject if isinstance(previous, (Clause, State)) else None
    same = pronoun_for(subject) if subject is not None else None
    if not isinstance(previous, Clause):
        subordinate = False
    elif subordinate and kind < 0.2:
        feeling = pick(random, _REASONS.get(previous.verb.base, _ANY_REASON))
        return [CONNECTORS["because"], State(same or pick(random, _ONE), past, feeling)]
    if subject is not None and same is None:
        same = pick(random, _ONE)  # not *they*: the subject may be feminine
    elif random.random() < 0.3:
        same = None
    if subordinate and kind < 0.32 and past:
        later = movement(random, people(random, 0.5), True, growth)._replace(tense="past", negation="", time=None)
        return [CONNECTORS["when"], later]
    if subordinate and kind < 0.32 and isinstance(previous, Clause) and previous.tense == "present":
        doing = Clause(people(random, 0.5), pick(random, _DOING), "present")
        return [CONNECTORS[pick(random, ("when", "while"))], doing]
    link = CONNECTORS["and" if kind < 0.75 else "but"]
    if isinstance(previous, Clause) and random.random() < 0.5:
        again = resumption(random, previous, same, past)
        if again is not None:
            return [link, again]
    return [link, statement(random, past, growth, same)]


def resumption(random: Random, previous: Clause, same: Pronoun | None, past: bool) -> Clause | None:
    """A clause that says *it* of the thing in the clause before, if that clause names one and no more."""
    thing = previous.object
    if not isinstance(thing, NounPhrase) or thing.plural or thing.noun.kind in NOT_IT:
        return None
    simple = previous.tense in ("past", "present") and not previous.negation and previous.recipient is None
    if not simple or previous.places or previous.time or thing.owner or thing.relative or not thing.determiner:
        return None
    if previous.verb.base not in _FIRST:
        return None
    names = [name for name in _FOLLOW_UPS if thing.noun in OBJECTS[name] and VERBS[name] is not previous.verb]
    if not names:
        return None
    verb = VERBS[pick(random, names)]
    subject = same or pick(random, SUBJECTS)
    tense = tense_of(random, verb, subject, past)
    negation, _ = manner(random, verb, tense)
    return Clause(subject, verb, tense, negation, object=IT[thing.noun.gender])
