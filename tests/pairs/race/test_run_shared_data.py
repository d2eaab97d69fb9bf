"""One tokenized corpus for several runs."""

from __future__ import annotations

from pathlib import Path

from weft.pairs.race.run import SharedPreparation
from weft.recipe import make_recipe


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
