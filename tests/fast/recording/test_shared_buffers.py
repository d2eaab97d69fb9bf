"""Buffers that share memory: equal values, one block, and what outlives it is copied."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from fixtures.eager_loop import EagerLoop
from fixtures.search_requests import beam, greedy
from fixtures.small_networks import neural
from weft.fast.recording.search import CudaGraphLoop
from weft.fast.recording.shared_buffers import SharedBuffers
from weft.ragged import Ragged
from weft.tree import leaves


class Pair(NamedTuple):
    left: Tensor
    right: Tensor | None


def tree_of(size: int) -> tuple[Pair, Tensor, Tensor]:
    values = torch.arange(6.0 * size).view(2, 3, size)
    return (
        Pair(values.transpose(0, 1), None),
        torch.tensor([True, False, True]),
        torch.zeros(0, 4, dtype=torch.bfloat16),
    )


def test_copies_are_equal_and_at_the_same_addresses() -> None:
    buffers = SharedBuffers()
    assert not buffers.have_room(tree_of(5)) and buffers.bytes == 0
    buffers.reserve(tree_of(5))
    assert buffers.have_room(tree_of(5)) and not buffers.have_room(tree_of(50))
    first, second = buffers.copy_of(tree_of(5)), buffers.copy_of(tree_of(4))
    for copied, leaf in zip(leaves(second), leaves(tree_of(4)), strict=True):
        assert torch.equal(copied, leaf) and copied.stride() == leaf.stride() and copied.dtype == leaf.dtype
    assert next(leaves(first)).data_ptr() == next(leaves(second)).data_ptr()
    places = sorted((leaf.data_ptr(), leaf.nbytes) for leaf in leaves(second) if leaf.nbytes)
    assert all(place + size <= following for (place, size), (following, _) in pairwise(places))


def test_an_expanded_tensor_has_memory_of_its_own() -> None:
    buffers, tree = SharedBuffers(), torch.arange(3)[:, None].expand(3, 4)
    buffers.reserve(tree)
    assert torch.equal(next(leaves(buffers.copy_of(tree))), tree)


def test_what_is_in_the_block_is_copied_before_it_is_overwritten() -> None:
    buffers, other = SharedBuffers(), torch.ones(2)
    assert buffers.released(other) is other
    buffers.reserve(tree_of(5))
    inside = next(leaves(buffers.copy_of(tree_of(5))))
    copied, same = leaves(buffers.released((inside[:1], other)))
    assert same is other and copied.untyped_storage().data_ptr() != inside.untyped_storage().data_ptr()
    buffers.clear()
    assert buffers.bytes == 0 and buffers.released(inside) is inside


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", ["transformer", "feeding", "prefix lm"])
@torch.no_grad()
def test_searches_in_turn_have_the_results_of_searches_alone(kind: str, device: str) -> None:
    """Of several sizes, so that each finds in its buffers what another one has left there."""
    loop_type = CudaGraphLoop if device == "cuda" else EagerLoop
    model, shared = copy.deepcopy(neural(kind, vocabulary=9)).to(device), loop_type(torch.device(device))
    batches = [[[3, 4, 5]], [[4, 3], [5, 6, 7, 3], [3], [8, 5]], [[3, 3, 4, 5, 6, 7, 8]] * 6]
    shared.limit = 2.0**30
    ours, theirs = [], []
    for _ in range(3):
        for rows in batches:
            for search in (beam, greedy):
                options: dict[str, Any] = {"size": 3} if search is beam else {}
                for loop, results in ((shared, ours), (None, theirs)):
                    memory = model.encode(Ragged.of(rows, device))
                    limits, on_device = [40] * len(rows), torch.device(device)
                    outputs = search(model, memory, limits, device=on_device, loop=loop, **options)
                    results.append([(one.tokens, one.score) for sentence in outputs for one in sentence])
    for found, expected in zip(ours, theirs, strict=True):
        assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected]
        assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-4)
    blocks = {leaf.untyped_storage().data_ptr() for graph in shared.graphs.values() for leaf in leaves(graph.state)}
    assert len(shared.graphs) > 2 and len(blocks) == 1


@torch.no_grad()
def test_when_the_block_grows_the_graphs_of_the_old_one_are_gone() -> None:
    """Nothing reads it any more: its memory is freed at once."""
    model, loop = neural("transformer", vocabulary=9), EagerLoop(torch.device("cpu"))
    beam(model, model.encode(Ragged.of([[3, 4]] * 2)), [5] * 2, loop=loop, size=2)
    (small,), size = loop.graphs.values(), loop.buffers.bytes
    beam(model, model.encode(Ragged.of([[3, 4]] * 8)), [40] * 8, loop=loop, size=2)
    assert loop.buffers.bytes > size and small not in loop.graphs.values()
    assert {leaf.untyped_storage().nbytes() for leaf in leaves(small.state)} == {0}
