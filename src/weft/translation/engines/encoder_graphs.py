"""The encoder recorded as CUDA graphs, for batches of few sentences: launching its kernels takes longer than they do.

A graph belongs to a number of rows and of tokens. Tokens are padded to a multiple of 16 by a row that nobody reads, so
that few shapes occur. A shape is recorded when it occurs for the second time. Plain counterpart: `Model.encode`; held
to it by tests/translation/engines/test_encoder_graphs.py.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from weft.models.interface import Model
from weft.ragged import FixedLayout, Layout, Ragged
from weft.search.cuda_graphs import capture
from weft.tree import Tree, leaves, map_tree

MAX_ROWS = 64
"""Sentences up to which the encoder is recorded."""
MAX_GRAPHS = 64
MULTIPLE = 16
"""Tokens are padded to a multiple of this."""
Shape = tuple[int, int, int]


class EncoderGraphs:
    """The graphs of one model on one GPU."""

    def __init__(self, model: Model, device: torch.device) -> None:
        self.model = model
        self.device = device
        self.graphs: OrderedDict[Shape, _EncoderGraph] = OrderedDict()
        self.seen: set[Shape] = set()
        self.lock = Lock()
        """Held while buffers are used."""
        self.pool: Any = torch.cuda.graph_pool_handle()

    def encode(self, batch: Ragged, *, longest: int) -> Tree | None:
        """The memory of a batch on the CPU; None if it is not recorded. ``longest``: at least `MULTIPLE`."""
        tokens = -(-batch.layout.total // MULTIPLE) * MULTIPLE
        shape = (batch.rows, tokens, longest)
        if batch.rows > MAX_ROWS or shape not in self.seen:
            self.seen.add(shape)
            return None
        with self.lock:
            return self._replay(shape, self._padded(batch, tokens), batch.rows)

    def _replay(self, shape: Shape, batch: Ragged, rows: int) -> Tree:
        if shape not in self.graphs:
            self.graphs[shape] = _EncoderGraph(self.model, batch, shape[2], self)
            if len(self.graphs) > MAX_GRAPHS:
                self.graphs.popitem(last=False)
        self.graphs.move_to_end(shape)
        return self.graphs[shape].replay(batch, rows)

    def _padded(self, batch: Ragged, tokens: int) -> Ragged:
        """With one more row, which has the tokens that are missing."""
        missing = tokens - batch.layout.total
        values = torch.cat([batch.values, batch.values[:1].expand(missing)])
        lengths = torch.cat([batch.lengths, torch.tensor([missing])])
        return Ragged(values, Layout(lengths))


class _EncoderGraph:
    """One recorded shape with its buffers."""

    def __init__(self, model: Model, batch: Ragged, longest: int, graphs: EncoderGraphs) -> None:
        device = graphs.device
        self.ids_N = batch.values.to(device)
        self.layout = FixedLayout(batch.lengths, device, longest=longest)
        source = Ragged(self.ids_N, self.layout)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            model.encode(source)  # what is made on first use is made now
        torch.cuda.current_stream().wait_stream(stream)

        def encode() -> None:
            self.memory = model.encode(source)

        with torch.no_grad():
            self.graph = capture(encode, graphs.pool)

    def replay(self, batch: Ragged, rows: int) -> Tree:
        """The memory of the first rows of a batch of this shape, in tensors of its own."""
        self.ids_N.copy_(batch.values.pin_memory(), non_blocking=True)
        self.layout.assign(batch.lengths)
        self.graph.replay()
        buffers = [leaf[:rows] for leaf in leaves(self.memory)]
        copies = [torch.empty_like(leaf) for leaf in buffers]
        torch._foreach_copy_(copies, buffers)
        remaining = iter(copies)

        def taken(_: Tensor) -> Tensor:
            return next(remaining)

        return map_tree(taken, self.memory)
