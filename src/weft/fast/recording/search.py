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

from weft.fast.recording.recorder import Recorder, warm_up
from weft.fast.recording.shared_buffers import SharedBuffers
from weft.fast.searching.fused_paths import stays_on_device
from weft.fast.steps.fixed_capacity import fixed_capacity
from weft.fast.torch_private import foreach_copy_
from weft.search.loop import SearchInputs, SearchStart, SearchState, Step, StepLoop, StepRecords, to_device
from weft.tree import Tree, leaves, map_tree

INITIAL_CAPACITY, MANY_ROWS = 32, 4096
"""Tokens that the first buffers can hold: half as many with more than `MANY_ROWS` rows, where memory counts more than
that longer outputs have to move once more."""
READ_DELAY, FEW_ROWS = 2, 64
"""Steps after which the host reads which sentences are done; one step if there are at most `FEW_ROWS` rows."""
LARGE_BATCH, SMALL_BATCH = 512, 32
"""Sizes in sentences; `few_active` treats batches above, between and below them differently."""
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
        warm_up(lambda: self.allocate_history(*self.step(self.state)))
        if sum(leaf.nbytes for leaf in leaves(state)) >= LARGE_STATE:
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
        delay = READ_DELAY if len(buffers.tokens_R) > FEW_ROWS else 1
        done_B = np.zeros(0, dtype=bool)
        while time < self.capacity:
            self.replay(time)
            time += 1
            if time - start > delay:
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
                buffer.copy_(leaf.pin_memory() if leaf.numel() > LARGE_INPUT else leaf, non_blocking=True)
        return self.graph


def _constants(state: SearchState) -> Tree:
    """The parts of a first state that are equal in all searches of the same shapes."""
    own = (state.tokens_R, state.model_state, state.history_RW, state.sentences_B, state.done_B)
    return (*own, state.extra, state.length_1)


def _copy(values: Tree, buffers: Tree) -> None:
    pairs = [(old, new) for old, new in zip(leaves(buffers), leaves(values), strict=True) if old is not new]
    _copy_pairs([(old, new) for old, new in pairs if old.data_ptr() != new.data_ptr()])


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
        self.idle = Event()
        """Set while a search waits for the device: another thread may use the interpreter and delay no step."""

    def size(self, recording: StepGraph) -> int:
        return recording.bytes

    def drop(self, recording: StepGraph) -> None:
        self.warm_starts = {key: warm for key, warm in self.warm_starts.items() if warm.graph is not recording}

    def clear(self) -> None:
        super().clear()
        self.warm_starts.clear()
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
            grown = fixed_capacity(state.model_state, tokens, return_attention=return_attention)
            return state._replace(model_state=grown)

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
            del first, state  # as large as the buffers
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
            state = self.buffers.released(take_sentences(graph.state, to_device(active, self.device)))
            if time == capacity:
                capacity *= 2
                state = grow(state, capacity - time)
            following = self._graph(graph.step, state, capacity)
            if following is None:
                kept = torch.arange(len(active), device=self.device)
                return steps + self.run(graph.step, state.keep_sentences(kept))
            graph = following
            graph.load(state)
            del state

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


def padded_count(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, … sentences."""
    power = 1
    while power < count:
        power *= 2
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def initial_capacity(rows: int) -> int:
    """Tokens that the first buffers of so many rows can hold."""
    return INITIAL_CAPACITY // 2 if rows > MANY_ROWS else INITIAL_CAPACITY


def few_active(size: int) -> int:
    """The number of active sentences at which a search moves from buffers of ``size`` sentences to smaller ones.

    A large batch moves when half of its sentences are done, since its steps become much faster; a medium one when three
    quarters are; a small one never (0), since its steps take the same time whatever its size.
    """
    if size > LARGE_BATCH:
        return size // 2
    return size // 4 if size > SMALL_BATCH else 0


def pad_sentences(state: SearchState, size: int) -> SearchState:
    """The state padded to ``size`` sentences; the added ones are done already."""
    count = len(state.sentences_B)
    return state if count == size else take_sentences(state, torch.arange(count, device=state.done_B.device))


def take_sentences(state: SearchState, sentences: Tensor) -> SearchState:
    """The given sentences and, up to the next number of sentences that buffers have, others that are done."""
    count, size = len(sentences), padded_count(len(sentences))
    rows = torch.arange(size, device=sentences.device)
    taken = state.keep_sentences(sentences[rows.clamp(max=count - 1)])
    return taken if count == size else taken._replace(done_B=taken.done_B | (rows >= count))
