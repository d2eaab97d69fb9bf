"""weft: sequence-to-sequence learning. Train, decode, explain and serve encoder-decoder models.

    import weft

    for event in weft.train(weft.load_recipe("grammar"), "runs/grammar"):
        ...
    run = weft.load("runs/grammar")
    run.translate("he hit me with a pie").text

Names are loaded when they are first used, so that importing weft is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "load": "weft.translation.load",
    "Translator": "weft.translation.translator",
    "Translation": "weft.translation.results",
    "train": "weft.training.train",
    "Recipe": "weft.recipe",
    "load_recipe": "weft.recipe",
    "make_recipe": "weft.recipe",
    "Pair": "weft.data.pairs",
    "WeftError": "weft.errors",
}

__all__ = ["Pair", "Recipe", "Translation", "Translator", "WeftError", "load", "load_recipe", "make_recipe", "train"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
