"""Steps of a search captured as CUDA graphs and replayed.

A step of a small model is some hundred short kernels; launching each of them from Python takes longer than running it.
So a step is captured once for its shapes and then replayed as a whole. The `SearchState` lies in static buffers; each
replay writes the next state into them, and the step's record into a history. There are few shapes: sentences are padded
with ones that are done, key–value caches have a capacity of 32, 64, 128, … tokens.

The host never waits for the device step by step: which sentences are done is read a few steps late. When half of them,
or more, are done (`few_active`), or the capacity is used up, the rest moves into buffers of another size. While the
first steps are queued on the device, the host may prepare the next batch (`LoopWithWork`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cache
from threading import Event, Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.search.loop import Step, StepLoop, StepRecords
from weft.search.state import SearchState
from weft.search.transfers import to_device
from weft.tree import Tree, leaves, map_tree, with_capacity

INITIAL_CAPACITY = 32
"""Tokens that the first buffers can hold."""
READ_DELAY = 2
"""After how many steps it is read which sentences are done …"""
FEW_ROWS = 64
"""… or after one, if there are so few rows that the steps are short."""
LARGE, SMALL = 512, 32
"""Sentences: see `few_active`."""
MEMORY_FRACTION = 0.25
"""Of the device's memory: what the buffers of all graphs that are kept may take together."""


class ChangingShapeError(Exception):
    """A step whose shapes change: it cannot be captured."""


class StepGraph:
    """One captured step with the buffers it reads and writes."""

    idle = Event()
    """Set while the host waits for the device; `CudaGraphLoop` replaces it."""

    def __init__(self, step: Step, state: SearchState, capacity: int, pool: Any) -> None:
        self.step = step  # what was captured must stay alive
        self.state: SearchState = map_tree(torch.clone, state)
        self.capacity = capacity
        self._warm_up()
        self.graph = capture(self.step_buffers, pool)
        self.done_on_host = torch.zeros(capacity, len(state.done_B), dtype=torch.bool, pin_memory=True)
        self.events = [torch.cuda.Event() for _ in range(capacity)]

    @property
    def bytes(self) -> int:
        return sum(leaf.nbytes for leaf in (*leaves(self.state), *leaves(self.history)))

    def _warm_up(self) -> None:
        """One step before the capture: what is made on first use is made now, and shapes are known."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.allocate_history(*self.step(self.state))
        torch.cuda.current_stream().wait_stream(stream)

    def allocate_history(self, after: SearchState, record: Tree) -> None:
        """Buffers for the records of steps like this one."""
        for old, new in zip(leaves(self.state), leaves(after), strict=True):
            if old.shape != new.shape:
                raise ChangingShapeError
        self.history = map_tree(lambda leaf: leaf.new_zeros(self.capacity, *leaf.shape), record)

    def step_buffers(self) -> None:
        """What is captured: one step from the buffers into the buffers."""
        after, record = self.step(self.state)
        for buffer, leaf in zip(leaves(self.history), leaves(record), strict=True):
            buffer.index_copy_(0, self.state.length_1, leaf[None])
        _copy(after, self.state)

    def replay(self, time: int) -> None:
        """Launch one step, and the copy to the host of which sentences are done."""
        self.graph.replay()
        self.done_on_host[time].copy_(self.state.done_B, non_blocking=True)
        self.events[time].record(self.stream)

    def done(self, time: int) -> np.ndarray:
        """Which sentences were done after a step."""
        event = self.events[time]
        if not event.query():
            self.idle.set()
            event.synchronize()
            self.idle.clear()
        return self.done_on_host[time].numpy()

    def run(
        self, state: SearchState, count: int, time: int, work: Callable[[], None] | None = None
    ) -> tuple[StepRecords, int, np.ndarray]:
        """Step after step from ``time`` on, until a change of size is due: the records, the time, the active sentences.

        ``count``: how many of the sentences are not padding; ``work``: what the host does while the first steps are
        taken. Sentences of which it is not known yet that they are done count as active.
        """
        _copy(state, self.state)
        self.stream = torch.cuda.current_stream() if state.done_B.is_cuda else None
        start, few = time, few_active(len(state.done_B))
        delay = READ_DELAY if len(state.tokens_R) > FEW_ROWS else 1
        done_B = np.zeros(0, dtype=bool)
        while time < self.capacity:
            self.replay(time)
            time += 1
            if time - start > delay:
                if work is not None:
                    work()
                    work = None
                done_B = self.done(time - 1 - delay)
                if len(done_B) - int(np.count_nonzero(done_B)) <= few:
                    break
        else:
            done_B = self.done(time - 1)
        # What the device goes on with stays there; the buffers are overwritten by the next search.
        take = torch.clone if getattr(self.history, "stays_on_device", False) else Tensor.cpu
        sentences = take(state.sentences_B[:count])
        records = map_tree(lambda leaf: take(leaf[start:time, :count]), self.history)
        return StepRecords(sentences, records), time, np.flatnonzero(~done_B[:count])


_capturing = Lock()


@cache
def _capture_stream(device: int) -> torch.cuda.Stream:
    """One for all graphs: memory of a pool is shared only between captures on the same stream."""
    return torch.cuda.Stream(device)


def capture(function: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph:
    """What a function launches, recorded; other threads may use the device meanwhile."""
    graph, stream = torch.cuda.CUDAGraph(), _capture_stream(torch.cuda.current_device())
    with _capturing:
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                function()
            finally:
                graph.capture_end()
    return graph


def _copy(values: Tree, buffers: Tree) -> None:
    pairs = [(old, new) for old, new in zip(leaves(buffers), leaves(values), strict=True) if old is not new]
    changed = [(old, new) for old, new in pairs if old.data_ptr() != new.data_ptr()]
    by_type: dict[torch.dtype, list[tuple[Tensor, Tensor]]] = {}
    for old, new in changed:
        by_type.setdefault(old.dtype, []).append((old, new))
    for pairs in by_type.values():  # of one type they are copied by one kernel
        torch._foreach_copy_([old for old, _ in pairs], [new for _, new in pairs])


class CudaGraphLoop(StepLoop):
    """A loop that keeps the graphs it has captured; one for each model on a GPU."""

    graph_type: type[StepGraph] = StepGraph

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.graphs: OrderedDict[Hashable, StepGraph] = OrderedDict()
        self.lock = Lock()
        """Held while a search uses the buffers."""
        self.idle = Event()
        """Set while a search waits for the device: another thread may use the interpreter and delay no step."""
        self.pool: Any = None
        self.max_bytes = 0.0
        if device.type == "cuda":
            self.pool = torch.cuda.graph_pool_handle()
            self.max_bytes = torch.cuda.get_device_properties(device).total_memory * MEMORY_FRACTION

    def run(
        self,
        step: Step,
        state: SearchState,
        *,
        return_attention: bool = False,
        work: Callable[[], None] | None = None,
    ) -> list[StepRecords]:
        """``work``: what the host does while the device takes the first steps."""
        with self.lock:
            return self._run(step, state, return_attention=return_attention, work=work)

    def _run(
        self, step: Step, state: SearchState, *, return_attention: bool, work: Callable[[], None] | None
    ) -> list[StepRecords]:
        def grow(state: SearchState, tokens: int) -> SearchState:
            grown = with_capacity(state.model_state, tokens, return_attention=return_attention)
            return state._replace(model_state=grown)

        steps: list[StepRecords] = []
        capacity, time = INITIAL_CAPACITY, 0
        count = len(state.sentences_B)
        state = grow(state, capacity)
        while count:
            state = pad_sentences(state, padded_count(count))
            graph = self._graph(step, state, capacity)
            if graph is None:
                return steps + super().run(step, state.keep_sentences(torch.arange(count, device=self.device)))
            records, time, active = graph.run(state, count, time, work)
            work = None
            steps.append(records)
            count = len(active)
            if count:
                state = take_sentences(graph.state, to_device(active, self.device))
                if time == capacity:
                    capacity *= 2
                    state = grow(state, capacity - time)
        return steps

    def _graph(self, step: Step, state: SearchState, capacity: int) -> StepGraph | None:
        """The graph of a step for these shapes; None: its shapes change."""
        key = (step, capacity, tuple((leaf.shape, leaf.dtype) for leaf in leaves(state)))
        if key in self.graphs:
            self.graphs.move_to_end(key)
            return self.graphs[key]
        try:
            graph = self.graph_type(step, state, capacity, self.pool)
        except ChangingShapeError:
            return None
        self.graphs[key] = graph
        graph.idle = self.idle
        while len(self.graphs) > 1 and sum(kept.bytes for kept in self.graphs.values()) > self.max_bytes:
            self.graphs.popitem(last=False)
        return graph


class LoopWithWork(StepLoop):
    """A `CudaGraphLoop` for one search, while whose first steps are taken the host does something else."""

    def __init__(self, loop: CudaGraphLoop, work: Callable[[], None]) -> None:
        self.loop = loop
        self.work = work

    def run(self, step: Step, state: SearchState, *, return_attention: bool = False) -> list[StepRecords]:
        return self.loop.run(step, state, return_attention=return_attention, work=self.work)


def padded_count(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, … sentences."""
    power = 1
    while power < count:
        power *= 2
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def few_active(size: int) -> int:
    """So few active sentences of a number that the rest moves into smaller buffers; 0: it never does.

    A large batch saves most by becoming smaller; the steps of a small one take the same time whatever its size.
    """
    return size // 2 if size > LARGE else size // 4 if size > SMALL else 0


def pad_sentences(state: SearchState, size: int) -> SearchState:
    """With ``size`` sentences, those added being done already."""
    count = len(state.sentences_B)
    return state if count == size else take_sentences(state, torch.arange(count, device=state.done_B.device))


def take_sentences(state: SearchState, sentences: Tensor) -> SearchState:
    """The given sentences and, up to the next number of sentences that buffers have, others that are done."""
    count, size = len(sentences), padded_count(len(sentences))
    rows = torch.arange(size, device=sentences.device)
    taken = state.keep_sentences(sentences[rows.clamp(max=count - 1)])
    return taken if count == size else taken._replace(done_B=taken.done_B | (rows >= count))
