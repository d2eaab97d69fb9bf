"""Splicing: new words from the parts of two, against a literal search for alignments and joins."""

from itertools import product
from random import Random

import pytest

from weft.data.filtering.pipeline import Pipeline
from weft.data.filtering.splice import Splice, align
from weft.data.pairs import Pair

SOUNDS = {"a": "A", "b": "B", "c": "K S", "d": "D", "e": "E", "g": "", "i": "I"}


def spelled(word: str) -> str:
    """A pronunciation by rules: a letter has one, two or no symbols."""
    return " ".join(filter(None, (SOUNDS[letter] for letter in word)))


RANDOM = Random(1)
WORDS = sorted({"".join(RANDOM.choices("abcdegi", k=RANDOM.randint(2, 7))) for _ in range(300)})
PAIRS = [Pair(word, spelled(word)) for word in WORDS]


def test_letters_are_aligned_with_their_symbols():
    aligned = align([(list(pair.source), pair.target.split()) for pair in PAIRS])
    for word, chunks in zip(WORDS, aligned, strict=True):
        assert chunks == tuple((letter, tuple(SOUNDS[letter].split())) for letter in word)


def test_a_target_that_is_too_long_has_no_alignment():
    assert align([("a", list("xyzw")), ("ab", list("xy"))]) == [None, (("a", ("x",)), ("b", ("y",)))]


@pytest.mark.parametrize("context", [1, 2])
def test_spliced_words_follow_the_rules_and_are_made_of_two(context):
    step, known = Splice(context=context, probability=1.0), {*WORDS}
    some = PAIRS[::3]
    made = {pair for variant in range(6) for pair in Pipeline([step], seed=1).run(some, variant).pairs} - {*some}
    assert len(made) > 20
    sources = [pair.source for pair in some]
    for pair in made:
        assert pair.target == spelled(pair.source) and pair.source not in sources
        assert any(
            pair.source == first[:cut] + second[place:]
            and first[cut : cut + context] == second[place : place + context]
            for first, second in product(sources, sources)
            for cut in range(1, len(first) - context)
            for place in range(len(second) - context)
        )
    assert {pair.source for pair in made} & known, "words that were left out are among them"


def test_splicing_is_a_function_of_pairs_and_seed():
    runs = [
        Pipeline([Splice(context=1)], seed=seed).run(PAIRS, variant).pairs for seed, variant in ((1, 0), (1, 0), (2, 0))
    ]
    assert runs[0] == runs[1] != runs[2]
    unchanged = sum(pair == before for pair, before in zip(runs[0], PAIRS, strict=True))
    assert 0.3 * len(PAIRS) < unchanged < 0.9 * len(PAIRS)


def test_letters_of_syllables_and_characters_of_names():
    pairs = [
        Pair("가나", "kana"),
        Pair("바나", "pana"),
        Pair("가다", "kata"),
        Pair("바마", "pama"),
        Pair("나마", "nama"),
    ]
    step = Splice(context=1, probability=1.0, unit="characters")
    made = {pair for variant in range(20) for pair in step.apply(pairs, bytes([variant]))} - {*pairs}
    latin = dict(zip("가나다바마", ("ka", "na", "ta", "pa", "ma"), strict=True))
    assert made
    for pair in made:
        assert pair.target == "".join(latin[syllable] for syllable in pair.source)


def test_too_few_words_stay_as_they_are():
    assert Splice(probability=1.0).apply([Pair("ab", "A B")], b"") == [Pair("ab", "A B")]
    assert Splice().apply([], b"") == []
