"""Surface realization: a tree becomes English and French together, with the word links.

English is realized from left to right: `append` adds words to the list of English words and returns their positions.
The same production builds the French tokens with those positions in the French order, so links need no separate
computation.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.data.pairs import Pair
from weft.tasks.grammar import french
from weft.tasks.grammar.constituents import constituent, mark
from weft.tasks.grammar.french import Agreement, Positions, Token
from weft.tasks.grammar.lexicon import FEELINGS, SOMEBODY, Adjective, Phrase, Pronoun
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
from weft.tasks.grammar.verbs import AUXILIARIES, BE, HAD, HAVE, WAS

NEGATIONS = {"": "", "not": "pas", "never": "jamais"}
IS = ("am", "is", "are", "are")
WERE = ("was", "was", "were", "were")


class VerbPositions(NamedTuple):
    """Positions of the English words linked to the finite verb, the lexical verb, the negation and the adverb."""

    finite: Positions
    lexical: Positions
    negation: Positions
    adverb: Positions


def append(english: list[str], words: str) -> Positions:
    """Append English words; their positions."""
    start = len(english)
    if " " not in words:
        english.append(words)
        return (start,)
    english += words.split()
    return tuple(range(start, len(english)))


def append_pronoun(english: list[str], word: str) -> Positions:
    """Append an English pronoun; its position."""
    positions = append(english, word)
    mark(english, "NP", positions[0])
    return positions


def fixed_expression(english: list[str], phrase: Phrase) -> list[Token]:
    """Realize a fixed expression."""
    start = len(english)
    english += phrase.english
    if len(phrase.french) == 1 and len(phrase.english) == 1:
        return [(phrase.french[0], (start,))]
    return [
        (word, tuple([start + offset for offset in offsets]))
        for word, offsets in zip(phrase.french, phrase.links, strict=True)
    ]


@constituent("NP")
def noun_phrase(english: list[str], tree: NounPhrase, *, negated: bool = False) -> list[Token]:
    """Realize a noun phrase; `negated` as the object of a negated verb."""
    noun, determiner, plural, before, after, possessor, relative = tree
    name = noun.french_plural if plural else noun.french
    following = french.adjective(before, noun.gender, plural, name) if before is not None else name
    positions: Positions = ()
    if determiner:
        first = before or after
        opening = first.english[0] if first is not None else noun.english[0]
        positions = append(english, "an" if determiner == "a" and opening in "aeiou" else determiner)
    tokens = french.determine(determiner, noun, plural, following, positions, negated=negated)
    if before is not None:
        tokens.append((following, append(english, before.english)))
    after_positions = append(english, after.english) if after is not None else ()
    tokens.append((name, append(english, noun.plural if plural else noun.english)))
    if after is not None:
        tokens.append((french.adjective(after, noun.gender, plural), after_positions))
    if possessor is not None:
        of = append(english, "of")
        tokens.append(("de", of))
        tokens += noun_phrase(english, possessor)
        mark(english, "PP", of[0])
    if relative is not None:
        positions = append(english, "who" if relative.subject is None and noun.kind in SOMEBODY else "that")
        tokens.append(("qui" if relative.subject is None else "que", positions))
        tokens += verbal_clause(english, relative, french.of_noun(noun, plural))
    return tokens


def agreement(subject: Subject) -> Agreement:
    """Person, gender and number of a subject."""
    if isinstance(subject, Pronoun):
        return french.of_pronoun(subject)
    if isinstance(subject, Coordination):
        return french.of_coordination(agreement(subject.first), agreement(subject.second))
    return french.of_noun(subject.noun, subject.plural)


def realize_subject(english: list[str], subject: Subject) -> list[Token]:
    """Realize the subject of a clause."""
    if isinstance(subject, Pronoun):
        return [(subject.french, append_pronoun(english, subject.subject))]
    if isinstance(subject, Coordination):
        start = len(english)
        tokens = noun_phrase(english, subject.first)
        tokens.append(("et", append(english, "and")))
        tokens += noun_phrase(english, subject.second)
        mark(english, "NP", start)
        return tokens
    return noun_phrase(english, subject)


@constituent("PP")
def prepositional_phrase(english: list[str], tree: PrepositionalPhrase) -> list[Token]:
    """Realize a prepositional phrase."""
    positions = append(english, tree.preposition.english)
    return [(word, positions) for word in tree.preposition.french] + noun_phrase(english, tree.phrase)


def append_verb(english: list[str], tree: Clause, person: int) -> VerbPositions:
    """Append the English verb with its auxiliaries, negation and adverb."""
    verb, tense, negation = tree.verb, tree.tense, tree.negation
    lexical: Positions = ()
    adverb: Positions = ()
    if tense in AUXILIARIES:
        forms = AUXILIARIES[tense]
        finite: Positions = ()
        negation_positions: Positions = ()
        for word in (forms.negative if negation else forms.affirmative)[person].split():
            positions = append(english, word)
            if word in ("not", "cannot"):
                negation_positions += positions
            if word == "to":
                lexical += positions
            elif word not in ("not", "do", "does"):
                finite += positions
        return VerbPositions(finite, lexical + append(english, verb.base), negation_positions, adverb)
    if negation == "not":
        auxiliary = "did" if tense == "past" else "does" if person == 1 else "do"
        positions = append(english, auxiliary)
        negation_positions = append(english, "not")
        return VerbPositions(
            positions if tense == "past" else (), append(english, verb.base), negation_positions, adverb
        )
    negation_positions = append(english, "never") if negation else ()
    if tree.adverb is not None:
        adverb = append(english, tree.adverb.english[0])
    lexical = append(english, verb.past if tense == "past" else verb.third if person == 1 else verb.base)
    return VerbPositions(lexical if tense == "past" and not verb.imperfect else (), lexical, negation_positions, adverb)


def french_verb(
    tree: Clause,
    positions: VerbPositions,
    lexical: Positions,
    subject_agreement: Agreement,
    clitics: list[Token],
    preceding_object: Agreement | None,
) -> list[Token]:
    """The French verb group; `preceding_object` is the direct object before the participle, if there is one."""
    verb, person = tree.verb, subject_agreement.person
    adverb = (tree.adverb.french[0], positions.adverb) if tree.adverb is not None else None
    participle: Token | None = None
    infinitive: Token | None = None
    if tree.tense in AUXILIARIES:
        finite = (AUXILIARIES[tree.tense].french[person], positions.finite)
        infinitive = (verb.infinitive, lexical)
    elif tree.tense == "past" and not verb.imperfect:
        if verb.auxiliary is BE:
            preceding_object = subject_agreement
        form = (
            verb.participle
            if preceding_object is None
            else french.participle(verb.participle, preceding_object.gender, preceding_object.plural)
        )
        finite, participle = (verb.auxiliary[person], positions.finite), (form, lexical)
    else:
        finite = ((verb.imperfect if tree.tense == "past" else verb.present)[person], positions.finite + lexical)
    tokens = french.verb_group(clitics, finite, adverb, participle, infinitive)
    if not tree.negation:
        return tokens
    return french.negate(tokens, tokens.index(finite), NEGATIONS[tree.negation], positions.negation)


@constituent("S")
def verbal_clause(english: list[str], tree: Clause, antecedent: Agreement | None = None) -> list[Token]:
    """Realize a clause; `antecedent` is the agreement of the noun that a relative clause modifies."""
    verb, negated = tree.verb, tree.negation != ""
    tokens: list[Token] = []
    auxiliary_positions: Positions = ()
    subject_agreement = agreement(tree.subject) if tree.subject is not None else antecedent
    assert subject_agreement is not None
    if tree.question:
        auxiliary_positions = append(
            english, "did" if tree.tense == "past" else "does" if subject_agreement.person == 1 else "do"
        )
        tokens = [("est-ce", auxiliary_positions), ("que", auxiliary_positions)]
    if tree.subject is not None:
        tokens += realize_subject(english, tree.subject)
    verb_phrase = len(english)
    if tree.question:
        positions = VerbPositions(
            auxiliary_positions if tree.tense == "past" else (), append(english, verb.base), (), ()
        )
    else:
        positions = append_verb(english, tree, subject_agreement.person)

    lexical = positions.lexical + (append(english, verb.particle) if verb.particle else ())
    preceding_object = antecedent if tree.subject is not None and tree.object is None else None
    clitics: list[Token] = []
    rest: list[Token] = []
    if isinstance(tree.recipient, Pronoun) and tree.object is not None:
        clitics.append((tree.recipient.indirect, append_pronoun(english, tree.recipient.object)))
    if isinstance(tree.object, Pronoun):
        clitics.append((tree.object.direct, append_pronoun(english, tree.object.object)))
        preceding_object = french.of_pronoun(tree.object)
    elif tree.object is not None:
        rest = noun_phrase(english, tree.object, negated=negated)
    if verb.tail:
        lexical += append(english, verb.tail)
    if isinstance(tree.recipient, NounPhrase):
        to = append(english, "to")
        rest.append(("à", to))
        rest += noun_phrase(english, tree.recipient)
        mark(english, "PP", to[0])
    elif tree.recipient is not None and tree.object is None:
        to = append(english, "to")
        clitics.append((tree.recipient.indirect, to + append_pronoun(english, tree.recipient.object)))
        mark(english, "PP", to[0])
    for adjunct in tree.adjuncts:
        rest += prepositional_phrase(english, adjunct)
    if tree.time is not None:
        time = len(english)
        rest += fixed_expression(english, tree.time)
        mark(english, "ADVP", time)
    mark(english, "VP", verb_phrase)
    tokens += french_verb(tree, positions, lexical, subject_agreement, clitics, preceding_object)
    return tokens + rest


@constituent("S")
def copular_clause(english: list[str], tree: CopularClause) -> list[Token]:
    """Realize a copular clause, or a question with *where*."""
    subject, past, predicate, negation = tree
    subject_agreement = agreement(subject)
    copula = (WERE if past else IS)[subject_agreement.person]
    if predicate is None:
        tokens = [
            ("où", append(english, "where")),
            ((WAS if past else BE)[subject_agreement.person], append(english, copula)),
        ]
        return tokens + realize_subject(english, subject)
    tokens = realize_subject(english, subject)
    positions = append(english, copula)
    negation_positions = append(english, negation) if negation else ()
    has = isinstance(predicate, Phrase) and predicate.english[0] in FEELINGS
    forms = (HAD if past else HAVE) if has else WAS if past else BE
    verb = [(forms[subject_agreement.person], positions)]
    tokens += french.negate(verb, 0, NEGATIONS[negation], negation_positions) if negation else verb
    if isinstance(predicate, Adjective):
        form = french.adjective(predicate, subject_agreement.gender, subject_agreement.plural)
        tokens.append((form, append(english, predicate.english)))
        mark(english, "ADJP", len(english) - 1)
    elif isinstance(predicate, Phrase):
        tokens += fixed_expression(english, predicate)
        if has:
            mark(english, "ADJP", len(english) - len(predicate.english))
    else:
        tokens += prepositional_phrase(english, predicate)
    mark(english, "VP", positions[0])
    return tokens


@constituent("S")
def existential_clause(english: list[str], tree: ExistentialClause) -> list[Token]:
    """Realize *there is*."""
    expletive = append(english, "there")
    positions = append(english, (WERE if tree.past else IS)[3 if tree.phrase.plural else 1])
    tokens = [("il", expletive), ("y", expletive), ("avait" if tree.past else "a", positions)]
    tokens += noun_phrase(english, tree.phrase)
    tokens += prepositional_phrase(english, tree.location)
    mark(english, "VP", positions[0])
    return tokens


def realize(english: list[str], tree: Statement) -> list[Token]:
    """Realize a whole statement: append the English words and return the French ones, not yet elided."""
    if isinstance(tree, Clause):
        return verbal_clause(english, tree)
    if isinstance(tree, CopularClause):
        return copular_clause(english, tree)
    return existential_clause(english, tree) if isinstance(tree, ExistentialClause) else fixed_expression(english, tree)


def finish_pair(english: list[str], tokens: list[Token]) -> Pair:
    """The pair after contraction and elision, with sorted links."""
    tokens = french.surface(tokens)
    links = [(source, target) for target, (_, positions) in enumerate(tokens) for source in positions]
    links.sort()
    return Pair(" ".join(english), french.text(tokens), tuple(links))


def pair(*trees: Statement) -> Pair:
    """The pair of these trees, one after the other; a connector is a tree too."""
    english: list[str] = []
    tokens: list[Token] = []
    for tree in trees:
        tokens += realize(english, tree)
    return finish_pair(english, tokens)
