"""The recorder of CUDA graphs: a function is warmed up, captured once for each shape of its inputs, and replayed.

A graph reads and writes the memory it was captured with. So inputs are copied into static buffers before a replay, and
results are copied out of them after it, unless the next replay may overwrite them. The four users differ in what they
copy, and do it themselves:

    search             the tensors of a `SearchState`, which each step replaces by those of the next state
    encoder            ids and indices of a padded batch, computed on the CPU and brought to the GPU by one copy
    prompts            one tensor of padded prompts
    update             a padded batch; its warm-up consists of real updates, so it captures later and on its own stream

A replay equals a call of the function; tests/fast/recording/test_recorder.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cache
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import torch

from weft.fast.recording.compilation import is_rehearsing
from weft.runtime.switches import collection_paused

Recording = TypeVar("Recording")
Result = TypeVar("Result")
_capturing = Lock()


@cache
def _capture_stream(device: int) -> torch.cuda.Stream:
    """One for all graphs: memory of a pool is shared only between captures on the same stream."""
    return torch.cuda.Stream(device)


def warm_up(function: Callable[[], object]) -> None:
    """Call a function on the stream of captures before its own: what is made on first use is made now.

    Always on the same stream, since PyTorch keeps a workspace for products and free memory for each.
    """
    with _capturing:
        stream = _capture_stream(torch.cuda.current_device())
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            function()
        torch.cuda.current_stream().wait_stream(stream)


class Recorder(Generic[Recording]):
    """Captures CUDA graphs and keeps one recording for each shape, up to a limit; the least recently used go first."""

    def __init__(self, limit: float) -> None:
        """``limit``: the largest sum of the recordings' `size`."""
        self.limit = limit
        self.graphs: OrderedDict[Hashable, Recording] = OrderedDict()
        self.lock = Lock()
        """Held while buffers are used: of all graphs only one is replayed at a time."""
        self._seen: set[Hashable] = set()
        self._pool: Any = None
        self._sharing: WeakSet[torch.cuda.CUDAGraph] = WeakSet()

    def size(self, recording: Recording) -> float:
        """How much of the limit a recording takes; by default recordings are counted."""
        return 1

    def is_new(self, shape: Hashable) -> bool:
        """Whether a shape occurs for the first time; if it never occurs again, it is not worth a capture."""
        is_new = shape not in self._seen
        self._seen.add(shape)
        return is_new

    def graph(self, shape: Hashable, record: Callable[[], Recording]) -> Recording:
        """The recording of a shape, made by ``record`` if there is none; older ones are dropped to meet the limit."""
        if shape not in self.graphs:
            self.graphs[shape] = record()
            while len(self.graphs) > 1 and sum(map(self.size, self.graphs.values())) > self.limit:
                self.drop(self.graphs.popitem(last=False)[1])
        self.graphs.move_to_end(shape)
        return self.graphs[shape]

    def drop(self, recording: Recording) -> None:
        """Forget a recording wherever else it is referred to."""

    def clear(self) -> None:
        """Free all graphs with their buffers."""
        self.graphs.clear()
        self._seen.clear()

    def capture(
        self, function: Callable[[], object], *, training_stream: torch.cuda.Stream | None = None
    ) -> torch.cuda.CUDAGraph:
        """A CUDA graph of what a function launches.

        Other threads may use the device during the capture. Updates pass ``training_stream``, the stream of their
        warm-up, and no other thread may use the device: the backward pass runs in a thread of autograd, where an
        operation that cannot be captured must be an error, too. Cached memory is freed first, since the warm-up has
        taken as much as the graph needs.

        Nothing may be freed by the garbage collector during a capture: to free a graph, an event or page-locked memory
        would invalidate it.
        """
        if is_rehearsing():
            raise RuntimeError("a rehearsal launches no kernels that a graph could replay")
        graph = torch.cuda.CUDAGraph()
        stream = training_stream or _capture_stream(torch.cuda.current_device())
        with _capturing, collection_paused():
            torch.cuda.synchronize(stream.device)
            pool = self._pool_for(graph)
            if training_stream is not None:
                with torch.cuda.graph(graph, pool=pool, stream=stream):
                    function()
                return graph
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    function()
                finally:
                    graph.capture_end()
        return graph

    def _pool_for(self, graph: torch.cuda.CUDAGraph) -> Any:
        """The memory that all graphs share, for a capture of this one. PyTorch frees it with the last of its graphs."""
        if not len(self._sharing):
            self._pool = torch.cuda.graph_pool_handle()
        self._sharing.add(graph)
        return self._pool


class RecordedFunction(Generic[Result]):
    """A function of static buffers, warmed up and captured."""

    def __init__(self, function: Callable[[], Result], recorder: Recorder[Any]) -> None:
        self._function = function  # keeps the memory alive that the graph reads
        self._result: Result
        warm_up(function)
        self._graph = recorder.capture(self._call)

    def _call(self) -> None:
        self._result = self._function()

    def replay(self) -> Result:
        """The result for what the buffers hold now; the next replay overwrites it."""
        self._graph.replay()
        return self._result
