"""Paths in the autograd graph, counted by hand."""

from __future__ import annotations

import torch

from weft.apps.labs.graph_paths import count_operations


def test_a_chain() -> None:
    first, second = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    output = first.exp().exp() + second
    assert count_operations(output, first) == (3, 3)
    assert count_operations(output, second) == (1, 1)


def test_a_short_and_a_long_way() -> None:
    leaf = torch.ones(2, requires_grad=True)
    output = leaf.exp().tanh().exp() * leaf
    assert count_operations(output, leaf) == (1, 4)


def test_a_long_graph_needs_no_recursion() -> None:
    leaf = torch.ones(1, requires_grad=True)
    output = leaf
    for _ in range(5_000):
        output = output * 1.0
    assert count_operations(output, leaf) == (5_000, 5_000)
