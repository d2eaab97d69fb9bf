"""Trees of tensors whose first axis is the row, and the operations by which a search handles any model's state.

A tree is a tensor, None, or a (named) tuple of trees. A named tuple that stores its rows in its own way, such as a
key–value cache, implements `RowState`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor

Tree = Any


@runtime_checkable
class RowState(Protocol):
    """A tree that selects its own rows."""

    def select_rows(self, rows: Tensor) -> Self:
        """See `select`."""

    def keep_rows(self, rows: Tensor) -> Self:
        """See `keep`."""


def map_tree(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """A tree with ``function`` applied to every tensor."""
    return _map(function, tree)


def leaves(tree: Tree) -> Iterator[Tensor]:
    """The tensors of a tree, in order."""
    if isinstance(tree, tuple):
        for branch in tree:
            yield from leaves(branch)
    elif tree is not None:
        yield tree


def select(tree: Tree, rows: Tensor) -> Tree:
    """The given rows, in the given order; a row may be taken more than once."""
    return _map(lambda leaf: leaf.index_select(0, rows), tree, lambda state: state.select_rows(rows))


def keep(tree: Tree, rows: Tensor) -> Tree:
    """The given rows alone, for good: storage of the others is released."""
    return _map(lambda leaf: leaf.index_select(0, rows), tree, lambda state: state.keep_rows(rows))


def repeat(tree: Tree, times: int) -> Tree:
    """Every row ``times`` times, copies side by side."""
    return map_tree(lambda leaf: leaf.repeat_interleave(times, 0), tree)


def first(tree: Tree, count: int) -> Tree:
    """The first ``count`` rows."""
    return map_tree(lambda leaf: leaf[:count], tree)


def _map(function: Callable[[Tensor], Tensor], tree: Tree, method: Callable[[Tree], Tree] | None = None) -> Tree:
    """``function`` of every tensor; ``method`` of every named tuple that is a `RowState`."""
    if tree is None:
        return None
    if isinstance(tree, tuple):
        # issubclass, not isinstance: its answers are cached by class, and this runs at every step of a search
        if method is not None and issubclass(type(tree), RowState):
            return method(tree)
        branches = [_map(function, branch, method) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)
    return function(tree)
