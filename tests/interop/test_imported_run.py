"""README.md and recipe of an imported run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.tokenizers import learn
from interop.marian.test_importing import make
from weft.errors import CheckpointError
from weft.interop.imported_run import Conversion, ImportedModel, card, write_run
from weft.interop.importing import import_model
from weft.recipe import load_recipe, make_recipe
from weft.text.tokenizer import Tokenizers

STACK: dict[str, Any] = {"kind": "transformer", "hidden": 12, "layers": 2, "heads": 3, "feed_forward": 7}
MODEL: dict[str, Any] = {"embedding": 12, "tie": "none", "encoder": STACK, "decoder": {**STACK, "layers": 4}}


def make_imported(*, joint: bool = True, texts: str = "", **model: Any) -> ImportedModel:
    source = learn("word", ["a b c d"])
    tokenizers = Tokenizers(source, source if joint else learn("word", ["x y"]))
    conversion = Conversion({**MODEL, **model}, {}, (source.size, tokenizers.target.size))
    return ImportedModel("marian/", "model.npz", "config.json", "Marian", "MarianMT", conversion, tokenizers, {}, texts)


def card_of(imported: ImportedModel, **search: Any) -> list[str]:
    recipe = make_recipe({"name": "mine", "tokenizer": {"joint": False}, "model": MODEL, "search": search})
    return card(recipe, imported, Path("my runs") / "one").splitlines()


def test_card() -> None:
    lines = card_of(make_imported(), kind="beam", size=4)
    assert lines == [
        "# mine",
        "",
        "Imported by weft from marian/ (MarianMT). Its license is that of the original.",
        "",
        "- model: transformer encoder 2 × 12, decoder 4 × 12",
        "- vocabulary: 7",
        "- weights: those of the original, in single precision",
        "- search: beam of 4",
        "",
        "All settings: `recipe.toml`. Use it: `weft translate 'my runs/one'`, or `weft.load('my runs/one')` in Python.",
    ]


def test_card_of_other_models() -> None:
    lines = card_of(make_imported(joint=False, texts="tokens separated by spaces"), kind="greedy", size=4)
    assert "- vocabulary: 7 source, 5 target" in lines
    assert "- texts: tokens separated by spaces" in lines
    assert "- search: greedy" in lines


def test_a_model_that_weft_does_not_have(tmp_path: Path) -> None:
    imported = make_imported(encoder={**STACK, "heads": 5})
    with pytest.raises(CheckpointError) as caught:
        write_run(tmp_path / "run", "mine", imported)
    assert str(caught.value) == (
        "config.json: describes a model that weft does not have: model.encoder.heads: 5 heads do not divide the width "
        "12 (model.encoder.hidden)"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("positions", "longest"), [(0, 250), (30, 27), (3, 1)])
def test_longest_pairs_of_continued_training(positions: int, longest: int, tmp_path: Path) -> None:
    """As many tokens as there are positions, less those of the frame."""
    options = {"positions": positions, "transformer-train-position-embeddings": True} if positions else {}
    make(tmp_path / "marian", **options)
    recipe = load_recipe(import_model(tmp_path / "marian", tmp_path / "run") / "recipe.toml")
    assert (recipe.data.max_length, recipe.name, recipe.tokenizer.joint) == (longest, "marian", True)
    assert (recipe.training.learning_rate, recipe.training.label_smoothing) == (5e-5, 0.1)
    assert (tmp_path / "run" / "README.md").read_text("utf-8").startswith("# marian\n")


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    original = make(tmp_path / "marian")
    original.parameters["encoder_l1_ffn_b1"][0, 2] = float("inf")
    original.save(tmp_path / "marian" / "model.npz")
    with pytest.raises(
        CheckpointError, match=r"model.npz: tensor 'encoder.stack.layers.0.feed_forward.linear1.bias' has"
    ):
        import_model(tmp_path / "marian", tmp_path / "run")
    assert not (tmp_path / "run").exists()
