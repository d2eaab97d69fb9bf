"""The time of updates on a CPU, before anything can be measured."""

from __future__ import annotations

from typing import Any

import pytest

from weft.models.build import build_model
from weft.pairs.recommendation.network import recurrent, transformer
from weft.pairs.recommendation.speed import epochs_in, steps_in, weights_per_token
from weft.recipe import make_recipe


def _tree(cell: str, **attention: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {"model": {"encoder": {}, "decoder": {}, "attention": attention}}
    settings = transformer((3, 2), 16, 20, 4) if cell == "transformer" else recurrent(cell, 12, 7)
    for name, value in settings.items():
        *groups, last = name.split(".")
        branch = tree
        for group in groups:
            branch = branch[group]
        branch[last] = value
    return tree


@pytest.mark.parametrize("kind", ["gru", "transformer"])
def test_weights_are_those_of_the_matrices(kind: str) -> None:
    tree = _tree(kind) if kind == "transformer" else _tree(kind, score="general")
    if kind == "gru":
        tree["model"]["decoder"]["input_feeding"] = True
    model = build_model(make_recipe(tree).model, source_size=11, target_size=13)
    matrices = [weight for weight in model.parameters() if weight.ndim == 2 and not {11, 13} & {*weight.shape}]
    assert weights_per_token(tree["model"]) == sum(weight.numel() for weight in matrices)


def test_hard_attention_and_larger_batches_take_longer() -> None:
    soft, hard = steps_in(60, _tree("gru"), 1_024), steps_in(60, _tree("gru", hard="first"), 1_024)
    assert hard <= soft
    assert steps_in(60, _tree("gru"), 2_048) < soft
    assert steps_in(0.001, _tree("lstm"), 2_048) == 100


def test_epochs_are_steps_of_all_pairs() -> None:
    tree = _tree("transformer")
    assert epochs_in(3_600, tree, 512_000) == pytest.approx(steps_in(3_600, tree, 512) / 1_000, rel=0.01)
