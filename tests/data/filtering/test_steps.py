"""Steps: each against a literal version of what it says, and every refusal in its words."""

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.letters import scripts_of
from weft.data.filtering.exchange import Exchange, Substitute
from weft.data.filtering.noise import Noise
from weft.data.filtering.splice import Splice
from weft.data.filtering.steps import (
    Call,
    Duplicates,
    Identical,
    Length,
    Lowercase,
    Pattern,
    Prefix,
    Ratio,
    Replace,
    Scripts,
    Step,
    Truncate,
)
from weft.data.pairs import Pair
from weft.errors import DataError
from weft.recipe.choices import STEPS, resolve
from weft.text.words import words

TEXT = st.text(st.sampled_from(list("ab B.'\t\u00a0\u3000яЖ日é\u0301")), max_size=12)
PAIRS = st.lists(st.builds(Pair, TEXT, TEXT, st.none()), max_size=8)
SIDE = st.sampled_from(["both", "source", "target"])
UNIT = st.sampled_from(["words", "characters"])
EXAMPLES = [
    Length(),
    Ratio(),
    Duplicates(),
    Identical(),
    Scripts(allowed=["Latin"]),
    Pattern(expression="a"),
    Lowercase(),
    Prefix(text="<2de>"),
    Replace(expression="a", replacement="b"),
    Truncate(max=3),
    Noise(drop=0.3),
    Exchange(groups=[[["a", "x"], ["b", "y"]]]),
    Substitute(groups=[[["a", "x"], ["b c", "y z"]]]),
    Splice(),
    Call(function=bool),
]


def sides(pair, side):
    return {"both": [pair.source, pair.target], "source": [pair.source], "target": [pair.target]}[side]


def size(text, unit):
    return len(text.split()) if unit == "words" else len(text)


def expect(step, pairs, keeps):
    assert step.apply(pairs, b"") == [pair if keeps(pair) else None for pair in pairs]


def test_the_table_has_every_step_but_the_call():
    classes = {kind: resolve(STEPS, kind) for kind in STEPS}
    assert [type(step) for step in EXAMPLES] == [*classes.values(), Call]
    assert all(step.model_fields["kind"].default == kind for kind, step in classes.items())
    assert all(isinstance(step, Step) for step in EXAMPLES)


def test_what_holds_for_training_only():
    everywhere = [step.kind for step in EXAMPLES if not step.training_only]
    assert everywhere == ["lowercase", "prefix", "replace", "truncate"]


@pytest.mark.parametrize("step", EXAMPLES, ids=lambda step: step.kind)
def test_a_step_can_be_sent_to_another_process_and_does_nothing_to_nothing(step):
    assert pickle.loads(pickle.dumps(step)) == step
    assert step.apply([], b"1") == []


@given(PAIRS, st.integers(1, 4), UNIT, SIDE)
def test_truncate(pairs, count, unit, side):
    step = Truncate(max=count, unit=unit, side=side)
    for before, after in zip(pairs, step.apply(pairs, b""), strict=True):
        for name in ("source", "target"):
            text, kept = getattr(before, name), getattr(after, name)
            if side not in (name, "both") or size(text, unit) <= count:
                assert kept == text
            elif unit == "characters":
                assert kept == text[:count]
            else:
                assert kept.split() == text.split()[:count] and text.startswith(kept) and kept == kept.rstrip()


def test_truncate_drops_the_links_of_words_that_are_gone():
    pair = Pair("a b c d e", "x y", ((0, 0), (4, 1)))
    assert Truncate(max=2).apply([pair], b"") == [Pair("a b", "x y")]
    assert Truncate(max=5).apply([pair], b"") == [pair]


@given(PAIRS, st.integers(0, 4), st.integers(0, 5), UNIT, SIDE)
def test_length(pairs, low, high, unit, side):
    def keeps(pair):
        sizes = [size(text, unit) for text in sides(pair, side)]
        return all(low <= length and (length <= high or high == 0) for length in sizes)

    if high and low > high:
        return
    expect(Length(min=low, max=high, unit=unit, side=side), pairs, keeps)


@given(PAIRS, st.sampled_from([1.0, 1.5, 2.0, 3.0, 1.1]), UNIT)
def test_ratio(pairs, limit, unit):
    def keeps(pair):
        shorter, longer = sorted([size(pair.source, unit), size(pair.target, unit)])
        if shorter == longer:
            return True
        return shorter > 0 and longer / shorter <= limit

    expect(Ratio(max=limit, unit=unit), pairs, keeps)


def test_a_ratio_is_kept_at_its_bound():
    assert Ratio(max=1.1).apply([Pair("a " * 11, "b " * 10), Pair("a " * 12, "b " * 10)], b"")[1] is None
    assert Ratio(max=1.1).apply([Pair("a " * 11, "b " * 10)], b"") == [Pair("a " * 11, "b " * 10)]


@given(PAIRS)
def test_identical(pairs):
    expect(Identical(), pairs, lambda pair: pair.source.strip() != pair.target.strip())


@given(PAIRS, st.sampled_from([["Latin"], ["Cyrillic", "Han"]]), st.sampled_from([0.0, 0.5, 0.55, 1.0]), SIDE)
def test_scripts(pairs, allowed, min_share, side):
    def keeps(pair):
        for text in sides(pair, side):
            counts = scripts_of(text)
            if counts and sum(counts[name] for name in allowed) / counts.total() < min_share:
                return False
        return True

    expect(Scripts(allowed=allowed, min_share=min_share, side=side), pairs, keeps)


def test_scripts_of_more_pairs_than_are_looked_at_together(monkeypatch):
    monkeypatch.setattr("weft.data.filtering.steps.SCRIPT_BATCH", 3)
    pairs = [Pair("abc", "где"), Pair("abc", "def"), Pair("1", "2"), Pair("日本", "x")] * 3
    expect(Scripts(allowed=["Latin"]), pairs, lambda pair: not set("где日本") & set(pair.source + pair.target))


@given(PAIRS, st.sampled_from(["a", "^b", r"\s$", "(?i)B{2}"]), st.booleans(), SIDE)
def test_pattern(pairs, expression, keep, side):
    def keeps(pair):
        found = [bool(re.search(expression, text)) for text in sides(pair, side)]
        return all(found) if keep else not any(found)

    expect(Pattern(expression=expression, keep=keep, side=side), pairs, keeps)


@given(PAIRS, SIDE)
def test_lowercase_prefix_and_replace(pairs, side):
    for step, change in [
        (Lowercase(side=side), str.lower),
        (Prefix(text="<2de>", side=side), lambda text: "<2de> " + text),
        (Replace(expression="(a)b", replacement=r"\1 c", side=side), lambda text: text.replace("ab", "a c")),
    ]:
        expected = []
        for pair in pairs:
            source = change(pair.source) if side != "target" else pair.source
            target = change(pair.target) if side != "source" else pair.target
            expected.append(Pair(source, target))
        assert step.apply(pairs, b"") == expected


def test_links_are_kept_while_the_words_stay_as_many():
    pair = Pair("Ein Haus", "A HOUSE", ((0, 0), (1, 1)))
    assert Lowercase().apply([pair], b"") == [Pair("ein haus", "a house", pair.links)]
    assert Replace(expression="Haus", replacement="Boot").apply([pair], b"") == [
        Pair("Ein Boot", "A HOUSE", pair.links)
    ]
    assert Replace(expression="Haus", replacement="Haus am See").apply([pair], b"") == [
        Pair("Ein Haus am See", "A HOUSE")
    ]
    assert Replace(expression="A ", side="target").apply([pair], b"") == [Pair("Ein Haus", "HOUSE")]
    assert Replace(expression="x", replacement="y").apply([pair], b"") == [pair]


@given(TEXT, TEXT, SIDE)
def test_a_prefix_moves_links_along(source, target, side):
    links = tuple((i, j) for i in range(len(words(source))) for j in range(len(words(target))))
    (after,) = Prefix(text="<2de>", side=side).apply([Pair(source, target, links)], b"")
    assert after.links is not None and len(after.links) == len(links)
    for (i, j), (k, m) in zip(links, after.links, strict=True):
        assert words(after.source)[k] == words(source)[i]
        assert words(after.target)[m] == words(target)[j]


def test_duplicates_are_hashed_by_what_must_not_come_twice():
    pairs = [Pair("a", "b"), Pair("a", "c"), Pair("d", "c"), Pair("a", "b")]
    for of, equal in [("pair", [0, 1, 2, 0]), ("source", [0, 0, 2, 0]), ("target", [0, 1, 1, 0])]:
        hashes = Duplicates(of=of).hashes(pairs)
        assert [hashes.index(one) for one in hashes] == equal
        assert all(0 <= one < 1 << 64 for one in hashes)
        assert Duplicates(of=of).apply(pairs, b"") == pairs


def test_a_call_may_change_keep_or_drop():
    def own(pair):
        return {"a": None, "b": True, "c": False, "d": Pair("D", "x")}[pair.source]

    pairs = [Pair(letter, "t") for letter in "abcd"]
    assert Call(function=own).apply(pairs, b"") == [None, pairs[1], None, Pair("D", "x")]
    assert str(Call(function=own)) == "call: own" and str(Call(function=own, name="mine")) == "call: mine"


def test_a_call_may_return_a_plain_tuple():
    assert Call(function=lambda pair: (pair.target, pair.source)).apply([Pair("a", "b")], b"") == [Pair("b", "a")]


def test_a_call_that_gives_something_else_is_named():
    for answer, given_text in [(("a", 3), "tuple"), (1, "int"), (Pair(1, "b"), "a Pair of other things than texts")]:
        with pytest.raises(DataError) as caught:
            Call(function=lambda pair, answer=answer: answer, name="mine").apply([Pair("x" * 99, "y")], b"")
        assert str(caught.value) == (
            f"pipeline step 'mine': returned {given_text} for the pair '{'x' * 40}…' / 'y'; "
            "expected a Pair, None to drop it, True or False"
        )


def test_a_call_that_fails_is_named_with_the_pair():
    def own(pair):
        raise KeyError("no\nsuch")

    with pytest.raises(DataError) as caught:
        Call(function=own).apply([Pair("x\n", "y")], b"")
    assert str(caught.value) == r"pipeline step 'own': KeyError: 'no\nsuch'; at the pair 'x\n' / 'y'"
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (Length(min=1, max=100), "length: 1 to 100 words on both sides"),
        (Length(side="source", unit="characters"), "length: at least 1 characters on the source"),
        (Ratio(max=1.5), "ratio: the longer side at most 1.5 times the shorter, in words"),
        (Duplicates(of="source"), "duplicates: the first of the same source stays"),
        (Scripts(allowed=["Latin", "Greek"]), "scripts: 90% of the letters Latin or Greek on both sides"),
        (Pattern(expression="http", keep=False), "pattern: without 'http' on both sides"),
        (Noise(drop=0.1, shuffle_distance=3), "noise: words of the source 0.1 dropped, shuffled by up to 3"),
    ],
)
def test_a_step_describes_itself(step, line):
    assert str(step) == line
