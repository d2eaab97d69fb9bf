"""Exchange and substitution, against literal versions, and on a small language of commands."""

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from weft.data.filtering.exchange import Exchange, Phrase, Phrases, Substitute
from weft.data.filtering.pipeline import Pipeline
from weft.data.pairs import Pair

VERBS = [["walk", "W"], ["run", "R"], ["jump", "J"]]
SIDES = [["left", "L"], ["right", "I"]]
PHRASES = [[" ".join((verb, side)), f"{turn} {step}"] for (verb, step), (side, turn) in product(VERBS, SIDES)]


def meaning(command: str) -> str:
    """The target of a command: VERB [left|right] [twice], two of them joined by *and* or *after*."""
    if " and " in command:
        return " ".join(map(meaning, command.split(" and ")))
    if " after " in command:
        return " ".join(map(meaning, reversed(command.split(" after "))))
    words = command.split()
    target = [turn for side, turn in SIDES if side in words] + [step for verb, step in VERBS if verb in words]
    return " ".join(target * (2 if words[-1] == "twice" else 1))


SIMPLE = [" ".join(filter(None, parts)) for parts in product(["walk", "run", "jump"], ("", "left"), ("", "twice"))]
COMMANDS = SIMPLE + [f"{first} {join} {second}" for first, join, second in product(SIMPLE, ("and", "after"), SIMPLE)]
PAIRS = [Pair(command, meaning(command)) for command in COMMANDS]


def test_exchanged_commands_keep_their_meaning_and_all_permutations_occur():
    step = Exchange(groups=[VERBS, SIDES])
    pairs = [Pair(*pair[:2]) for pair in PAIRS]
    changed = [pair for variant in range(8) for pair in Pipeline([step], seed=1).run(pairs, variant).pairs]
    assert all(pair.target == meaning(pair.source) for pair in changed)
    sources = {pair.source for pair in changed if "after" in pair.source}
    assert {"run right after walk", "jump right after run"} <= sources, "no source of the corpus has right"
    assert len({*sources} - {pair.source for pair in pairs}) > 100


@given(st.permutations(range(3)), st.lists(st.sampled_from(["walk", "run", "jump", "left"]), min_size=1, max_size=6))
def test_an_exchange_is_one_of_the_permutations(order, words):
    text = " ".join(words)
    [pair] = Exchange(groups=[VERBS]).apply([Pair(text, text.upper())], bytes(order))
    names = [entry[0] for entry in VERBS]
    assert pair.source in {
        " ".join(dict(zip(names, changed, strict=True)).get(word, word) for word in words)
        for changed in permutations(names)
    }
    assert pair.target == text.upper(), "none of its symbols is in a group"


def test_substituted_phrases_keep_the_meaning_of_commands():
    step = Substitute(groups=[PHRASES], probability=1.0)
    changed = [pair for variant in range(8) for pair in Pipeline([step], seed=1).run(PAIRS, variant).pairs]
    assert all(pair.target == meaning(pair.source) for pair in changed)
    assert len({pair.source for pair in changed}) > 1.5 * len(PAIRS)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("walk left and look", "L W L"),  # a token of the phrase is left
        ("walk left twice", "X"),  # the phrase has no target here
        ("walk left after walk left twice", "L W L W L W"),  # which part is whose?
        ("walk around left after walk left", "L W L W L W"),  # the target of a part that is no phrase looks like one
    ],
)
def test_a_pair_stays_as_it_is_where_the_target_of_a_phrase_is_in_doubt(source, target):
    groups = [[["walk left", "L W"], ["walk left twice", "L W L W"], ["run", "R"]]]
    pair = Pair(source, target)
    assert Substitute(groups=groups, probability=1.0).apply([pair], b"") == [pair]


def test_the_longest_phrase_is_found_first():
    phrases = Phrases([Phrase(("a",), ("x",)), Phrase(("a", "b"), ("y", "z"))])
    parts = phrases.parts(Phrase(("a", "b", "a"), ("x", "y", "z")))
    assert [phrase.source for phrase in parts.phrases] == [("a", "b"), ("a",)]
    assert parts.replaced({parts.phrases[0]: Phrase(("c",), ("w", "w"))}) == ("c a", "x w w")


def test_draws_depend_on_seed_text_and_variant_alone():
    pipeline, pairs = Pipeline([Exchange(groups=[VERBS])], seed=1), PAIRS[:40]
    first = pipeline.run(pairs).pairs
    assert pipeline.run(pairs[20:]).pairs == first[20:]
    assert pipeline.run(pairs, 1).pairs != first != Pipeline(pipeline.steps, seed=2).run(pairs).pairs
    assert Pipeline(pipeline.steps, seed=1).for_evaluation().steps == ()


@pytest.mark.parametrize(
    ("step", "groups", "message"),
    [
        (Exchange, [[["a", "x"]]], "exchange: a group needs two entries or more, each [source, target]"),
        (Exchange, [], "exchange: a group needs two entries or more, each [source, target]"),
        (Exchange, [[["a", "x"], ["b"]]], "exchange: ['b'] was given; expected [source, target]"),
        (Substitute, [[["a", "x"], ["b", " "]]], "substitute: ['b', ' '] was given; expected [source, target]"),
        (Exchange, [[["a b", "x"], ["b", "y"]]], "exchange: 'a b' is not one symbol; use substitute"),
        (Exchange, [[["a", "x"], ["b", "x"]]], "exchange: 'x' is in two entries; give it one"),
    ],
)
def test_groups_are_checked(step, groups, message):
    with pytest.raises(ValidationError) as caught:
        step(groups=groups)
    assert caught.value.errors()[0]["msg"] == f"Value error, data.pipeline: {message}"
