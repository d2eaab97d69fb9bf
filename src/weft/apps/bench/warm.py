"""Kernels compiled before they are needed: by some updates of a recipe, and some searches of a run.

On a GPU these are Triton's, on a CPU those in C. Both are kept on disk, where later processes find them
(`weft.fast.recording.compilation`, `weft.fast.cpu.compiled`).
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from weft.recipe import Recipe
from weft.runs.layout import read_examples
from weft.training.events import Step
from weft.training.train import train
from weft.translation.load import load
from weft.translation.translator import Translator

HAS_KERNELS = find_spec("weft.fast") is not None
UPDATES = 20
"""Updates of a recipe. What a longer run may need is rehearsed before the first of them."""
BATCHES = {"cuda": (1, 64, 1024), "cpu": (1,)}
"""Sources of each search, by device: on a GPU few rows have kernels of their own; C computes single sentences."""


class Warmed(NamedTuple):
    """Updates and searches that had kernels compiled."""

    device: str
    updates: int
    searches: int


def warm_recipe(recipe: Recipe) -> Warmed:
    """Train with a recipe for some updates, in a temporary folder, and translate with what they made."""
    changes = {"steps": UPDATES, "validate_every": 0, "save_every": 0, "metric": "loss", "patience": 0}
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update=changes)})
    updates = 0
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        with closing(train(recipe, run)) as events:
            for event in events:
                updates += isinstance(event, Step)
        searches = warm_run(load(run, device=recipe.training.device)).searches if recipe.source_role != "none" else 0
        return Warmed(_wait(recipe.training.device), updates, searches)


def warm_run(run: Translator, **search: Any) -> Warmed:
    """Translate examples of a run in batches of several sizes. ``search``: changed settings of [search]."""
    sources = read_examples(run.folder) if run.folder is not None else []
    searches = 0
    for count in BATCHES[run.device.type] if sources and run.source_role != "none" else ():
        lines = (sources * (count // len(sources) + 1))[:count]
        list(run.translate_lines(lines, **search))
        searches += 1
    return Warmed(_wait(str(run.device)), 0, searches)


def _wait(device: str) -> str:
    """Wait until everything is compiled; the name of the device."""
    from weft.runtime.devices import choose_device

    chosen = choose_device(device)
    if not HAS_KERNELS:
        return str(chosen)
    from weft.fast.cpu.compiled import library
    from weft.fast.recording.compilation import wait_for_kernels

    if chosen.type == "cuda":
        wait_for_kernels()
    else:
        library(wait=True)
    return str(chosen)
