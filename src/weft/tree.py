"""Trees of tensors whose first axis is the row: what a search may do to a state it knows nothing about.

A tree is a tensor, None, or a (named) tuple of trees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

Tree = Any


def map_tree(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """The same tree with ``function`` applied to every tensor."""
    if tree is None:
        return None
    if isinstance(tree, tuple):
        leaves = [map_tree(function, leaf) for leaf in tree]
        return type(tree)(*leaves) if hasattr(tree, "_fields") else tuple(leaves)
    return function(tree)


def select(tree: Tree, rows: Tensor) -> Tree:
    """The given rows, in the given order; a row may be taken more than once."""
    return map_tree(lambda leaf: leaf.index_select(0, rows), tree)


def repeat(tree: Tree, times: int) -> Tree:
    """Every row ``times`` times, copies side by side."""
    return map_tree(lambda leaf: leaf.repeat_interleave(times, 0), tree)


def first(tree: Tree, count: int) -> Tree:
    """The first ``count`` rows."""
    return map_tree(lambda leaf: leaf[:count], tree)
