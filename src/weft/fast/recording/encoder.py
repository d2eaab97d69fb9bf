"""The encoder recorded as CUDA graphs, for batches of few sentences: launching its kernels takes longer than they do.

A graph belongs to a number of rows and of tokens. Tokens are padded to a multiple of 16 by a row that nobody reads, so
that few shapes occur. A shape is recorded when it occurs for the second time. Plain counterpart: `Model.encode`; held
to it by tests/fast/recording/test_encoder.py.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from weft.fast.recording.recorder import RecordedFunction, Recorder
from weft.fast.torch_private import foreach_copy_
from weft.models.interface import Model
from weft.ragged import FixedLayout, Ragged
from weft.tree import Tree, leaves, map_tree

MAX_ROWS = 64
"""Sentences up to which the encoder is recorded."""
MAX_GRAPHS = 64
MULTIPLE = 16
"""Tokens are padded to a multiple of this."""
Shape = tuple[int, int, int]


class EncoderGraphs(Recorder["_EncoderGraph"]):
    """The graphs of one model on one GPU."""

    def __init__(self, model: Model, device: torch.device) -> None:
        super().__init__(MAX_GRAPHS)
        self.model = model
        self.device = device

    def encode(self, batch: Ragged, *, longest: int) -> Tree | None:
        """The memory of a batch on the CPU; None if it is not recorded. ``longest``: at least `MULTIPLE`."""
        tokens = -(-batch.layout.total // MULTIPLE) * MULTIPLE
        shape = (batch.rows, tokens, longest)
        if batch.rows > MAX_ROWS or self.is_new(shape):
            return None
        with self.lock:
            return self.graph(shape, lambda: _EncoderGraph(batch, shape, self)).replay(batch)


class _EncoderGraph:
    """One recorded shape with its buffers."""

    def __init__(self, batch: Ragged, shape: Shape, graphs: EncoderGraphs) -> None:
        """``batch``: any of this shape."""
        model, device = graphs.model, graphs.device
        rows, self.tokens, self.longest = shape
        lengths = torch.from_numpy(self._padded_lengths(batch))
        layout = FixedLayout(lengths, device, longest=self.longest)
        ids_N = torch.zeros(self.tokens, dtype=torch.int64, device=device)
        inputs = [ids_N, *layout.index_tensors]
        staged = torch.cat([part.flatten().to(torch.int64) for part in inputs])

        def encode() -> Tree:
            for part, values in zip(inputs, staged.split([part.numel() for part in inputs]), strict=True):
                part.copy_(values.view_as(part))
            memory = model.encode(Ragged(ids_N, layout))
            return map_tree(lambda leaf: leaf[:rows].clone(), memory)

        self.staged = staged
        """All inputs as one array, so that one copy brings them to the device."""
        with torch.no_grad():
            self.encoder = RecordedFunction(encode, graphs)

    def _padded_lengths(self, batch: Ragged) -> np.ndarray:
        """Lengths with one more row, which has the missing tokens."""
        return np.append(batch.lengths.numpy(), self.tokens - batch.layout.total)

    def replay(self, batch: Ragged) -> Tree:
        """The memory of a batch of this shape, in new tensors."""
        ids, lengths = batch.values.numpy(), self._padded_lengths(batch)
        padding = np.broadcast_to(ids[:1], (self.tokens - len(ids),))
        arrays = [ids, padding, *_index_arrays(lengths, self.longest)]
        staged = np.concatenate([array.ravel() for array in arrays])
        self.staged.copy_(torch.from_numpy(staged), non_blocking=True)
        memory = self.encoder.replay()
        buffers = list(leaves(memory))
        copies = [torch.empty_like(leaf) for leaf in buffers]
        foreach_copy_(copies, buffers)
        remaining = iter(copies)

        def taken(_: Tensor) -> Tensor:
            return next(remaining)

        return map_tree(taken, memory)


def _index_arrays(lengths_B: np.ndarray, longest: int) -> list[np.ndarray]:
    """The values of `FixedLayout.index_tensors` for these lengths, by NumPy, which is faster for few rows."""
    offsets = np.concatenate([[0], lengths_B.cumsum()])
    row_ids = np.repeat(np.arange(len(lengths_B)), lengths_B)
    positions = np.arange(offsets[-1]) - offsets[row_ids]
    masked_BS = np.arange(longest) >= np.maximum(lengths_B, 1)[:, None]
    return [offsets, lengths_B, row_ids, positions, row_ids * longest + positions, masked_BS]
