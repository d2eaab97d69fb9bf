"""Paths in the graph that autograd records: how many operations lie between an input and an output."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def count_operations(output: Tensor, leaf: Tensor) -> tuple[int, int]:
    """The shortest and the longest path from a leaf of the autograd graph to an output, in operations."""
    paths: dict[Any, tuple[float, float]] = {}
    pending: list[Any] = [output.grad_fn]
    while pending:
        node = pending[-1]
        before = [other for other, _ in node.next_functions if other is not None]
        if missing := [other for other in before if other not in paths]:
            pending += missing
            continue
        shortest, longest = zip(*(paths[other] for other in before), strict=True) if before else ((inf,), (-inf,))
        is_leaf = getattr(node, "variable", None) is leaf
        paths[pending.pop()] = (0, 0) if is_leaf else (1 + min(shortest), 1 + max(longest))
    path, depth = paths[output.grad_fn]
    return int(path), int(depth)
