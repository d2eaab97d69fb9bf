"""Two run folders of one recipe exchange their models, so that a kill at any moment leaves both loadable.

Both have the same tokenizers. Every file of a run is replaced in one rename; only the folder to resume from is away for
a moment.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from weft.files import save_text
from weft.runs.layout import RunFolder

FILES = (
    *("model.safetensors", "recipe.toml", "log.jsonl", "metrics.json", "README.md"),
    *("data_files.json", "fingerprints.bin", "lengths.json"),  # others if the student was trained on other pairs
)
"""Files that may differ between two runs with one tokenizer, in addition to the checkpoints."""


def exchange(first: Path, second: Path) -> None:
    """Exchange the models of two complete runs; the caller holds their locks, or nobody else knows one of them."""
    training = second / ".training.part"
    (first / "training").rename(training)
    (second / "training").rename(first / "training")
    training.rename(second / "training")
    for name in FILES:
        if (first / name).is_file() and (second / name).is_file():
            _exchange_file(first / name, second / name)
    for run, other in ((first, second), (second, first)):
        card = RunFolder(run).card
        if card.is_file():  # it names its folder
            own = re.compile(rf"{re.escape(str(other))}(?![\w./-]*\w)")  # not the files beside it
            save_text(card, own.sub(lambda _: str(run), card.read_text("utf-8")))  # noqa: B023


def _exchange_file(first: Path, second: Path) -> None:
    kept = second.with_name(f".{second.name}.part")
    kept.unlink(missing_ok=True)
    try:
        os.link(first, kept)
    except OSError:  # a file system without links
        shutil.copy2(first, kept)
    second.replace(first)
    kept.rename(second)


def keep_weights(run: Path) -> None:
    """Remove what a run is resumed from: it can still be loaded, alone or in an ensemble."""
    shutil.rmtree(run / "training", ignore_errors=True)
