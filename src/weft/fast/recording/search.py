"""Steps of a search captured as CUDA graphs and replayed.

A step of a small model is some hundred short kernels; launching each of them from Python takes longer than running it.
So a step is captured once for its shapes and then replayed as a whole. The `SearchState` lies in static buffers; each
replay writes the next state into them, and the step's record into a history. There are few shapes: sentences are padded
with ones that are done, key–value caches have a capacity of 32, 64, 128, … tokens.

The host never waits for the device step by step: which sentences are done is read a few steps late. When few are still
active (`few_active`), or the capacity is used up, they move into buffers of another size. While the first steps are
queued on the device, the host may prepare the next batch (`LoopWithCallback`).

A search with the same `SearchStart` and the same shapes as an earlier one starts warm (`WarmStart`): no state is made;
its inputs are copied into the buffers, and the other buffers are reset to their initial values. All graphs share the
memory of their buffers (`weft.fast.recording.shared_buffers`).

Equal to `weft.search.loop.StepLoop`; tests/fast/recording/test_search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Event

import numpy as np
import torch
from torch import Tensor

from weft.fast.recording.buffer_sizes import (
    few_active,
    initial_capacity,
    pad_sentences,
    padded_count,
    padded_rows,
    read_delay,
    take_rows,
)
from weft.fast.recording.recorder import Recorder, warm_up
from weft.fast.recording.shared_buffers import SharedBuffers
from weft.fast.searching.fused_paths import stays_on_device
from weft.fast.steps.fixed_capacity import fixed_capacity
from weft.fast.torch_private import foreach_copy_
from weft.search.loop import SearchInputs, SearchStart, SearchState, Step, StepLoop, StepRecords, to_device
from weft.tree import Tree, leaves, map_tree

STEPS_AHEAD = 2
"""Further steps that are queued before the host does other work."""
LARGE_TENSOR = 2**16
"""Tensors with at least this many elements are copied one by one. Smaller ones are copied together by one kernel, which
would divide a large one among too few blocks."""
LARGE_STATE = 2**26
"""Bytes of a state from which on memory is given back before a graph is captured."""
LARGE_INPUT = 4096
"""Inputs with more elements are copied from page-locked memory; copies of smaller ones are asynchronous without it."""
MEMORY_FRACTION = 0.25
"""The share of the device's memory that the records of all graphs together may take; `search.memory` may allow less."""


class ChangingShapeError(Exception):
    """A step whose shapes change: it cannot be captured."""


class StepGraph:
    """One captured step with the buffers it reads and writes."""

    def __init__(self, step: Step, state: SearchState, capacity: int, loop: CudaGraphLoop) -> None:
        self.step = step  # what was captured must stay alive
        self.state: SearchState = loop.buffers.copy_of(state)
        self.capacity = capacity
        self.idle = loop.idle
        is_large = sum(leaf.nbytes for leaf in leaves(state)) >= LARGE_STATE
        if is_large:
            torch.cuda.empty_cache()  # which is of no use to a warm-up, on another stream
        warm_up(lambda: self.allocate_history(*self.step(self.state)))
        if is_large:
            torch.cuda.empty_cache()  # what the warm-up has left: the capture takes memory of its own
        self.graph = loop.capture(self.step_buffers)
        done_on_host = torch.zeros(capacity, len(state.done_B), dtype=torch.bool, pin_memory=True)
        self.done_T, self.done_on_host = done_on_host.unbind(0), done_on_host.numpy()
        self.events = [torch.cuda.Event() for _ in range(capacity)]

    @property
    def bytes(self) -> int:
        """The memory of buffers of its own: the others are shared."""
        return sum(leaf.nbytes for leaf in leaves(self.history))

    def allocate_history(self, after: SearchState, record: Tree) -> None:
        """Buffers for the records of steps like this one."""
        for old, new in zip(leaves(self.state), leaves(after), strict=True):
            if old.shape != new.shape:
                raise ChangingShapeError
        self.history = map_tree(lambda leaf: leaf.new_zeros(self.capacity, *leaf.shape), record)

    def step_buffers(self) -> None:
        """One step from the buffers into the buffers, which is captured."""
        after, record = self.step(self.state)
        for buffer, leaf in zip(leaves(self.history), leaves(record), strict=True):
            buffer.index_copy_(0, self.state.length_1, leaf[None])
        _copy(after, self.state)

    def replay(self, time: int) -> None:
        """Launch one step, and the copy to the host of which sentences are done."""
        self.graph.replay()
        self.done_T[time].copy_(self.state.done_B, non_blocking=True)
        self.events[time].record(self.stream)

    def done(self, time: int) -> np.ndarray:
        """The sentences that were done after a step."""
        event = self.events[time]
        if not event.query():
            self.idle.set()
            event.synchronize()
            self.idle.clear()
        return self.done_on_host[time]

    def load(self, state: SearchState) -> None:
        """Copy a state into the buffers."""
        _copy(state, self.state)

    def run(
        self, sentences: Tensor, time: int, callback: Callable[[], None] | None = None
    ) -> tuple[StepRecords, int, np.ndarray]:
        """Step after step from ``time`` on, until a change of size is due: the records, the time, the active sentences.

        ``sentences``: those that the buffers hold, without padding, on the CPU; ``callback``: called while the device
        takes the first steps. Sentences that are not yet known to be done count as active.
        """
        buffers, count = self.state, len(sentences)
        self.stream = torch.cuda.current_stream() if buffers.done_B.is_cuda else None
        start, few = time, few_active(len(buffers.done_B))
        delay = read_delay(len(buffers.tokens_R))
        first_read = delay if callback is None or delay == 1 else delay + STEPS_AHEAD
        done_B = np.zeros(0, dtype=bool)
        while time < self.capacity:
            self.replay(time)
            time += 1
            if time - start > first_read:
                if callback is not None:
                    callback()
                    callback = None
                done_B = self.done(time - 1 - delay)
                if len(done_B) - int(np.count_nonzero(done_B)) <= few:
                    break
        else:
            done_B = self.done(time - 1)
        # Records that stay on the device are copied there: the next search overwrites the buffers.
        take = torch.clone if stays_on_device(self.history) else Tensor.cpu
        records = map_tree(lambda leaf: take(leaf[start:time, :count]), self.history)
        return StepRecords(sentences, records), time, np.flatnonzero(~done_B[:count])


class WarmStart:
    """Starts a search in the buffers of a graph in which one of the same shapes was started before.

    The inputs are copied into `SearchState.inputs`; all other buffers are reset to what they were.
    """

    def __init__(self, graph: StepGraph, key: Hashable, state: SearchState, loop: CudaGraphLoop) -> None:
        """``key``: the key of the graph in `CudaGraphLoop.graphs`; ``state``: the first state of the earlier search."""
        self.graph = graph
        self.key = key
        pairs = list(zip(leaves(_constants(graph.state)), leaves(_constants(state)), strict=True))
        self.zeros = [buffer for buffer, leaf in pairs if leaf.numel() >= LARGE_TENSOR and not leaf.any()]
        zeros = set(map(id, self.zeros))
        self.constants = [(buffer, leaf.clone()) for buffer, leaf in pairs if id(buffer) not in zeros]
        self._reset()  # allocates what is allocated on first use
        self.captured = loop.capture(self._reset)

    def _reset(self) -> None:
        for buffer in self.zeros:
            buffer.zero_()
        _copy_pairs(self.constants)

    def start(self, inputs: SearchInputs) -> StepGraph:
        """The graph, with the first state of a search of these inputs in its buffers."""
        self.captured.replay()
        pairs = list(zip(leaves(self.graph.state.inputs), leaves(inputs), strict=True))
        _copy_pairs([(buffer, leaf) for buffer, leaf in pairs if leaf.device == buffer.device])
        for buffer, leaf in pairs:
            if leaf.device != buffer.device:
                _copy_from_host(leaf, buffer)
        return self.graph


class Move:
    """Moves the active sentences of one graph into the buffers of another: some seventy operations, captured."""

    def __init__(
        self,
        source: StepGraph,
        target: StepGraph,
        take: Callable[[SearchState, Tensor, Tensor], SearchState],
        key: Hashable,
        loop: CudaGraphLoop,
    ) -> None:
        """``take``: the state of these rows, not in the buffers; ``key``: of the target, in `CudaGraphLoop.graphs`."""
        self.source, self.target, self.key = source, target, key
        device, size = source.state.done_B.device, len(target.state.done_B)
        self.rows_B = torch.zeros(size, dtype=torch.int64, device=device)
        self.padding_B = torch.zeros(size, dtype=torch.bool, device=device)
        self.captured = loop.capture(lambda: target.load(take(source.state, self.rows_B, self.padding_B)))

    def run(self, active: np.ndarray) -> StepGraph:
        """The target, with the active sentences of the source in its buffers."""
        rows_B, padding_B = padded_rows(active)
        _copy_from_host(rows_B, self.rows_B)
        _copy_from_host(padding_B, self.padding_B)
        self.captured.replay()
        return self.target


def _constants(state: SearchState) -> Tree:
    """The parts of a first state that are equal in all searches of the same shapes."""
    own = (state.tokens_R, state.model_state, state.history_RW, state.sentences_B, state.done_B)
    return (*own, state.extra, state.length_1)


def _copy(values: Tree, buffers: Tree) -> None:
    pairs = [(old, new) for old, new in zip(leaves(buffers), leaves(values), strict=True) if old is not new]
    _copy_pairs([(old, new) for old, new in pairs if old.data_ptr() != new.data_ptr()])


def _copy_from_host(values: Tensor, buffer: Tensor) -> None:
    is_large = buffer.is_cuda and values.numel() > LARGE_INPUT
    buffer.copy_(values.pin_memory() if is_large else values, non_blocking=True)


def _copy_pairs(pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Overwrite the first of each pair by the second."""
    by_type: dict[torch.dtype, list[tuple[Tensor, Tensor]]] = {}
    for old, new in pairs:
        if old.numel() >= LARGE_TENSOR:
            old.copy_(new)
        else:
            by_type.setdefault(old.dtype, []).append((old, new))
    for same in by_type.values():
        foreach_copy_(*zip(*same, strict=True))  # of one type: by one kernel


class CudaGraphLoop(StepLoop, Recorder[StepGraph]):
    """A loop that keeps the graphs it has captured; one for each model on a GPU."""

    graph_type: type[StepGraph] = StepGraph

    def __init__(self, device: torch.device) -> None:
        memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
        super().__init__(memory * MEMORY_FRACTION)
        self.device = device
        self.buffers = SharedBuffers()
        self.warm_starts: dict[Hashable, WarmStart] = {}
        self.moves: dict[Hashable, Move] = {}
        self.idle = Event()
        """Set while a search waits for the device: another thread may use the interpreter and delay no step."""

    def size(self, recording: StepGraph) -> int:
        return recording.bytes

    def drop(self, recording: StepGraph) -> None:
        self.warm_starts = {key: warm for key, warm in self.warm_starts.items() if warm.graph is not recording}
        self.moves = {key: move for key, move in self.moves.items() if recording not in (move.source, move.target)}

    def clear(self) -> None:
        super().clear()
        self.warm_starts.clear()
        self.moves.clear()
        self.buffers.clear()

    def search(
        self,
        step: Step,
        start: SearchStart,
        inputs: SearchInputs,
        *,
        return_attention: bool = False,
        callback: Callable[[], None] | None = None,
    ) -> list[StepRecords]:
        """``callback``: called while the device takes the first steps."""

        def grow(state: SearchState, tokens: int) -> SearchState:
            options = {"return_attention": return_attention, "is_written": False}  # graphs write to copies
            return state._replace(model_state=fixed_capacity(state.model_state, tokens, **options))

        with self.lock:
            key = (step, start, return_attention, _shapes(inputs))
            warm_start = self.warm_starts.get(key)
            if warm_start is not None:
                self.graphs.move_to_end(warm_start.key)
                graph = warm_start.start(inputs)
                return self._steps(graph, torch.arange(len(inputs.limits.max_lengths_B)), grow, callback)
            inputs = inputs.on(start.device)
            first = start(inputs)
            count = len(first.sentences_B)
            is_empty = all(leaf.numel() == 0 for leaf in leaves(first.model_state))
            first = pad_sentences(first, padded_count(count))
            capacity = initial_capacity(len(first.tokens_R))
            state = grow(first, capacity)
            first_graph = self._graph(step, state, capacity)
            if first_graph is None:
                return self.run(step, state.keep_sentences(torch.arange(count, device=self.device)))
            if is_empty and count == padded_count(count):
                self.warm_starts[key] = WarmStart(first_graph, next(reversed(self.graphs)), state, self)
            first_graph.load(state)
            del first, state
            return self._steps(first_graph, torch.arange(count), grow, callback)

    def _steps(
        self,
        graph: StepGraph,
        sentences: Tensor,
        grow: Callable[[SearchState, int], SearchState],
        callback: Callable[[], None] | None,
    ) -> list[StepRecords]:
        """All steps of a search whose first state is in the buffers of a graph."""
        steps: list[StepRecords] = []
        capacity, time = graph.capacity, 0
        while True:
            records, time, active = graph.run(sentences, time, callback)
            callback = None
            steps.append(records)
            if not len(active):
                return steps
            sentences = sentences[torch.from_numpy(active)]
            added = capacity if time == capacity else 0
            capacity += added
            way = (id(graph), padded_count(len(active)), capacity)
            if way in self.moves:
                self.graphs.move_to_end(self.moves[way].key)
                graph = self.moves[way].run(active)
                continue

            def take(state: SearchState, rows_B: Tensor, padding_B: Tensor | None, added: int = added) -> SearchState:
                taken = take_rows(state, rows_B, padding_B)
                return self.buffers.released(grow(taken, added) if added else taken)

            state = take(graph.state, *map_tree(self._on_device, padded_rows(active)))
            following = self._graph(graph.step, state, capacity)
            if following is None:
                kept = torch.arange(len(active), device=self.device)
                return steps + self.run(graph.step, state.keep_sentences(kept))
            following.load(state)
            del state
            if not self.is_new(way) and graph in self.graphs.values():
                self.moves[way] = Move(graph, following, take, next(reversed(self.graphs)), self)
            graph = following

    def _on_device(self, values: Tensor) -> Tensor:
        return to_device(values, self.device)

    def _graph(self, step: Step, state: SearchState, capacity: int) -> StepGraph | None:
        """The graph of a step for these shapes; None: its shapes change."""
        key = (step, capacity, _shapes(state))
        if key not in self.graphs and not self.buffers.have_room(state):
            self.clear()  # the graphs so far work in the block that is too small
            self.buffers.reserve(state)
        try:
            return self.graph(key, lambda: self.graph_type(step, state, capacity, self))
        except ChangingShapeError:
            return None


class LoopWithCallback(StepLoop):
    """A `CudaGraphLoop` for one search, with a callback while the device takes the first steps."""

    def __init__(self, loop: CudaGraphLoop, callback: Callable[[], None]) -> None:
        self.loop = loop
        self.callback = callback

    def search(
        self, step: Step, start: SearchStart, inputs: SearchInputs, *, return_attention: bool = False
    ) -> list[StepRecords]:
        return self.loop.search(step, start, inputs, return_attention=return_attention, callback=self.callback)


def _shapes(tree: Tree) -> Hashable:
    """The shapes and types of a tree's tensors, and where it has None instead."""
    if isinstance(tree, tuple):
        return tuple(map(_shapes, tree))
    return None if tree is None else (tree.shape, tree.dtype)
