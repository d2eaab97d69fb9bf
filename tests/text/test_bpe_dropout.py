"""Dropout by states and by heap, against the paper's algorithm to the letter."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.tokenizers import learn
from weft.errors import VocabularyError
from weft.recipe.choices import TOKENIZERS, resolve
from weft.text import bpe_dropout
from weft.text.specials import UNKNOWN

CORPUS = ["low lower newest widest", "l'ami (dé)", "slow lowest west"] * 3


def literal_word(symbols, merges, probability, random):
    """Provilkov et al. 2020, algorithm 1: throw for every possible merge, make the earliest-learned that is left."""
    while True:
        possible = [
            (merges[pair][0], place, merges[pair][1])
            for place, pair in enumerate(pairwise(symbols))
            if pair in merges and random.random() >= probability
        ]
        if not possible:
            return symbols
        _, place, made = min(possible)
        symbols = [*symbols[:place], made, *symbols[place + 2 :]]


def frequencies(draw, times=6000):
    return Counter(tuple(draw()) for _ in range(times))


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("way", ["states", "heap"])
def test_frequencies_are_those_of_the_paper(probability, way):
    tokenizer = learn("bpe", CORPUS, size=60)
    dropper, random, literal_random = tokenizer._dropout, Random(1), Random(2)
    symbols = tokenizer._to_symbols("lowest▁")
    if way == "states":
        found = frequencies(lambda: dropper.encode("lowest▁", tokenizer._to_symbols, probability, random))
    else:
        found = frequencies(lambda: bpe_dropout.merge_long(symbols, dropper.merges, probability, random))
    expected = frequencies(lambda: literal_word(symbols, dropper.merges, probability, literal_random))
    for outcome in found | expected:
        difference = abs(found[outcome] - expected[outcome])
        assert difference <= 5 * (found[outcome] + expected[outcome] + 1) ** 0.5, "five standard deviations"


@given(st.text("lowestnidé", max_size=40), st.integers(0, 99))
def test_without_dropout_all_ways_agree(text, seed):
    tokenizer = learn("bpe", CORPUS, size=60)
    symbols, merges = tokenizer._to_symbols(f"{text}▁"), tokenizer._dropout.merges
    expected = literal_word(symbols, merges, 0, Random(seed))
    assert bpe_dropout.merge_long(symbols, merges, 0, Random(seed)) == expected
    assert tokenizer._dropout.encode(f"{text}▁", tokenizer._to_symbols, 0, Random(seed)) == expected
    assert not text or tokenizer.encode(text) == expected


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"byte_level": True},
        {"byte_fallback": True},
        {"symbols": ["<2de>"], "protect": [r"\d+"], "end_of_word": False},
        {"normalize": "nfkc", "lowercase": True},
    ],
)
def test_the_text_stays(choices):
    tokenizer = learn("bpe", [*CORPUS, "12 12 <2de>"], size=400, **choices)
    texts = ["lowest  12 <2de>low", "", " ", "Lower жlow1", "low" * 40]
    whole = tokenizer.encode_batch(texts)
    assert tokenizer.encode_batch_with_dropout(texts, 0, Random(0)) == whole
    dropped = tokenizer.encode_batch_with_dropout(texts, 0.4, Random(0))
    assert dropped == tokenizer.encode_batch_with_dropout(texts, 0.4, Random(0))
    one_by_one = Random(0)
    assert dropped == [tokenizer.encode_with_dropout(text, 0.4, one_by_one) for text in texts]
    assert [tokenizer.decode(ids) for ids in dropped] == [tokenizer.decode(ids) for ids in whole]
    assert sum(map(len, dropped)) > sum(map(len, whole))
    letters = tokenizer.encode_batch_with_dropout(texts, 1, Random(0))
    if "symbols" in choices:
        assert tokenizer.tokens(letters[0]).count("12") == 1 and 3 in letters[0], "never cut"
    assert all(ids.count(UNKNOWN) == cut.count(UNKNOWN) for ids, cut in zip(whole, dropped, strict=True))


def test_states_are_let_go(monkeypatch):
    monkeypatch.setattr(bpe_dropout, "MAX_CACHED_STATES", 50)
    tokenizer = learn("bpe", CORPUS, size=60)
    random = Random(0)
    for _ in range(50):
        tokenizer.encode_batch_with_dropout(CORPUS, 0.5, random)
    assert tokenizer._dropout._states < 500


def test_who_can():
    assert [kind for kind in TOKENIZERS if resolve(TOKENIZERS, kind).supports_dropout] == ["bpe"]
    with pytest.raises(VocabularyError, match=r"^dropout -1, expected a probability from 0 to 1$"):
        learn("bpe", CORPUS, size=60).encode_batch_with_dropout(["a"], -1, Random(0))
