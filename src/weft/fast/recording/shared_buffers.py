"""Memory that the buffers of all graphs of a loop share: of the graphs, one is in use at a time.

A graph works on fixed addresses. All take theirs from the beginning of one block, so that it takes as much memory as
the largest of them needs, and not as much as all of them together. What a graph finds in its buffers was left by
another one: all of it is written before it is read (`weft.fast.recording.search.WarmStart`, `StepGraph.load`).

Equal to buffers of their own; tests/fast/recording/test_shared_buffers.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.tree import Tree, leaves, map_tree

ALIGNMENT = 256
"""Bytes, as in PyTorch's own allocations."""
SLACK = 1.125
"""A new block is larger than needed by this factor, since somewhat larger buffers may follow."""


class SharedBuffers:
    """The block of one loop."""

    def __init__(self) -> None:
        self._block: Tensor | None = None

    @property
    def bytes(self) -> int:
        return 0 if self._block is None else len(self._block)

    def have_room(self, tree: Tree) -> bool:
        return _size(tree) <= self.bytes

    def reserve(self, tree: Tree) -> None:
        """A new block with room for such tensors. The old one is freed, whoever still refers to it."""
        self.clear()
        device = next(leaves(tree)).device
        if device.type == "cuda":
            torch.cuda.empty_cache()  # the new block does not fit into what the old one has left
        self._block = torch.empty(int(SLACK * _size(tree)), dtype=torch.uint8, device=device)

    def clear(self) -> None:
        if self._block is not None:
            self._block.untyped_storage().resize_(0)
        self._block = None

    def copy_of(self, tree: Tree) -> Tree:
        """The tensors copied to the beginning of the block; they must not be in it themselves."""
        assert self._block is not None and self.have_room(tree)
        block, start = self._block, 0

        def copied(leaf: Tensor) -> Tensor:
            nonlocal start
            flat = block[start : start + leaf.nbytes].view(leaf.dtype)
            start += _aligned(leaf.nbytes)
            strides = torch.empty_like(leaf, device="meta").stride()
            return flat.as_strided(leaf.shape, strides, flat.storage_offset()).copy_(leaf)

        return map_tree(copied, tree)

    def released(self, tree: Tree) -> Tree:
        """The tensors, with copies of those that are in the block: another graph may overwrite it."""
        if self._block is None:
            return tree
        address = self._block.untyped_storage().data_ptr()
        return map_tree(lambda leaf: leaf.clone() if leaf.untyped_storage().data_ptr() == address else leaf, tree)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _size(tree: Tree) -> int:
    return sum(_aligned(leaf.nbytes) for leaf in leaves(tree))
