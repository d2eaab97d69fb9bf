"""Training for the labs: from settings and a seed to a trained model, by the public API, leaving no files behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import weft
from weft.files import save_text

if TYPE_CHECKING:
    from weft.training.events import Event

DEFAULTS: dict[str, Any] = {
    "name": "lab",
    "model": {"dropout": 0.0},
    "training": {"validate_every": 0, "save_every": 0, "save_minutes": 0, "device": "cpu", "precision": "fp32"},
}
"""Settings of every training, unless a lab has its own: no validations, and no checkpoints on the way."""


def train_model(
    settings: Mapping[str, Any],
    *,
    seed: int,
    pairs: Iterable[weft.Pair] | None = None,
    watch: Callable[[Event], None] | None = None,
) -> weft.Translator:
    """Train a recipe and load the result.

    ``settings``: nested as in a recipe, without the seed. ``pairs``: training pairs in place of ``data.train``.
    ``watch`` is called with every event of the training.
    """
    with TemporaryDirectory(prefix="weft-lab-") as name:
        folder = Path(name)
        tree = merged(DEFAULTS, settings) | {"seed": seed}
        if pairs is not None:
            save_text(folder / "pairs.tsv", "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
            tree = merged(tree, {"data": {"train": str(folder / "pairs.tsv")}})
        for event in weft.train(weft.make_recipe(tree), folder / "run"):
            if watch is not None:
                watch(event)
        return weft.load(folder / "run", device="cpu", precision="fp32", engine="torch")


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, with those of the second in place of those of the first."""
    result = deepcopy(dict(first))
    for name, value in second.items():
        both = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = merged(result[name], value) if both else deepcopy(value)
    return result
