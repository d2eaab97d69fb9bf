"""Which sources of a run become examples."""

import os

from weft.data.preparation.corpora import example_sources
from weft.recipe import make_recipe


def recipe_of(folder, **changes):
    settings = {"train": "p.tsv", "folder": str(folder), **changes.pop("data", {})}
    return make_recipe({"data": settings, **changes})


def test_short_sources_of_the_validation_or_test_set(tmp_path):
    rows = [f"{'long ' * number}{number}\tsecret" for number in range(1, 40)]
    (tmp_path / "p.tsv").write_text("\n".join(rows), "utf-8")
    (tmp_path / "v.tsv").write_text("valid\tsecret\n", "utf-8")
    sources = example_sources(recipe_of(tmp_path, data={"test": "p.tsv"}))
    assert sources[:2] == ["long 1", "long long 2"] and len(sources) == 8
    assert example_sources(recipe_of(tmp_path, data={"valid": "v.tsv", "test": "p.tsv"})) == ["valid"]
    assert example_sources(recipe_of(tmp_path)) == []
    assert example_sources(recipe_of(tmp_path, data={"valid": "v.tsv"}, serve={"examples": False})) == []


def test_a_source_that_occurs_twice_is_one_example(tmp_path):
    (tmp_path / "p.tsv").write_text("a\tb\na\tc\nd\te\n", "utf-8")
    assert example_sources(recipe_of(tmp_path, data={"test": "p.tsv"})) == ["a", "d"]


def test_what_cannot_be_read_again_is_not_read(tmp_path):
    """Training reads it."""
    os.mkfifo(tmp_path / "pipe.tsv")
    (tmp_path / "p.tsv").write_text("a\tb\n", "utf-8")
    assert example_sources(recipe_of(tmp_path, data={"valid": "pipe.tsv", "test": "-"})) == []
    assert example_sources(recipe_of(tmp_path, data={"valid": "gone.tsv", "test": "p.tsv"})) == ["a"]


def test_a_language_model_has_first_words(tmp_path):
    (tmp_path / "p.txt").write_text("das Haus\nein Hund\n", "utf-8")
    recipe = recipe_of(tmp_path, data={"train": "p.txt", "test": "p.txt"}, model={"kind": "language_model"})
    assert example_sources(recipe) == ["das", "ein"]
