"""Trees of the grammar: sentences bracketed by hand, and what holds for every tree."""

from __future__ import annotations

import re

import pytest

from weft.evaluation.brackets import count_brackets, parse_tree, words_and_brackets
from weft.tasks import generate
from weft.tasks.grammar.constituents import BracketedWords, Constituent, mark
from weft.tasks.grammar.lexicon import NOUNS, PRONOUNS, TIMES
from weft.tasks.grammar.realization import realize
from weft.tasks.grammar.trees import Clause, Coordination, NounPhrase, Statement
from weft.tasks.grammar.verbs import VERBS

KING, QUEEN, HAT = (NounPhrase(NOUNS[name]) for name in ("king", "queen", "hat"))
GIVE = VERBS["give"]


@pytest.mark.parametrize(
    ("statement", "tree"),
    [
        (
            Clause(PRONOUNS["he"], VERBS["hit with a pie"], "past", object=PRONOUNS["i"]),
            "(TOP (S (NP he ) (VP hit (NP me ) with a pie ) ) )",
        ),
        (
            Clause(Coordination(KING, QUEEN), GIVE, "past", object=HAT, recipient=QUEEN, time=TIMES["yesterday"]),
            "(TOP (S (NP (NP the king ) and (NP the queen ) ) (VP gave (NP the hat ) (PP to (NP the queen ) ) "
            "(ADVP yesterday ) ) ) )",
        ),
        (
            Clause(KING, GIVE, "past", object=HAT._replace(possessor=QUEEN), recipient=PRONOUNS["i"]),
            "(TOP (S (NP the king ) (VP gave (NP me ) (NP the hat (PP of (NP the queen ) ) ) ) ) )",
        ),
    ],
)
def test_trees_by_hand(statement: Statement, tree: str) -> None:
    english = BracketedWords()
    realize(english, statement)
    assert english.tree() == tree


def test_every_tree_has_the_words_of_its_sentence() -> None:
    pairs = list(generate("trees", "train", 500, options={"max_words": 30}))
    for pair in pairs:
        tree = parse_tree(pair.target)
        assert tree is not None and tree.label == "TOP"
        words, brackets = words_and_brackets(tree, tagged=False)
        assert words == pair.source.split() == re.sub(r"\(\w+|\)", "", pair.target).split()
        assert {label for label, _, _ in brackets} <= {"S", "NP", "VP", "PP", "ADVP", "ADJP"}
    targets = [pair.target for pair in pairs]
    assert all(line.matched == line.output == line.reference for line in count_brackets(targets, targets))


def test_the_sentences_are_those_of_the_grammar() -> None:
    options = {"max_words": 4}
    sources = {pair.source for pair in generate("grammar", "train", 3_000, options=options)}
    trees = list(generate("trees", "train", 100, options=options))
    assert sum(pair.source in sources for pair in trees) > 20


def test_constituents_of_deleted_words_are_forgotten() -> None:
    english = BracketedWords()
    english += ["he", "left", "me"]
    mark(english, "NP", 2)
    del english[1:]
    mark(english, "NP", 0)
    mark(english, "VP", 1)  # no words
    assert english.constituents == [Constituent("NP", 0, 1)] and english.tree() == "(TOP (NP he ) )"
    english.clear()
    assert not english and not english.constituents
    mark(["he"], "NP", 0)  # a plain list keeps nothing
