"""Names of the inputs and outputs of graphs: those of optimum and transformers.js where a model has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def tree_names(tree: Any, prefix: str) -> Iterator[str]:
    """A name for each tensor of a tree (`weft.tree`), by its place: state.layers.0.0."""
    if tree is None:
        return
    if not isinstance(tree, tuple):
        yield prefix
        return
    fields = getattr(tree, "_fields", range(len(tree)))
    for name, branch in zip(fields, tree, strict=True):
        yield from tree_names(branch, f"{prefix}.{re.sub(r'_[A-Z0-9]+$', '', str(name))}")


def cache_names(prefix: str, layers: int, *sides: str) -> list[str]:
    """present.0.decoder.key, present.0.decoder.value, …: layer by layer."""
    return [f"{prefix}.{layer}.{side}.{part}" for layer in range(layers) for side in sides for part in ("key", "value")]
