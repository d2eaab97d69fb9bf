"""Writing the heads that align words into the recipe of a run."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence

from weft.files import save_text
from weft.recipe import load_recipe, make_recipe
from weft.recipe.toml import leading_comments, write_toml
from weft.runs.layout import RunFolder
from weft.runs.locks import lock_folder


def write_alignment_heads(run: RunFolder, heads: Sequence[tuple[int, int]]) -> None:
    """Set model.decoder.alignment_heads in recipe.toml; nothing else of the run changes."""
    with lock_folder(run.path, "writing"):
        load_recipe(run.recipe)  # fails if it is damaged
        text = run.recipe.read_text("utf-8")
        tree = tomllib.loads(text)
        tree["model"]["decoder"]["alignment_heads"] = [list(head) for head in heads]
        save_text(run.recipe, write_toml(make_recipe(tree), leading_comments(text)))
