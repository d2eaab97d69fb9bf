"""The task of the labs about alignment."""

from __future__ import annotations

import pytest

import weft
from weft.apps.labs import short_sentences
from weft.apps.labs.short_sentences import links_error, pairs, settings, training_pairs


def test_settings_are_those_of_a_recipe() -> None:
    recipe = weft.make_recipe(settings({"attention": {"score": "dot"}}, steps=7, learning_rate=0.01))
    assert recipe.training.steps == 7 and recipe.training.warmup == 3 and recipe.training.learning_rate == 0.01
    assert recipe.data.train_size == training_pairs(7) == 700
    assert training_pairs(10_000) == short_sentences.TRAINING_PAIRS


def test_test_pairs_are_short_and_have_links() -> None:
    test = pairs("test", 20, seed=3)
    assert test == pairs("test", 20, seed=3) != pairs("test", 20, seed=4)
    assert all(3 <= len(pair.source.split()) <= short_sentences.MAX_WORDS and pair.links for pair in test)


def test_links_error() -> None:
    test = pairs("test", 5, seed=1)
    assert links_error([list(pair.links or ()) for pair in test], test) == pytest.approx(0.0)
    assert links_error([[] for _ in test], test) == pytest.approx(100.0)
