"""What is done to have kernels compiled, and that it waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft.apps.bench import warm
from weft.fast.cpu import compiled
from weft.recipe import Recipe


def test_a_recipe_is_trained_and_translated_with(tiny: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[dict[str, Any]] = []
    batches: list[int] = []
    plain = warm.Translator.translate_lines

    def translate_lines(self: Any, lines: list[str], **search: Any) -> Any:
        batches.append(len(lines))
        return plain(self, lines, **search)

    monkeypatch.setattr(compiled, "library", lambda **options: waited.append(options))
    monkeypatch.setattr(warm.Translator, "translate_lines", translate_lines)
    monkeypatch.setattr(warm, "UPDATES", 3)
    monkeypatch.setitem(warm.BATCHES, "cpu", (1, 7))
    assert warm.warm_recipe(tiny({"training.device": "cpu"})) == ("cpu", 3, 2)
    assert batches == [1, 7] and {"wait": True} in waited
