"""Training for labs: the public way, reproducible, and without a trace on the disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from weft.apps.labs.training import merged, train_model

LAYER = {"hidden": 8}
SETTINGS: dict[str, Any] = {
    "data": {"train": "copy", "train_size": 50, "options": {"length": 4, "symbols": 5}},
    "tokenizer": {"kind": "word"},
    "model": {"embedding": 8, "encoder": LAYER, "decoder": LAYER},
    "training": {"steps": 2, "batch_tokens": 50},
}


def test_a_trained_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    events: list[Any] = []
    run = train_model(SETTINGS, seed=3, watch=events.append)
    assert run.recipe.seed == 3 and run.recipe.training.validate_every == 0 and run.engine.name == "torch"
    assert run.translate("a b", kind="greedy").source == "a b"
    assert [event.step for event in events if type(event).__name__ == "Step"] == [1, 2]
    assert not list(tmp_path.glob("weft*"))
    again = train_model(SETTINGS, seed=3)
    for first, second in zip(run.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(first, second)


def test_pairs_of_its_own() -> None:
    pairs = [weft.Pair("one two", "zwei eins"), weft.Pair("three", "drei")]
    run = train_model({**SETTINGS, "data": {}}, seed=1, pairs=pairs)
    assert {"zwei", "eins", "drei"} <= set(run.tokenizers.target.tokens(range(run.tokenizers.target.size)))


def test_settings_are_merged() -> None:
    first = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert merged(first, {"a": {"c": {"d": 5}, "f": 6}, "e": {"g": 7}}) == {
        "a": {"b": 1, "c": {"d": 5}, "f": 6},
        "e": {"g": 7},
    }
    assert first == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
