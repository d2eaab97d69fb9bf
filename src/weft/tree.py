"""Trees of tensors whose first axis is the row, and the operations by which a search handles any model's state.

A tree is a tensor, None, or a (named) tuple of trees. A named tuple that stores its rows in a way of its own, such as a
key–value cache, implements `RowState`; one that can be given fixed shapes implements `FixedCapacity`.
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


@runtime_checkable
class FixedCapacity(Protocol):
    """A tree that can be given room for tokens to come, so that its shapes stay the same from step to step."""

    def with_capacity(self, tokens: int, *, return_attention: bool) -> Tree:
        """See `with_capacity`."""


@runtime_checkable
class Restartable(Protocol):
    """A tree of fixed capacity that can be emptied."""

    def restart(self) -> None:
        """See `restart`."""


def map_tree(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """The same tree with ``function`` applied to every tensor."""
    return _map(function, tree)


def leaves(tree: Tree) -> Iterator[Tensor]:
    """Its tensors, in order."""
    if isinstance(tree, tuple):
        for branch in tree:
            yield from leaves(branch)
    elif tree is not None:
        yield tree


def select(tree: Tree, rows: Tensor) -> Tree:
    """The given rows, in the given order; a row may be taken more than once."""
    return _map(lambda leaf: leaf.index_select(0, rows), tree, RowState, lambda state: state.select_rows(rows))


def keep(tree: Tree, rows: Tensor) -> Tree:
    """The given rows alone, for good: storage of the others is released."""
    return _map(lambda leaf: leaf.index_select(0, rows), tree, RowState, lambda state: state.keep_rows(rows))


def with_capacity(tree: Tree, tokens: int, *, return_attention: bool) -> Tree:
    """The same with shapes that do not change for this many more tokens, where it can be given them.

    ``return_attention``: whether the steps to come shall return attention weights.
    """

    def fix(state: Tree) -> Tree:
        return state.with_capacity(tokens, return_attention=return_attention)

    return _map(lambda leaf: leaf, tree, FixedCapacity, fix)


def can_restart(tree: Tree) -> bool:
    """Whether all of it can be emptied."""
    if isinstance(tree, tuple) and not isinstance(tree, Restartable):
        return all(can_restart(branch) for branch in tree)
    return tree is None or isinstance(tree, Restartable)


def restart(tree: Tree) -> None:
    """Empty it in place: afterwards it is as `with_capacity` makes it of a state without tokens."""

    def empty(state: Tree) -> Tree:
        state.restart()
        return state

    _map(lambda leaf: leaf, tree, Restartable, empty)


def repeat(tree: Tree, times: int) -> Tree:
    """Every row ``times`` times, copies side by side."""
    return map_tree(lambda leaf: leaf.repeat_interleave(times, 0), tree)


def first(tree: Tree, count: int) -> Tree:
    """The first ``count`` rows."""
    return map_tree(lambda leaf: leaf[:count], tree)


def _map(
    function: Callable[[Tensor], Tensor],
    tree: Tree,
    protocol: type | None = None,
    method: Callable[[Tree], Tree] | None = None,
) -> Tree:
    """``function`` of every tensor; ``method`` of every named tuple that implements ``protocol``."""
    if tree is None:
        return None
    if isinstance(tree, tuple):
        # issubclass, not isinstance: its answers are cached by class, and this runs at every step of a search
        if protocol is not None and method is not None and issubclass(type(tree), protocol):
            return method(tree)
        branches = [_map(function, branch, protocol, method) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)
    return function(tree)
