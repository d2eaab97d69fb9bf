"""Recipes as TOML."""

from __future__ import annotations

import tomllib

from weft.recipe import make_recipe
from weft.recipe.toml import leading_comments, write_toml


def test_comments_at_the_head() -> None:
    recipe = make_recipe({})
    text = write_toml(recipe, ["steps: 100 (why)", "a\nb\x00"])
    assert text == "# steps: 100 (why)\n# a b \n\n" + write_toml(recipe)
    assert make_recipe(tomllib.loads(text)) == recipe
    assert leading_comments(text) == ["steps: 100 (why)", "a b "] and leading_comments(write_toml(recipe)) == []
