"""Files whose sizes do not fit a recipe, or the memory, are refused before anything is allocated."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.errors import CheckpointError
from weft.models import build
from weft.runs.weights import read_shapes, read_tensors, write_tensors
from weft.runtime import devices
from weft.translation.load import load


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
        monkeypatch.setattr(devices, "available_memory", lambda: 1000)
        with pytest.raises(CheckpointError, match=r"its tensors have .* MB, and 0\.0 MB of memory are available"):
            read_tensors(run.model)
        assert read_shapes(run.model)["more"] == (8,)
