"""Trees of tensors whose first axis is the row: what a search may do to a state it knows nothing about.

A tree is a tensor, None, or a (named) tuple of trees. A named tuple may do some of this in its own way, by methods of
the names in `select`, `keep` and `fixed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

Tree = Any


def map_tree(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """The same tree with ``function`` applied to every tensor."""
    return _map(lambda leaf: function(leaf), tree, None)


def leaves(tree: Tree) -> Iterator[Tensor]:
    """Its tensors, in order."""
    if isinstance(tree, tuple):
        for branch in tree:
            yield from leaves(branch)
    elif tree is not None:
        yield tree


def select(tree: Tree, rows: Tensor) -> Tree:
    """The given rows, in the given order; a row may be taken more than once. A state's own way: ``reordered``."""
    return _map(lambda leaf: leaf.index_select(0, rows), tree, "reordered", rows)


def keep(tree: Tree, rows: Tensor) -> Tree:
    """The given rows alone, for good: what the others hold is no longer needed. A state's own way: ``kept``."""
    return _map(lambda leaf: leaf.index_select(0, rows), tree, "kept", rows)


def fixed(tree: Tree, room: int, looks: bool) -> Tree:
    """The same with shapes that stay as they are for ``room`` steps, where it has a way to that: ``fixed``.

    ``looks``: whether attention weights are wanted of the steps to come.
    """
    return _map(lambda leaf: leaf, tree, "fixed", room, looks)


def repeat(tree: Tree, times: int) -> Tree:
    """Every row ``times`` times, copies side by side."""
    return map_tree(lambda leaf: leaf.repeat_interleave(times, 0), tree)


def first(tree: Tree, count: int) -> Tree:
    """The first ``count`` rows."""
    return map_tree(lambda leaf: leaf[:count], tree)


def _map(function: Callable[[Tensor], Tensor], tree: Tree, own_way: str | None, *arguments: Any) -> Tree:
    if tree is None:
        return None
    if isinstance(tree, tuple):
        if own_way is not None and hasattr(tree, own_way):
            return getattr(tree, own_way)(*arguments)
        found = [_map(function, leaf, own_way, *arguments) for leaf in tree]
        return type(tree)(*found) if hasattr(tree, "_fields") else tuple(found)
    return function(tree)
