"""One tokenized corpus for several runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from weft.pairs.race.run import SharedPreparation
from weft.recipe import load_recipe, make_recipe
from weft.recipe.toml import write_toml


def test_it_is_shared_by_recipes_that_differ_in_model_and_seed(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a b\tb a\n" * 20, "utf-8")
    data = {"train": "train.tsv", "folder": str(tmp_path)}
    tree = {"name": "x", "data": data, "tokenizer": {"kind": "word"}}
    shared = SharedPreparation()
    first = shared(make_recipe(tree))
    assert shared(make_recipe({**tree, "seed": 2, "model": {"dropout": 0.4}})) is first
    assert shared(make_recipe({**tree, "tokenizer": {"kind": "character"}})) is not first
    assert shared(make_recipe({**tree, "data": {**data, "max_length": 3}})) is not first
    assert shared(make_recipe(tree), tokenizers=first.tokenizers) is not first
    assert len(shared.corpora) == 3


def test_a_further_model_shares_the_corpus_though_its_recipe_names_the_folder_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random variants would give it another tokenizer, and models with different ones cannot be combined."""
    monkeypatch.chdir(tmp_path)
    words = {f"{a}{b}{c}{d}": f"{a} {b} {c} {d}" for a, b, c, d in product("abc", "de", "fgh", "ij")}
    Path("train.tsv").write_text("".join(f"{word}\t{sounds}\n" for word, sounds in words.items()), "utf-8")
    data = {"train": "train.tsv", "pipeline": [{"kind": "splice", "context": 1}], "variants": 4}
    tokenizer = {"kind": "character", "target_kind": "word", "joint": False}
    recipe = make_recipe({"name": "x", "data": data, "tokenizer": tokenizer})
    shared = SharedPreparation()
    first = shared(recipe)
    Path("saved.toml").write_text(write_toml(recipe), "utf-8")
    saved = load_recipe(tmp_path / "saved.toml").model_copy(update={"seed": 2})
    saved = saved.model_copy(update={"data": saved.data.model_copy(update={"folder": str(tmp_path)})})
    assert saved.data.folder != recipe.data.folder
    assert shared(saved) is first
