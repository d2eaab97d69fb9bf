"""The productions: a tree is said in English and French at once, and the links fall out.

English is said from left to right: `say` appends to the list of English words and returns the positions they took.
The same production builds the French tokens around those positions in the French order, so no link is ever computed
afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.data.pairs import Pair
from weft.tasks.grammar import french
from weft.tasks.grammar.french import Agreement, Positions, Token
from weft.tasks.grammar.lexicon import FEELINGS, SOMEBODY, Adjective, Phrase, Pronoun
from weft.tasks.grammar.trees import Both, Clause, Existence, NounPhrase, Place, State, Statement, Subject
from weft.tasks.grammar.verbs import BE, HAD, HAVE, HELPERS, WAS

NEGATIONS = {"": "", "not": "pas", "never": "jamais"}
IS = ("am", "is", "are", "are")
WERE = ("was", "was", "were", "were")


class Said(NamedTuple):
    """Where the English verb stands: the parts linked to the finite verb, the lexical verb, negation and adverb."""

    finite: Positions
    lexical: Positions
    negation: Positions
    adverb: Positions


def say(english: list[str], words: str) -> Positions:
    """Append English words; return their positions."""
    start = len(english)
    if " " not in words:
        english.append(words)
        return (start,)
    english += words.split()
    return tuple(range(start, len(english)))


def fixed(english: list[str], phrase: Phrase) -> list[Token]:
    """Say a fixed expression."""
    start = len(english)
    english += phrase.english
    if len(phrase.french) == 1 and len(phrase.english) == 1:
        return [(phrase.french[0], (start,))]
    return [
        (word, tuple([start + place for place in places]))
        for word, places in zip(phrase.french, phrase.links, strict=True)
    ]


def noun_phrase(english: list[str], tree: NounPhrase, *, negated: bool = False) -> list[Token]:
    """Say a noun phrase; `negated` when it is the object of a negated verb."""
    noun, determiner, plural, before, after, owner, relative = tree
    name = noun.french_plural if plural else noun.french
    following = french.adjective(before, noun.gender, plural, name) if before is not None else name
    said: Positions = ()
    if determiner:
        first = before or after
        opening = first.english[0] if first is not None else noun.english[0]
        said = say(english, "an" if determiner == "a" and opening in "aeiou" else determiner)
    tokens = french.determine(determiner, noun, plural, following, said, negated=negated)
    if before is not None:
        tokens.append((following, say(english, before.english)))
    said_after = say(english, after.english) if after is not None else ()
    tokens.append((name, say(english, noun.plural if plural else noun.english)))
    if after is not None:
        tokens.append((french.adjective(after, noun.gender, plural), said_after))
    if owner is not None:
        tokens.append(("de", say(english, "of")))
        tokens += noun_phrase(english, owner)
    if relative is not None:
        said = say(english, "who" if relative.subject is None and noun.kind in SOMEBODY else "that")
        tokens.append(("qui" if relative.subject is None else "que", said))
        tokens += clause(english, relative, french.of_noun(noun, plural))
    return tokens


def agreement(subject: Subject) -> Agreement:
    """What the verb must agree with."""
    if isinstance(subject, Pronoun):
        return french.of_pronoun(subject)
    if isinstance(subject, Both):
        return french.of_both(agreement(subject.first), agreement(subject.second))
    return french.of_noun(subject.noun, subject.plural)


def say_subject(english: list[str], subject: Subject) -> list[Token]:
    """Say the subject of a clause."""
    if isinstance(subject, Pronoun):
        return [(subject.french, say(english, subject.subject))]
    if isinstance(subject, Both):
        tokens = noun_phrase(english, subject.first)
        tokens.append(("et", say(english, "and")))
        return tokens + noun_phrase(english, subject.second)
    return noun_phrase(english, subject)


def place(english: list[str], tree: Place) -> list[Token]:
    """Say a prepositional phrase."""
    said = say(english, tree.preposition.english)
    return [(word, said) for word in tree.preposition.french] + noun_phrase(english, tree.phrase)


def say_verb(english: list[str], tree: Clause, person: int) -> Said:
    """Say the English verb with its auxiliaries, negation and adverb."""
    verb, tense, negation = tree.verb, tree.tense, tree.negation
    lexical: Positions = ()
    adverb: Positions = ()
    if tense in HELPERS:
        helper = HELPERS[tense]
        finite: Positions = ()
        denial: Positions = ()
        for word in (helper.negative if negation else helper.affirmative)[person].split():
            said = say(english, word)
            if word in ("not", "cannot"):
                denial += said
            if word == "to":
                lexical += said
            elif word not in ("not", "do", "does"):
                finite += said
        return Said(finite, lexical + say(english, verb.base), denial, adverb)
    if negation == "not":
        auxiliary = "did" if tense == "past" else "does" if person == 1 else "do"
        said = say(english, auxiliary)
        denial = say(english, "not")
        return Said(said if tense == "past" else (), say(english, verb.base), denial, adverb)
    denial = say(english, "never") if negation else ()
    if tree.adverb is not None:
        adverb = say(english, tree.adverb.english[0])
    lexical = say(english, verb.past if tense == "past" else verb.third if person == 1 else verb.base)
    return Said(lexical if tense == "past" and not verb.imperfect else (), lexical, denial, adverb)


def french_verb(
    tree: Clause, said: Said, lexical: Positions, owner: Agreement, clitics: list[Token], agrees: Agreement | None
) -> list[Token]:
    """The French verb group; `agrees` is the direct object that stands before the participle, if one does."""
    verb, person = tree.verb, owner.person
    adverb = (tree.adverb.french[0], said.adverb) if tree.adverb is not None else None
    participle: Token | None = None
    infinitive: Token | None = None
    if tree.tense in HELPERS:
        finite = (HELPERS[tree.tense].french[person], said.finite)
        infinitive = (verb.infinitive, lexical)
    elif tree.tense == "past" and not verb.imperfect:
        if verb.auxiliary is BE:
            agrees = owner
        form = verb.participle if agrees is None else french.participle(verb.participle, agrees.gender, agrees.plural)
        finite, participle = (verb.auxiliary[person], said.finite), (form, lexical)
    else:
        finite = ((verb.imperfect if tree.tense == "past" else verb.present)[person], said.finite + lexical)
    tokens = french.verb_group(clitics, finite, adverb, participle, infinitive)
    if not tree.negation:
        return tokens
    return french.negate(tokens, tokens.index(finite), NEGATIONS[tree.negation], said.negation)


def clause(english: list[str], tree: Clause, head: Agreement | None = None) -> list[Token]:
    """Say a clause; `head` is what a relative clause stands in for."""
    verb, negated = tree.verb, tree.negation != ""
    tokens: list[Token] = []
    asked: Positions = ()
    owner = agreement(tree.subject) if tree.subject is not None else head
    assert owner is not None
    if tree.question:
        asked = say(english, "did" if tree.tense == "past" else "does" if owner.person == 1 else "do")
        tokens = [("est-ce", asked), ("que", asked)]
    if tree.subject is not None:
        tokens += say_subject(english, tree.subject)
    if tree.question:
        said = Said(asked if tree.tense == "past" else (), say(english, verb.base), (), ())
    else:
        said = say_verb(english, tree, owner.person)

    lexical = said.lexical + (say(english, verb.particle) if verb.particle else ())
    agrees = head if tree.subject is not None and tree.object is None else None
    clitics: list[Token] = []
    rest: list[Token] = []
    if isinstance(tree.recipient, Pronoun) and tree.object is not None:
        clitics.append((tree.recipient.indirect, say(english, tree.recipient.object)))
    if isinstance(tree.object, Pronoun):
        clitics.append((tree.object.direct, say(english, tree.object.object)))
        agrees = french.of_pronoun(tree.object)
    elif tree.object is not None:
        rest = noun_phrase(english, tree.object, negated=negated)
    if verb.tail:
        lexical += say(english, verb.tail)
    if isinstance(tree.recipient, NounPhrase):
        rest.append(("à", say(english, "to")))
        rest += noun_phrase(english, tree.recipient)
    elif tree.recipient is not None and tree.object is None:
        clitics.append((tree.recipient.indirect, say(english, f"to {tree.recipient.object}")))
    for where in tree.places:
        rest += place(english, where)
    if tree.time is not None:
        rest += fixed(english, tree.time)
    tokens += french_verb(tree, said, lexical, owner, clitics, agrees)
    return tokens + rest


def state(english: list[str], tree: State) -> list[Token]:
    """Say that something is such or somewhere, or ask where it is."""
    subject, past, predicate, negation = tree
    owner = agreement(subject)
    copula = (WERE if past else IS)[owner.person]
    if predicate is None:
        tokens = [("où", say(english, "where")), ((WAS if past else BE)[owner.person], say(english, copula))]
        return tokens + say_subject(english, subject)
    tokens = say_subject(english, subject)
    said = say(english, copula)
    denial = say(english, negation) if negation else ()
    has = isinstance(predicate, Phrase) and predicate.english[0] in FEELINGS
    forms = (HAD if past else HAVE) if has else WAS if past else BE
    verb = [(forms[owner.person], said)]
    tokens += french.negate(verb, 0, NEGATIONS[negation], denial) if negation else verb
    if isinstance(predicate, Adjective):
        tokens.append((french.adjective(predicate, owner.gender, owner.plural), say(english, predicate.english)))
        return tokens
    return tokens + (fixed(english, predicate) if isinstance(predicate, Phrase) else place(english, predicate))


def existence(english: list[str], tree: Existence) -> list[Token]:
    """Say that there is something somewhere."""
    there = say(english, "there")
    said = say(english, (WERE if tree.past else IS)[3 if tree.phrase.plural else 1])
    tokens = [("il", there), ("y", there), ("avait" if tree.past else "a", said)]
    return tokens + noun_phrase(english, tree.phrase) + place(english, tree.place)


def say_statement(english: list[str], tree: Statement) -> list[Token]:
    """Say a whole statement: append the English words and return the French ones, not yet elided."""
    if isinstance(tree, Clause):
        return clause(english, tree)
    if isinstance(tree, State):
        return state(english, tree)
    return existence(english, tree) if isinstance(tree, Existence) else fixed(english, tree)


def finish(english: list[str], tokens: list[Token]) -> Pair:
    """The pair that was said: contraction, elision and the sorted links."""
    tokens = french.surface(tokens)
    links = [(source, target) for target, (_, said) in enumerate(tokens) for source in said]
    links.sort()
    return Pair(" ".join(english), french.text(tokens), tuple(links))


def pair(*trees: Statement) -> Pair:
    """The pair of these trees, said one after the other; a connector is a tree too."""
    english: list[str] = []
    tokens: list[Token] = []
    for tree in trees:
        tokens += say_statement(english, tree)
    return finish(english, tokens)
