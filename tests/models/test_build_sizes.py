"""Sizes are compared with the available memory before anything is allocated."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.errors import RecipeError
from weft.models.build import build_model, check_training_memory, parameter_count, parameter_shapes
from weft.recipe import make_recipe
from weft.runtime import devices

CPU = torch.device("cpu")
TRANSFORMER = {"kind": "transformer", "hidden": 6, "heads": 3, "feed_forward": 7}


@pytest.mark.parametrize(
    "model",
    [
        {"encoder": {"hidden": 6, "layers": 5}, "decoder": {"hidden": 6, "layers": 4}},
        {"encoder": {"hidden": 6, "layers": 7, "connections": "dense"}, "decoder": {"hidden": 6, "layers": 2}},
        {"encoder": {"hidden": 6, "layers": 5}, "decoder": {"hidden": 6, "layers": 5, "connections": "dense"}},
        {"encoder": {"hidden": 6, "layers": 4}, "decoder": {"hidden": 10, "layers": 3}},
        {"encoder": {**TRANSFORMER, "layers": 5}, "decoder": {**TRANSFORMER, "layers": 4, "positions": "relative"}},
        {"kind": "prefix_lm", "decoder": {**TRANSFORMER, "layers": 6}, "tie": "all"},
        {"kind": "language_model", "decoder": {"hidden": 6, "layers": 9}},
    ],
)
def test_parameters_are_counted_from_three_layers(model: dict[str, Any]) -> None:
    settings = make_recipe({"model": {"embedding": 5, "bridge": "zero", **model}}).model
    built = build_model(settings, source_size=13, target_size=13)
    expected = sum(parameter.numel() for parameter in built.parameters())
    assert parameter_count(settings, source_size=13, target_size=13) == expected


@pytest.mark.parametrize(
    ("model", "setting"),
    [
        ({"decoder": {"hidden": 900_000}}, "model.decoder.hidden = 900000"),
        ({"encoder": {"layers": 1000}, "decoder": {"hidden": 8192}}, "model.encoder.layers = 1000"),
        ({"embedding": 1_000_000, "encoder": {"hidden": 100_000}}, "model.embedding = 1000000"),
        (
            {"encoder": {**TRANSFORMER, "feed_forward": 1_000_000, "layers": 900}},
            "model.encoder.feed_forward = 1000000",
        ),
    ],
)
def test_a_model_that_is_too_large_to_train(
    model: dict[str, Any], setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "available_memory", lambda: 8_000_000_000)
    with pytest.raises(RecipeError) as error:
        check_training_memory(make_recipe({"model": model}), source_size=99, target_size=99, device=CPU)
    assert str(error.value).startswith(f"{setting}: a model of ") and "\n" not in str(error.value)
    assert "(16 bytes each), and 8.0 GB are available on cpu; make it smaller" in str(error.value)


def test_the_bytes_of_a_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its value, its gradient and what the optimizer keeps."""
    count = parameter_count(make_recipe({}).model, source_size=99, target_size=99)
    for settings, each in (
        ({}, 16),
        ({"optimizer": "adam"}, 16),
        ({"optimizer": "sgd"}, 12),
        ({"shard": "full"}, 4),
    ):
        recipe = make_recipe({"training": settings})
        monkeypatch.setattr(devices, "available_memory", lambda limit=count * each: limit)
        check_training_memory(recipe, source_size=99, target_size=99, device=CPU)
        monkeypatch.setattr(devices, "available_memory", lambda limit=count * each: limit - 1)
        with pytest.raises(RecipeError, match=rf"\({each} bytes each\)"):
            check_training_memory(recipe, source_size=99, target_size=99, device=CPU)


def test_frozen_weights_need_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = make_recipe({"training": {"freeze": ["encoder.*"]}})
    shapes = parameter_shapes(recipe.model, source_size=99, target_size=99)
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    trained = sum(size for name, size in sizes.items() if not name.startswith("encoder."))
    needed = 4 * sum(sizes.values()) + 12 * trained
    monkeypatch.setattr(devices, "available_memory", lambda: needed)
    check_training_memory(recipe, source_size=99, target_size=99, device=CPU)
    monkeypatch.setattr(devices, "available_memory", lambda: needed - 1)
    with pytest.raises(
        RecipeError, match=rf"\(16 bytes for each of the {trained:,} that are trained, 4 for the others"
    ):
        check_training_memory(recipe, source_size=99, target_size=99, device=CPU)


def test_training_checks_it(tiny: Any, tmp_path: Path) -> None:
    from weft.training.train import train

    with pytest.raises(RecipeError, match=r"^model\.decoder\.hidden = 999998: a model of [\d,]+ parameters needs"):
        next(train(tiny({"model.decoder.hidden": 999_998}), tmp_path / "run"))
    assert not (tmp_path / "run").exists()
