"""Small untrained networks to search in."""

from __future__ import annotations

from functools import cache
from typing import Any

from weft.build import build_model
from weft.models import AnyModel
from weft.settings import ModelSettings


@cache
def neural(kind: str, *, vocabulary: int, seed: int = 1, score: str = "general") -> AnyModel:
    """A small untrained network with decided opinions."""
    settings: dict[str, Any] = {
        "kind": "language_model" if kind == "lm" else "seq2seq",
        "embedding": 5,
        "dropout": 0.0,
        "encoder": {"hidden": 6, "kind": "gru"},
        "decoder": {"hidden": 6, "kind": "gru", "input_feeding": kind == "feeding"},
        "attention": {"score": score, "placement": "before" if kind == "before" else "after"},
    }
    if kind == "transformer":
        settings["embedding"] = 32
        for side in ("encoder", "decoder"):
            settings[side] = {"kind": "transformer", "layers": 2, "hidden": 32, "heads": 2, "feed_forward": 16}
        del settings["attention"]
    checked = ModelSettings.model_validate(settings)
    model = build_model(checked, source_size=11, target_size=vocabulary, seed=seed).eval()
    for parameter in model.output.parameters():
        parameter.data.mul_(4)
    return model
