"""Which candidates form an ensemble; tests/apps/cli/commands/test_tune.py and test_tune.py compare real ones."""

from pathlib import Path

from weft.apps.tuning.ensemble import ensemble_members
from weft.recipe import make_recipe

BASE = make_recipe({})
OTHER = make_recipe({"tokenizer": {"size": 2000}})
COPYING = make_recipe({"model": {"copy": True}})
A, B, C, D, E = (Path(name) for name in "abcde")


def test_the_best_three_that_share_the_vocabulary_of_the_best():
    recipes = {A: BASE, B: OTHER, C: BASE, D: COPYING, E: make_recipe({"model": {"dropout": 0.5}})}
    assert ensemble_members([A, B, C, D, E], recipes) == [A, C, E]
    assert ensemble_members([B, A, C, D, E], recipes) == [B]
    assert ensemble_members([E, C, A], recipes) == [E, C, A]
    assert ensemble_members([A, C, E, A], recipes) == [A, C, E]
