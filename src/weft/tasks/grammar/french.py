"""French morphology and surface: agreement, the verb group with its clitics, contraction and elision.

A French phrase is a list of tokens, each a word with the English positions it is linked to: `("chat", (1,))`. Phrases
are built from full forms (*de le*, *la eau*, *que il*); `surface` then contracts and elides, and a contracted word
keeps the links of both its parts.

The rules cover the words of `lexicon` and `verbs`, not the language: `ASPIRATED` lists the only words of ours with an
h that blocks elision, and `surface` contracts every *de le*, which would be wrong for a pronoun (*de le voir*: our
grammar never says that).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from weft.tasks.grammar.lexicon import Adjective, Noun, Pronoun

Positions = tuple[int, ...]
Token = tuple[str, Positions]

ASPIRATED = frozenset({"héros", "hibou", "hiboux", "hache", "haches"})
VOWELS = frozenset("aeiouyhâàéèêëîïôœûù")
ELIDED = {word: word[:-1] + "'" for word in ("le", "la", "je", "me", "ne", "de", "que")}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_UNSTABLE = frozenset((*ELIDED, *(first for first, _ in CONTRACTED)))

# Masculine, feminine, plural, masculine before a vowel, feminine before a vowel; the article elides later.
DETERMINERS = {
    "the": ("le", "la", "les", "le", "la"),
    "": ("le", "la", "les", "le", "la"),
    "a": ("un", "une", "", "un", "une"),
    "this": ("ce", "cette", "", "cet", "cette"),
    "these": ("", "", "ces", "", ""),
    "my": ("mon", "ma", "mes", "mon", "mon"),
    "his": ("son", "sa", "ses", "son", "son"),
    "her": ("son", "sa", "ses", "son", "son"),
    "our": ("notre", "notre", "nos", "notre", "notre"),
    "their": ("leur", "leur", "leurs", "leur", "leur"),
    "two": ("", "", "deux", "", ""),
    "three": ("", "", "trois", "", ""),
}


class Agreement(NamedTuple):
    """Person, gender and number, with which other words agree; `person` counts je, il, nous, ils from zero."""

    person: int
    gender: str
    plural: bool


_NOUN_AGREEMENT = {
    (gender, plural): Agreement(3 if plural else 1, gender, plural) for gender in "mf" for plural in (False, True)
}


def of_pronoun(pronoun: Pronoun) -> Agreement:
    return Agreement(pronoun.person, pronoun.gender, pronoun.plural)


def of_noun(noun: Noun, plural: bool) -> Agreement:
    return _NOUN_AGREEMENT[noun.gender, plural]


def of_coordination(first: Agreement, second: Agreement) -> Agreement:
    """Two phrases joined by *et*: plural, and masculine unless both are feminine."""
    return Agreement(3, "f" if first.gender == second.gender == "f" else "m", True)


@cache
def opens_with_vowel(word: str) -> bool:
    """Whether a word elides the one before it: ``homme`` does, ``héros`` does not."""
    return word[0] in VOWELS and word not in ASPIRATED


def adjective(word: Adjective, gender: str, plural: bool, before: str = "") -> str:
    """The form that agrees; `before` is the word that follows, if it can change it (*un vieil ami*)."""
    if plural:
        return word.forms[3 if gender == "f" else 2]
    if gender == "f":
        return word.forms[1]
    return word.forms[4 if before and opens_with_vowel(before) else 0]


@cache
def participle(base: str, gender: str, plural: bool) -> str:
    """The participle that agrees: ``vu`` → ``vue``, ``vus``, ``vues``; ``pris`` keeps its s."""
    if gender == "f":
        return base + ("es" if plural else "e")
    return base + "s" if plural and base[-1] != "s" else base


def determine(
    determiner: str, noun: Noun, plural: bool, before: str, positions: Positions, *, negated: bool
) -> list[Token]:
    """The French of an English determiner; `before` is the French word that will follow it.

    A negated verb turns the article of its indefinite object into *de*. *Some* is the partitive of a mass noun and
    *des* of a plural, which is *de* before an adjective: *du pain*, *des pommes*, *de petites pommes*.
    """
    if determiner == "some" and not plural:
        return [("de", positions), ("le" if noun.gender == "m" else "la", positions)]
    if determiner == "some":
        return [("des" if before == noun.french_plural else "de", positions)]
    if determiner == "many":
        return [("beaucoup", positions), ("de", positions)]
    if determiner == "any" or (negated and determiner == "a"):
        return [("de", positions)]
    column = 2 if plural else (noun.gender == "f") + 3 * opens_with_vowel(before)
    return [(DETERMINERS[determiner][column], positions)]


def negate(tokens: list[Token], after: int, word: str, positions: Positions) -> list[Token]:
    """Put *ne* before the tokens and *pas* or *jamais* after the one at `after`."""
    return [("ne", positions), *tokens[: after + 1], (word, positions), *tokens[after + 1 :]]


def verb_group(
    clitics: list[Token], finite: Token, adverb: Token | None, participle: Token | None, infinitive: Token | None
) -> list[Token]:
    """Clitics stand before an infinitive, otherwise before the finite verb: *il m'a vu*, *il veut me voir*."""
    if infinitive is not None:
        return [finite, *clitics, infinitive]
    tokens = [*clitics, finite]
    if adverb is not None:
        tokens.append(adverb)
    if participle is not None:
        tokens.append(participle)
    return tokens


def surface(tokens: list[Token]) -> list[Token]:
    """Contract (*de le* → *du*), then elide (*la eau* → *l'eau*); an article that can elide is not contracted."""
    result: list[Token] = []
    following = ""
    for word, positions in reversed(tokens):
        if word in _UNSTABLE and following:
            if word in ELIDED and opens_with_vowel(following):
                word = ELIDED[word]
            elif (word, following) in CONTRACTED:
                word = CONTRACTED[word, following]
                positions = (*positions, *(position for position in result.pop()[1] if position not in positions))
        result.append((word, positions))
        following = word
    result.reverse()
    return result


def text(tokens: list[Token]) -> str:
    """The words with a space between, save after an apostrophe."""
    return " ".join([word for word, _ in tokens]).replace("' ", "'")
