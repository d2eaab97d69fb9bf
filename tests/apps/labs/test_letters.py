"""Letters: the sources, and which letters of a copy are right."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.apps.labs.letters import copied_letters, draw_letters, forced_errors, share_right


class Copier:
    """A model whose outputs are given."""

    def __init__(self, outputs: Sequence[str]) -> None:
        self.outputs = outputs
        self.search: dict[str, Any] = {}

    def translate(self, texts: Sequence[str], **search: Any) -> list[Any]:
        self.search = search
        return [SimpleNamespace(tokens=output.split()) for output in self.outputs]


def test_positions_are_compared_one_by_one() -> None:
    run: Any = Copier(["a b c", "d f e", "g", "x k l"])
    assert copied_letters(run, ["a b c", "d e f", "g h i", "j k l"]) == [75, 50, 50]
    assert share_right(run, ["a b c", "d e f", "g h i", "j k l"]) == pytest.approx(175 / 3)
    assert run.search["min_length"] == run.search["max_length"] == 3 and run.search["kind"] == "greedy"


def test_letters_depend_on_the_seed_and_the_length_alone() -> None:
    texts = draw_letters(50, 7, seed=1)
    assert texts == draw_letters(50, 7, seed=1) != draw_letters(50, 7, seed=2)
    assert {len(text.split()) for text in texts} == {7}
    assert any(len(set(text.split())) < 7 for text in texts)
    assert all(len(set(text.split())) == 20 for text in draw_letters(50, 20, seed=1, repeats=False))


def test_errors_after_the_reference() -> None:
    """A model that predicts the letter after the one it reads, and otherwise the end, which is no letter."""

    def model(source: Any, inputs: Any) -> Any:
        logits_NV = torch.zeros(len(inputs.values), 40)
        logits_NV[torch.arange(len(inputs.values)), (inputs.values + 1) % 40] = 1.0
        logits_NV[:, 2] = 2.0
        return SimpleNamespace(logits_NV=logits_NV)

    def encode_batch(texts: list[str]) -> list[list[int]]:
        return [[ord(letter) - ord("a") + 10 for letter in text.split()] for text in texts]

    tokenizers = SimpleNamespace(target=SimpleNamespace(encode_batch=encode_batch))
    run: Any = SimpleNamespace(model=model, tokenizers=tokenizers)
    assert forced_errors(run, ["a b c", "c b c"])[1:] == [50, 0]
