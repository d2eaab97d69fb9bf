"""The statistical translator: its language model by hand, and translations of a made-up language."""

from __future__ import annotations

import math

import pytest

from weft.apps.labs.word_translator import BACKOFF, BEGIN, TrigramModel, WordTranslator
from weft.data.pairs import Pair

PAIRS = [
    Pair("the cat sleeps", "le chat dort"),
    Pair("the dog sleeps", "le chien dort"),
    Pair("the cat eats", "le chat mange"),
    Pair("a dog eats", "un chien mange"),
    Pair("a cat sleeps", "un chat dort"),
]


def test_probabilities_by_hand() -> None:
    """After "<s> <s>", two of three sentences begin with a; four of ten tokens are a."""
    model = TrigramModel()
    for sentence in (["a", "b"], ["a", "a"], ["b", "a", "b"]):
        model.add(sentence)
    uniform = 1 / (len({"a", "b", "</s>"}) + 1)
    unigram = (1 - BACKOFF) * 4 / 10 + BACKOFF * uniform
    bigram = (1 - BACKOFF) * 2 / 3 + BACKOFF * unigram
    trigram = (1 - BACKOFF) * 2 / 3 + BACKOFF * bigram
    assert model.log_p("a", (BEGIN, BEGIN)) == pytest.approx(math.log(trigram))


def test_every_probability_sums_to_one() -> None:
    model = TrigramModel()
    model.add(["a", "b", "a"])
    words = [*model.vocabulary, "unseen"]
    for history in ((BEGIN, BEGIN), ("a", "b"), ("b", "b")):
        assert sum(math.exp(model.log_p(word, history)) for word in words) == pytest.approx(1)


def test_an_unseen_combination_is_translated() -> None:
    translator = WordTranslator(PAIRS)
    assert translator.translate("the dog eats") == "le chien mange"


def test_an_unknown_word_is_copied() -> None:
    assert "zebra" in WordTranslator(PAIRS).translate("the zebra sleeps").split()


def test_the_best_of_all_outputs() -> None:
    """A wide beam finds the output whose score, computed apart, is the highest."""
    translator = WordTranslator(PAIRS)
    source = "a cat eats"
    best: tuple[float, str] = (-math.inf, "")

    def extend(words: list[str], score: float, output: tuple[str, ...]) -> None:
        nonlocal best
        if not words:
            history = (BEGIN, BEGIN)
            for word in (*output, "</s>"):
                score += translator.language.log_p(word, history)
                history = (history[1], word)
            best = max(best, (score, " ".join(output)))
            return
        for phrase, log_p in translator.phrases[words[0]]:
            extend(words[1:], score + log_p, output + phrase)

    extend(source.split(), 0.0, ())
    assert translator.translate(source, beam=1_000) == best[1]
