"""Sizes are compared with the available memory before anything is allocated."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.errors import CheckpointError, RecipeError
from weft.models import build
from weft.models.build import build_model, parameter_shapes
from weft.recipe import make_recipe
from weft.runs import memory
from weft.runs.memory import available_memory, check_training_memory, device_memory, parameter_count
from weft.runs.weights import read_shapes, read_tensors, write_tensors
from weft.translation.load import load

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
    monkeypatch.setattr(memory, "available_memory", lambda: 8_000_000_000)
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
        monkeypatch.setattr(memory, "available_memory", lambda limit=count * each: limit)
        check_training_memory(recipe, source_size=99, target_size=99, device=CPU)
        monkeypatch.setattr(memory, "available_memory", lambda limit=count * each: limit - 1)
        with pytest.raises(RecipeError, match=rf"\({each} bytes each\)"):
            check_training_memory(recipe, source_size=99, target_size=99, device=CPU)


def test_frozen_weights_need_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = make_recipe({"training": {"freeze": ["encoder.*"]}})
    shapes = parameter_shapes(recipe.model, source_size=99, target_size=99)
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    trained = sum(size for name, size in sizes.items() if not name.startswith("encoder."))
    needed = 4 * sum(sizes.values()) + 12 * trained
    monkeypatch.setattr(memory, "available_memory", lambda: needed)
    check_training_memory(recipe, source_size=99, target_size=99, device=CPU)
    monkeypatch.setattr(memory, "available_memory", lambda: needed - 1)
    with pytest.raises(
        RecipeError, match=rf"\(16 bytes for each of the {trained:,} that are trained, 4 for the others"
    ):
        check_training_memory(recipe, source_size=99, target_size=99, device=CPU)


def test_training_checks_it(tiny: Any, tmp_path: Path) -> None:
    from weft.training.train import train

    with pytest.raises(RecipeError, match=r"^model\.decoder\.hidden = 999998: a model of [\d,]+ parameters needs"):
        next(train(tiny({"model.decoder.hidden": 999_998}), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


class TestMemory:
    def test_is_known(self) -> None:
        amount = available_memory()
        assert amount is None or 0 < amount < 1 << 50
        assert device_memory(CPU) is not None

    def test_of_a_control_group(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, text in {
            "memory.max": "1000",
            "memory.current": "700",
            "memory.stat": "anon 5\ninactive_file 60\n",
        }.items():
            (tmp_path / name).write_text(text)
        monkeypatch.setattr(memory, "_own_groups", lambda: [tmp_path])
        assert available_memory() == 360
        (tmp_path / "memory.max").write_text("max\n")
        assert (available_memory() or 1000) > 360

    def test_of_a_limit_of_the_shell(self) -> None:
        code = "from weft.runs.memory import available_memory; print(available_memory())"
        limit = 4 << 30
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        assert 0 < int(run.stdout) < limit


class TestFiles:
    """A recipe and a file that do not fit each other are refused before weights are allocated; reading stops."""

    def change(self, run: Any, before: str, after: str) -> None:
        text = run.recipe.read_text("utf-8")
        assert before in text
        run.recipe.write_text(text.replace(before, after), "utf-8")

    def refused(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> str:
        build_model = build.build_model

        def shapes_only(*arguments: Any, **options: Any) -> Any:
            model = build_model(*arguments, **options)
            assert all(weights.untyped_storage().nbytes() <= 4 for weights in model.parameters())
            return model

        monkeypatch.setattr(build, "build_model", shapes_only)
        with pytest.raises(CheckpointError) as error:
            load(run.path)
        return str(error.value)

    def test_a_width(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.change(run, "embedding = 11", "embedding = 1000000")
        assert self.refused(run, monkeypatch).startswith(f"{run.model}: does not fit its recipe: tensor ")

    def test_layers(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.change(run, "layers = 1\n", "layers = 1000\n")
        assert "fewer than model.encoder.layers = 1000" in self.refused(run, monkeypatch)

    def test_large_tensors(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sparse file of many gigabytes takes no room on the disk of a stranger."""
        tensors, metadata = read_tensors(run.model)
        header_only = {**tensors, "more": torch.zeros(8)}
        write_tensors(run.model, header_only, metadata)
        assert "has an unknown tensor 'more'" in self.refused(run, monkeypatch)
        monkeypatch.setattr(memory, "available_memory", lambda: 1000)
        with pytest.raises(CheckpointError, match=r"its tensors have .* MB, and 0\.0 MB of memory are available"):
            read_tensors(run.model)
        assert read_shapes(run.model)["more"] == (8,)
